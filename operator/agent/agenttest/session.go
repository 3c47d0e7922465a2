// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

// Session is the hub's end of one.
type Session struct {
	// Attempt that opened it.
	Attempt Attempt
	// Hello and Welcome that were exchanged.
	Hello   wire.Hello
	Welcome wire.Welcome
	// Messages that the operator sends, in order.
	Messages chan wire.Envelope
	// Done is closed when the session has ended, and Ended is set then.
	Done  chan struct{}
	Ended *socket.Ended

	conn   *socket.Conn
	silent atomic.Bool
}

// ping as a hub does, once a beat.
func (s *Session) ping(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.Done:
			return
		case <-ticker.C:
			if !s.silent.Load() {
				s.conn.Ping()
			}
		}
	}
}

// Silence makes the hub's end of a session half-open: it says nothing any more, and
// does not close.
func (s *Session) Silence() { s.silent.Store(true) }

func (s *Session) read() {
	defer close(s.Done)
	for {
		e, err := s.conn.Read()
		if err != nil {
			_ = errors.As(err, &s.Ended)
			s.conn.Wait()
			return
		}
		s.Messages <- e
	}
}

// Send a message.
func (s *Session) Send(t wire.Type, message any) error { return s.conn.Send(t, message) }

// OpenStream opens a byte stream.
func (s *Session) OpenStream(ctx context.Context) (*socket.Stream, error) {
	return s.conn.OpenStream(ctx)
}

// Close with a word.
func (s *Session) Close(ending wire.Ending, text string) { s.conn.Close(ending, text) }

// Cut the connection without a word.
func (s *Session) Cut() { s.conn.Close(wire.EndLost, "") }
