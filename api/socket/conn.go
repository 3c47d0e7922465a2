// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubenest/kubenest/api/wire"
)

// DefaultMaxQueued is room for a largest message while another is being written,
// in bytes.
const DefaultMaxQueued = 2 * wire.MaxMessage

// Options of a connection.
type Options struct {
	// Timing says when silence means death; the zero value is wire.DefaultTiming.
	Timing wire.Timing
	// Budget bounds what the peer may send; the zero value does not.
	Budget Budget
	// MaxQueued bounds what waits to be written, in bytes; the zero value is
	// DefaultMaxQueued.
	MaxQueued int
	// Accept is called with each stream that the peer opens, by one goroutine, and
	// must not block; whoever gets a stream closes it. Nil: the peer may open none, and
	// this end may.
	Accept func(*Stream)
}

// Conn carries wire messages over one WebSocket. One goroutine may call Read and
// then Wait; all other methods are safe for concurrent use.
type Conn struct {
	// Static.
	ws        *websocket.Conn
	raw       net.Conn // below TLS
	maxQueued int
	accept    func(*Stream)

	// Owned by the reading goroutine.
	budget    bucket
	assembler wire.Assembler

	mu       sync.Mutex // never held while reading or writing
	dead     time.Duration
	heard    time.Time
	out      queue
	ended    *Ended
	done     chan struct{} // made by Done, closed when ended
	tearDown *time.Timer   // set when ended
	streams  *streams      // from the first stream on
}

// New takes over a WebSocket, and the reading and writing of it.
func New(ws *websocket.Conn, o Options) *Conn {
	if o.Timing == (wire.Timing{}) {
		o.Timing = wire.DefaultTiming
	}
	if o.MaxQueued == 0 {
		o.MaxQueued = DefaultMaxQueued
	}
	c := &Conn{ws: ws, raw: bottom(ws.NetConn()), maxQueued: o.MaxQueued, accept: o.Accept, budget: bucket{Budget: o.Budget}, heard: time.Now()}
	ws.SetReadLimit(wire.MaxFrame)
	// gorilla's own handlers write, and so would make the reader wait.
	ws.SetCloseHandler(ignoreClose)
	ws.SetPingHandler(c.pinged)
	ws.SetPongHandler(c.ponged)
	c.SetTiming(o.Timing)
	return c
}

// SetTiming changes when silence means death, from now on.
func (c *Conn) SetTiming(t wire.Timing) {
	c.mu.Lock()
	c.dead = t.DeadAfter
	c.postponeLocked()
	c.mu.Unlock()
	setUserTimeout(c.raw, t.DeadAfter)
}

// LastHeard is when the last frame of any kind came, with a monotonic reading;
// when the connection was taken over if none has.
func (c *Conn) LastHeard() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// RemoteAddr is the peer's address, for logs.
func (c *Conn) RemoteAddr() net.Addr { return c.ws.RemoteAddr() }

// Read waits for the next message. Its error is always *Ended.
func (c *Conn) Read() (wire.Envelope, error) {
	for {
		e, complete, err := c.next()
		switch {
		case err != nil:
			c.end(endedBy(err))
			return wire.Envelope{}, c.reason()
		case complete:
			return e, nil
		}
	}
}

// next reads a frame, which may be a message.
func (c *Conn) next() (e wire.Envelope, complete bool, err error) {
	kind, frame, err := c.readFrame()
	switch {
	case err != nil:
		return e, false, err
	case kind == websocket.BinaryMessage:
		return e, false, c.received(frame)
	}
	return c.decode(frame)
}

// readFrame reads a frame. What came after the end is not looked at.
func (c *Conn) readFrame() (kind int, frame []byte, err error) {
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return 0, nil, err
	}
	c.alive()
	if frame, err = io.ReadAll(r); err != nil {
		return 0, nil, err
	}
	if c.Ended() != "" {
		return 0, nil, net.ErrClosed
	}
	return kind, frame, nil
}

// decode makes a message of a frame, unless it is a chunk that others follow.
func (c *Conn) decode(frame []byte) (e wire.Envelope, complete bool, err error) {
	if e, err = wire.Decode(frame); err != nil {
		return e, false, err
	}
	if e.Type != wire.TypeChunk {
		return e, true, c.budget.spend(messageCost)
	}
	if err := c.budget.spend(chunkCost); err != nil {
		return e, false, err
	}
	var chunk wire.Chunk
	if err := e.Read(&chunk); err != nil {
		return e, false, err
	}
	message, complete, err := c.assembler.Add(&chunk)
	if err != nil || !complete {
		return e, false, err
	}
	if e, err = wire.Decode(message); err != nil {
		return e, false, err
	}
	if e.Type == wire.TypeChunk {
		return e, false, errNested
	}
	return e, true, nil
}

// alive notes a sign of life.
func (c *Conn) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = time.Now()
	c.postponeLocked()
}

// postponeLocked puts death off.
func (c *Conn) postponeLocked() {
	if c.ended == nil {
		// An error means that the connection is gone, which reading will tell.
		_ = c.ws.SetReadDeadline(time.Now().Add(c.dead))
	}
}

func (c *Conn) pinged(data string) error {
	c.alive()
	c.pong(data)
	return c.budget.spend(messageCost)
}

func (c *Conn) ponged(string) error {
	c.alive()
	return c.budget.spend(messageCost)
}

func ignoreClose(int, string) error { return nil }

// bottom is the connection below TLS and other wrappers. It closes at once; that
// of TLS would first try to say so, for seconds if the peer does not read.
func bottom(conn net.Conn) net.Conn {
	for {
		wrapper, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = wrapper.NetConn()
	}
}
