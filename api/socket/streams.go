// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/kubenest/kubenest/api/wire"
)

// ErrTooManyStreams says that a connection has wire.MaxStreams streams already.
var ErrTooManyStreams = errors.New("too many streams are open")

const (
	// maxUnread bounds what binary frames brought and yamux has not taken yet. Windows
	// bound what the streams carry; headers, of 12 bytes, may be as much again.
	maxUnread = 2 * wire.MaxStreams * wire.StreamWindow
	// maxUnwritten bounds what yamux has written and the socket has not.
	maxUnwritten = wire.MaxFrame
	// yamux's own patience with a write, which must not run out: it would lose track of
	// the stream's window. A write that makes no progress ends the connection.
	muxPatience = 24 * time.Hour
)

// streams are what a connection has from its first stream on.
type streams struct {
	conn   *Conn
	accept func(*Stream) // nil where streams are opened
	mux    *yamux.Session

	opening sync.Mutex // one opens at a time, so that none is one too many
	own     sync.WaitGroup

	// Owned by the reading goroutine of the connection.
	guard guard

	in struct {
		sync.Mutex
		frames [][]byte
		bytes  int
		closed bool
		filled sync.Cond
	}
	// Guarded by Conn.mu.
	out       []byte
	announced bool      // the last write was a header, the next is its data
	drained   sync.Cond // of Conn.mu
	leaving   bool      // nothing is started any more
}

// OpenStream opens a stream to the peer, which must accept some: Options.Accept of
// this end is nil then. It waits for the socket only, not for the peer. Errors are
// ErrTooManyStreams, ctx's, or of the end of the connection.
func (c *Conn) OpenStream(ctx context.Context) (*Stream, error) {
	if c.accept != nil {
		return nil, errors.New("open stream: this end accepts streams and opens none")
	}
	s, err := c.startStreams()
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	type result struct {
		stream *Stream
		err    error
	}
	opened := make(chan result, 1)
	if !c.goes(s, func() {
		stream, err := s.open()
		opened <- result{stream, err}
	}) {
		return nil, fmt.Errorf("open stream: %w", c.reason())
	}
	select {
	case r := <-opened:
		if r.err != nil {
			return nil, fmt.Errorf("open stream: %w", r.err)
		}
		return r.stream, nil
	case <-ctx.Done():
		c.goes(s, func() { // if not, it is gone with the connection
			if r := <-opened; r.err == nil {
				_ = r.stream.Close()
			}
		})
		return nil, fmt.Errorf("open stream: %w", ctx.Err())
	}
}

func (s *streams) open() (*Stream, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.mux.NumStreams() >= wire.MaxStreams {
		return nil, ErrTooManyStreams
	}
	opened, err := s.mux.OpenStream()
	if err != nil {
		if ended := s.conn.reason(); ended != nil {
			err = ended
		}
		return nil, err
	}
	return &Stream{conn: s.conn, mux: opened}, nil
}

// startStreams makes the yamux session, unless there is one.
func (c *Conn) startStreams() (*streams, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended != nil:
		return nil, c.ended
	case c.streams != nil:
		return c.streams, nil
	}
	s := &streams{conn: c, accept: c.accept}
	s.guard.accepts = c.accept != nil
	s.in.filled.L, s.drained.L = &s.in, &c.mu
	config := &yamux.Config{
		AcceptBacklog:          wire.MaxStreams,
		KeepAliveInterval:      time.Minute, // not used: the socket has its own
		ConnectionWriteTimeout: muxPatience,
		MaxStreamWindowSize:    wire.StreamWindow,
		StreamCloseTimeout:     wire.StreamLinger,
		Logger:                 silence{},
	}
	var err error
	if s.accept != nil {
		s.mux, err = yamux.Server(s, config)
	} else {
		s.mux, err = yamux.Client(s, config)
	}
	if err != nil {
		return nil, fmt.Errorf("start streams: %w", err)
	}
	c.streams = s
	if s.accept != nil {
		s.own.Go(s.acceptAll)
	}
	return s, nil
}

// goes runs f on a goroutine that Wait joins, unless the connection has ended.
func (c *Conn) goes(s *streams, f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.leaving {
		return false
	}
	s.own.Go(f)
	return true
}

