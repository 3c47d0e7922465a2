// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubenest/kubenest/api/wire"
)

// maxReason is what a close frame has room for after its code, in bytes.
const maxReason = 123

var (
	errBinary   = fmt.Errorf("%w: binary frame", wire.ErrMalformed)
	errNested   = fmt.Errorf("%w: chunk inside a chunked message", wire.ErrMalformed)
	errFull     = errors.New("too much is waiting to be written")
	errFlooding = errors.New("more messages than the budget allows")
	errOverflow = fmt.Errorf("%w: more on its way in streams than their windows allow", errFlooding)
	errStreams  = fmt.Errorf("%w: the streams' frames make no sense", wire.ErrMalformed)
)

// Ended says why a connection ended. It is the error of Read, and in those of
// Send.
type Ended struct {
	// Ending is why; the first one counts.
	Ending wire.Ending
	// Text is what the side that ended it had to say, for logs.
	Text string
	// Told is set if the peer ended it, by a close frame.
	Told bool
	// Err is what went wrong, nil if the connection was closed on purpose.
	Err error
}

// Error tells ending, text and cause.
func (e *Ended) Error() string {
	var b strings.Builder
	b.WriteString("session ended (" + string(e.Ending) + ")")
	if e.Told {
		b.WriteString(" by the peer")
	}
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap is the cause, if there is one.
func (e *Ended) Unwrap() error { return e.Err }

// frame is the payload of the close frame that tells it.
func (e *Ended) frame() []byte {
	reason := string(e.Ending)
	if e.Text != "" && !e.Told {
		reason += ": " + strings.ToValidUTF8(e.Text, "?")
	}
	return websocket.FormatCloseMessage(e.Ending.Code(), wire.Shorten(reason, maxReason))
}

// Close ends the connection: what small messages wait are still sent, then a
// close frame. It does not block. The TCP connection is gone after
// wire.CloseTimeout at most. If the connection has ended already, nothing
// changes.
func (c *Conn) Close(e wire.Ending, text string) { c.end(&Ended{Ending: e, Text: text}) }

// Ended is why the connection ended; empty while it has not.
func (c *Conn) Ended() wire.Ending {
	if e := c.reason(); e != nil {
		return e.Ending
	}
	return ""
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.ended != nil {
			close(c.done)
		}
	}
	return c.done
}

// Wait returns when nothing is left of the connection: no writer, no TCP
// connection. The reading goroutine calls it last. It ends the connection if
// nobody has, and takes wire.CloseTimeout at most.
func (c *Conn) Wait() {
	c.end(&Ended{Ending: wire.EndLost})
	if !c.reason().Told {
		// Closing while data is unread makes TCP reset the connection, and the peer
		// may lose our farewell: so throw away what comes until it has closed.
		_ = c.raw.SetReadDeadline(time.Time{})
		_, _ = io.Copy(io.Discard, c.raw)
	}
	c.mu.Lock()
	streams := c.streams
	idle := c.out.idle
	if idle == nil && c.out.writing {
		idle = make(chan struct{})
		c.out.idle = idle
	}
	c.mu.Unlock()
	if idle != nil {
		<-idle
	}
	streams.wait()
	c.tearDown.Stop()
	_ = c.raw.Close()
}

// reason is why the connection ended; nil while it has not.
func (c *Conn) reason() *Ended {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// end is where every ending comes by. Only the first one counts.
func (c *Conn) end(e *Ended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return
	}
	c.ended = e
	c.out.dropLarge(len(c.out.large)) // a farewell does not wait for them
	c.out.ping, c.out.pong, c.out.opening = false, false, false
	c.streams.endLocked()
	if c.done != nil {
		close(c.done)
	}
	_ = c.ws.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
	wait := wire.CloseTimeout
	if e.Ending == wire.EndLost && !e.Told {
		wait = 0 // nobody is there to be told
		c.out.farewell = true
	}
	c.tearDown = time.AfterFunc(wait, func() { _ = c.raw.Close() })
	c.startWriterLocked()
}

// endedBy tells the ending from an error of reading.
func endedBy(err error) *Ended {
	told, closed := errors.AsType[*websocket.CloseError](err)
	network, ok := errors.AsType[net.Error](err)
	switch {
	case closed && told.Code != websocket.CloseAbnormalClosure:
		e := &Ended{Ending: toldEnding(told.Code), Text: wire.Line(told.Text, maxReason), Told: true}
		// Our own kind repeats the ending in words; once is enough.
		text := strings.TrimPrefix(e.Text, string(e.Ending))
		if text != e.Text {
			e.Text = strings.TrimPrefix(text, ": ")
		}
		return e
	case errors.Is(err, errFlooding):
		return &Ended{Ending: wire.EndFlooding, Err: err}
	case errors.Is(err, wire.ErrMalformed), errors.Is(err, websocket.ErrReadLimit):
		return &Ended{Ending: wire.EndProtocol, Err: err}
	case ok && network.Timeout():
		return &Ended{Ending: wire.EndSilent, Err: err}
	case !closed && strings.HasPrefix(err.Error(), "websocket: "):
		// gorilla has no type for frames against RFC 6455.
		return &Ended{Ending: wire.EndProtocol, Err: err}
	}
	return &Ended{Ending: wire.EndLost, Err: err}
}

// endedByWrite tells the ending from an error of writing.
func endedByWrite(err error) *Ended {
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return &Ended{Ending: wire.EndSlow, Err: err}
	}
	return &Ended{Ending: wire.EndLost, Err: err}
}

// toldEnding is the ending in a close frame. Codes that RFC 6455 has for broken
// rules are sent by WebSocket libraries on their own.
func toldEnding(code int) wire.Ending {
	switch code {
	case websocket.CloseProtocolError, websocket.CloseUnsupportedData,
		websocket.CloseInvalidFramePayloadData, websocket.CloseMessageTooBig:
		return wire.EndProtocol
	default:
		return wire.EndingOf(code)
	}
}
