// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// Stream is a stream of bytes in both directions, within a connection and no longer
// than it. What is written waits, within wire.StreamWindow, until the peer has read
// it; a writer that waits holds nothing else up. One goroutine may read and one may
// write; Close is safe for concurrent use.
type Stream struct {
	conn   *Conn
	mux    *yamux.Stream
	closed atomic.Bool
}

// Read fails with io.EOF when the peer has closed the stream, with net.ErrClosed when
// this end has, and with *Ended when the connection has ended.
func (s *Stream) Read(b []byte) (int, error) {
	if s.closed.Load() {
		return 0, s.errorOf(net.ErrClosed)
	}
	n, err := s.mux.Read(b)
	if n > 0 {
		return n, nil // an error of the answer to it comes again
	}
	return n, s.errorOf(err)
}

// Write waits until the peer has room. When the stream is closed meanwhile, by
// either end, it fails; the peer's closing alone is told to Read.
func (s *Stream) Write(b []byte) (int, error) {
	n, err := s.mux.Write(b)
	return n, s.errorOf(err)
}

// Close closes the stream: what was written arrives still, and the peer reads to
// the end. Reading fails from now on; what the peer writes is lost, and it should
// close, too. It is safe to call again.
func (s *Stream) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	_ = s.mux.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
	return s.mux.Close()
}

// SetReadDeadline makes reads fail after a time; the zero time is never.
func (s *Stream) SetReadDeadline(t time.Time) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.mux.SetReadDeadline(t)
}

// SetWriteDeadline makes writes that wait for the peer fail after a time; the zero
// time is never.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.mux.SetWriteDeadline(t) }

// Done is closed when the connection has ended, and the stream with it.
func (s *Stream) Done() <-chan struct{} { return s.conn.Done() }

// errorOf tells the end of the connection from that of the stream.
func (s *Stream) errorOf(err error) error {
	if err == nil {
		return nil
	}
	ended := s.conn.reason()
	switch {
	case ended != nil:
		return ended
	case s.closed.Load():
		return net.ErrClosed
	}
	return err
}