// acceptAll hands the peer's streams over, and closes those that are too many.
func (s *streams) acceptAll() {
	for {
		accepted, err := s.mux.AcceptStream()
		switch {
		case err != nil:
			return
		case s.mux.NumStreams() > wire.MaxStreams:
			_ = accepted.Close()
		default:
			s.accept(&Stream{conn: s.conn, mux: accepted})
		}
	}
}

// received takes a binary frame. It never waits.
func (c *Conn) received(frame []byte) error {
	c.mu.Lock()
	s := c.streams
	c.mu.Unlock()
	if s == nil {
		if c.accept == nil {
			return errBinary // no stream was opened
		}
		var err error
		if s, err = c.startStreams(); err != nil {
			return err
		}
	}
	bare, err := s.guard.look(frame)
	if err != nil {
		return err
	}
	if err := c.budget.spend(float64(bare) * chunkCost); err != nil {
		return err
	}
	s.in.Lock()
	defer s.in.Unlock()
	switch {
	case s.in.closed || len(frame) == 0:
		return nil
	case s.in.bytes+len(frame) > maxUnread:
		return errOverflow
	}
	s.in.frames = append(s.in.frames, frame)
	s.in.bytes += len(frame)
	s.in.filled.Signal()
	return nil
}

// Read gives yamux what binary frames brought.
func (s *streams) Read(b []byte) (int, error) {
	s.in.Lock()
	defer s.in.Unlock()
	for len(s.in.frames) == 0 {
		if s.in.closed {
			return 0, io.EOF
		}
		s.in.filled.Wait()
	}
	n := copy(b, s.in.frames[0])
	s.in.bytes -= n
	if s.in.frames[0] = s.in.frames[0][n:]; len(s.in.frames[0]) == 0 {
		s.in.frames[0] = nil
		if s.in.frames = s.in.frames[1:]; len(s.in.frames) == 0 {
			s.in.frames = nil // idle streams hold no array
		}
	}
	return n, nil
}

// Write takes what yamux sends, and waits while the socket can't.
func (s *streams) Write(b []byte) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	data := s.announced
	for written := 0; written < len(b); {
		for len(s.out) >= maxUnwritten && c.ended == nil {
			s.drained.Wait()
		}
		if c.ended != nil {
			return written, net.ErrClosed
		}
		n := min(maxUnwritten-len(s.out), len(b)-written)
		s.out = append(s.out, b[written:written+n]...)
		written += n
		// yamux writes a header and its data one after the other: they go together.
		s.announced = !data && announcesData(b)
		if !s.announced || len(s.out) >= maxUnwritten {
			c.startWriterLocked()
		}
	}
	return len(b), nil
}

// Close is yamux giving up, if the connection has not ended before.
func (s *streams) Close() error {
	s.conn.end(&Ended{Ending: wire.EndProtocol, Err: errStreams})
	return nil
}

// takeLocked is the next binary frame to write.
func (s *streams) takeLocked() (f []byte, ok bool) {
	if s == nil || len(s.out) == 0 || s.announced && len(s.out) < maxUnwritten {
		return nil, false
	}
	f, s.out = s.out, nil
	s.drained.Broadcast()
	return f, true
}

// endLocked drops what waits, and wakes who waits.
func (s *streams) endLocked() {
	if s == nil {
		return
	}
	s.out, s.leaving = nil, true
	s.drained.Broadcast()
	s.in.Lock()
	defer s.in.Unlock()
	s.in.closed = true
	s.in.frames, s.in.bytes = nil, 0
	s.in.filled.Broadcast()
}

// wait returns when no goroutine of the streams is left. The connection has ended.
func (s *streams) wait() {
	if s == nil {
		return
	}
	_ = s.mux.Close() // which ends its goroutines, and says nothing
	s.own.Wait()
}

// silence is yamux's logger: what goes wrong with a stream its users are told, and
// what goes wrong with all of them ends the connection.
type silence struct{}

func (silence) Print(...any)          {}
func (silence) Printf(string, ...any) {}
func (silence) Println(...any)        {}
