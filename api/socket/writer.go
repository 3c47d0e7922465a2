// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"errors"
	"fmt"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubenest/kubenest/api/wire"
)

// queue is what waits to be written. At most one ping and one pong wait: a later
// one says all that the earlier did.
type queue struct {
	writing bool          // a writer goroutine exists
	idle    chan struct{} // made by Wait, closed when the writer is gone
	drained chan struct{} // made by Drained, closed when no message waits

	ping, pong bool
	pongData   string
	small      [][]byte
	large      []*cutting
	bytes      int // of small and large

	messages int64 // sent so far
	opening  bool  // the first message is large and not yet written
	farewell bool  // the close frame has been taken
}

// cutting is a large message of which chunks are still to be written.
type cutting struct {
	next func() ([]byte, error)
	left int // counted in queue.bytes
}

// frame is one frame to write.
type frame struct {
	kind int
	data []byte
}

// Send queues a message and never blocks. It fails if the message can't be
// encoded, is larger than wire.MaxMessage, or if the connection has ended; when
// more than Options.MaxQueued would wait, the peer does not read, and the
// connection ends as wire.EndSlow.
func (c *Conn) Send(t wire.Type, message any) error {
	data, err := wire.Encode(t, message)
	if err != nil {
		return err
	}
	if len(data) > wire.MaxMessage {
		return fmt.Errorf("send %s of %d bytes: at most %d are allowed", t, len(data), wire.MaxMessage)
	}
	c.mu.Lock()
	if c.ended != nil {
		defer c.mu.Unlock()
		return fmt.Errorf("send %s: %w", t, c.ended)
	}
	if c.out.bytes+len(data) > c.maxQueued {
		c.mu.Unlock()
		c.end(&Ended{Ending: wire.EndSlow, Err: errFull})
		return fmt.Errorf("send %s: %w", t, c.reason())
	}
	defer c.mu.Unlock()
	c.out.add(data)
	c.startWriterLocked()
	return nil
}

// Ping queues a WebSocket ping. The peer's pong counts as life.
func (c *Conn) Ping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.out.ping = true
		c.startWriterLocked()
	}
}

// pong answers the peer's ping.
func (c *Conn) pong(data string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.out.pong, c.out.pongData = true, data
		c.startWriterLocked()
	}
}

func (c *Conn) startWriterLocked() {
	if !c.out.writing {
		c.out.writing = true
		go c.write()
	}
}

// write is the writer goroutine: it writes until nothing waits.
func (c *Conn) write() {
	for {
		f, ok, err := c.nextFrame()
		if !ok {
			return
		}
		if err == nil {
			err = c.writeFrame(f)
		}
		// gorilla sends a close frame by itself when the peer breaks RFC 6455; the
		// reader, which caused that, says how the connection ended.
		if err != nil && !errors.Is(err, websocket.ErrCloseSent) {
			c.end(endedByWrite(err))
			_ = c.raw.Close() // the rest, and a farewell, can't be written any more
		}
	}
}

func (c *Conn) writeFrame(f frame) error {
	deadline := time.Now().Add(wire.WriteTimeout)
	switch f.kind {
	case websocket.TextMessage, websocket.BinaryMessage:
		if err := c.ws.SetWriteDeadline(deadline); err != nil {
			return err
		}
		return c.ws.WriteMessage(f.kind, f.data)
	default:
		return c.ws.WriteControl(f.kind, f.data, deadline)
	}
}

// nextFrame takes the frame to write next; when there is none, the writer that
// asked has to go.
func (c *Conn) nextFrame() (f frame, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok, err = c.out.take(); ok {
		return f, true, err
	}
	c.out.settle()
	if data, ok := c.streams.takeLocked(); ok {
		return frame{websocket.BinaryMessage, data}, true, nil
	}
	if c.ended != nil && !c.out.farewell {
		c.out.farewell = true
		return frame{websocket.CloseMessage, c.ended.frame()}, true, nil
	}
	if c.ended != nil {
		c.hangUp()
	}
	c.out.writing = false
	if c.out.idle != nil {
		close(c.out.idle)
	}
	return frame{}, false, nil
}

// hangUp lets go of the TCP connection when all is written: at once if the peer
// ended it, which has its answer, else when the peer has.
func (c *Conn) hangUp() {
	if c.ended.Told {
		_ = c.raw.Close()
		return
	}
	// Otherwise two that end at the same time would wait for each other.
	if tcp, ok := c.raw.(interface{ CloseWrite() error }); ok {
		_ = tcp.CloseWrite()
	}
}

func (q *queue) add(data []byte) {
	q.messages++
	q.bytes += len(data)
	if len(data) <= wire.MaxFrame {
		q.small = append(q.small, data)
		return
	}
	q.large = append(q.large, &cutting{next: wire.Split(data, q.messages), left: len(data)})
	if q.messages == 1 {
		q.opening = true
	}
}

// take removes the frame that goes next: signs of life, then small messages,
// then the next chunk of the oldest large one.
func (q *queue) take() (f frame, ok bool, err error) {
	switch {
	case q.pong:
		q.pong = false
		return frame{websocket.PongMessage, []byte(q.pongData)}, true, nil
	case q.ping:
		q.ping = false
		return frame{websocket.PingMessage, nil}, true, nil
	case len(q.small) > 0 && !q.opening:
		data := q.small[0]
		q.bytes -= len(data)
		if q.small = q.small[1:]; len(q.small) == 0 {
			q.small = nil // an idle connection holds no array
		}
		return frame{websocket.TextMessage, data}, true, nil
	case len(q.large) > 0:
		return q.takeChunk()
	}
	return frame{}, false, nil
}

func (q *queue) takeChunk() (f frame, ok bool, err error) {
	data, err := q.large[0].next()
	if err != nil || data != nil {
		n := min(q.large[0].left, len(data))
		q.large[0].left -= n
		q.bytes -= n
		return frame{websocket.TextMessage, data}, true, err
	}
	q.dropLarge(1)
	q.opening = false
	return q.take()
}

// dropLarge forgets the n oldest large messages.
func (q *queue) dropLarge(n int) {
	for _, c := range q.large[:n] {
		q.bytes -= c.left
	}
	if q.large = q.large[n:]; len(q.large) == 0 {
		q.large = nil
	}
}
