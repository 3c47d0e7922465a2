// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

// session is one operator's connection. There are thousands, so it holds little.
type session struct {
	// Static.
	server *Server
	conn   *socket.Conn

	// Owned by the reading goroutine.
	heartbeats *rate.Limiter

	mu      sync.Mutex
	info    Info        // its ids and epoch are static once registered
	late    *wire.Facts // the newest of too many heartbeats
	orders  map[string]chan<- string
	renewal renewal
	timer   *time.Timer
	over    bool
}

func (s *Server) newSession(ws *websocket.Conn) *session {
	return &session{
		server:     s,
		conn:       socket.New(ws, socket.Options{Timing: s.o.Timing, Budget: s.o.Limits.Messages, MaxQueued: s.o.Limits.Queued}),
		heartbeats: rate.NewLimiter(rate.Limit(s.o.Limits.Heartbeats.PerSecond), s.o.Limits.Heartbeats.Burst),
	}
}

// run is the reading goroutine. It begins while the session is claimed, calls
// hungUp if the connection ends meanwhile, and goes on if the session was opened.
func (s *session) run(opened <-chan bool, hungUp func()) {
	defer s.server.door.leave()
	defer s.conn.Wait()
	first, err := s.conn.Read()
	if err != nil {
		hungUp()
	}
	if !<-opened {
		return
	}
	s.finish(s.read(first, err))
}

// begin tells that a session is open, and has it beat.
func (s *session) begin() {
	s.server.registry.tell(Event{ClusterID: s.info.ClusterID, Kind: Opened, Info: s.snapshot()})
	s.startBeating()
}

// read handles what was read first, and reads until the session ends. It never
// waits for anything but the socket: a ping behind a message that waits would look
// like death.
func (s *session) read(e wire.Envelope, err error) *socket.Ended {
	for {
		if ended, ok := errors.AsType[*socket.Ended](err); ok {
			return ended
		}
		if err := s.handle(&e); err != nil {
			s.conn.Close(wire.EndProtocol, err.Error())
		}
		e, err = s.conn.Read()
	}
}

// handle takes a message. Its error breaks the protocol.
func (s *session) handle(e *wire.Envelope) error {
	s.server.metrics.received(e.Type)
	switch e.Type {
	case wire.TypeHeartbeat:
		var m wire.Heartbeat
		if err := e.Read(&m); err != nil {
			return err
		}
		s.heartbeat(&m)
	case wire.TypeStored:
		var m wire.Stored
		if err := e.Read(&m); err != nil {
			return err
		}
		s.stored(&m)
	case wire.TypeGoodbye:
		var m wire.Goodbye
		if err := e.Read(&m); err != nil {
			return err
		}
		s.conn.Close(wire.EndGoodbye, m.Reason)
	case wire.TypeInventory, wire.TypeDelivered, wire.TypeRemoved, wire.TypeReport, wire.TypeExports:
		return s.deployment(e)
	case wire.TypeHello, wire.TypeWelcome, wire.TypeRefused, wire.TypeCredential, wire.TypeTrust, wire.TypeMoving,
		wire.TypeDeliver, wire.TypeRemove:
		return fmt.Errorf("%w: %s is out of place", wire.ErrMalformed, e.Type)
	default:
		s.server.metrics.dropped(droppedUnknown)
	}
	return nil
}

// heartbeat takes facts, unless there were too many lately: then the newest waits
// for the next beat.
func (s *session) heartbeat(m *wire.Heartbeat) {
	allowed := s.heartbeats.Allow()
	if !allowed {
		s.server.metrics.dropped(droppedBudget)
	}
	if s.take(m.Facts, allowed) {
		s.tellFacts()
	}
}

// take reports whether facts, nil for those sent last, were taken and are new.
func (s *session) take(facts *wire.Facts, allowed bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case facts == nil && (s.late != nil || !allowed):
		return false // the beat sees to it
	case facts == nil:
		facts = &s.info.Facts
	case !allowed:
		s.late = facts
		return false
	}
	s.late = nil
	return s.learnLocked(facts)
}

func (s *session) learnLocked(facts *wire.Facts) (changed bool) {
	changed = !s.info.Facts.Equal(facts)
	s.info.Facts, s.info.FactsAt = *facts, time.Now()
	return changed
}

func (s *session) tellFacts() {
	s.server.registry.tell(Event{ClusterID: s.info.ClusterID, Kind: FactsChanged, Info: s.snapshot()})
}

// snapshot is what others see of the session.
func (s *session) snapshot() Info {
	heard := s.conn.LastHeard()
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	info.LastHeard = heard
	return info
}

// move asks the operator to open its next session.
func (s *session) move(m *wire.Moving) { _ = s.conn.Send(wire.TypeMoving, m) } // one that has ended has moved

// finish takes the session out, and tells and counts how it ended.
func (s *session) finish(ended *socket.Ended) {
	s.mu.Lock()
	s.over = true
	s.timer.Stop()
	s.mu.Unlock()

	ending := ended.Ending
	if ended.Told && !tellable(ending) {
		ending = wire.EndLost
	}
	info, now := s.snapshot(), time.Now()
	end := End{
		SessionID: info.SessionID, Epoch: info.Epoch, Ending: ending, Message: ended.Text,
		LastHeard: info.LastHeard, At: now, Age: now.Sub(info.ConnectedAt),
	}
	if end.Message == "" && ended.Err != nil {
		end.Message = ended.Err.Error()
	}
	end.Message = wire.Line(end.Message, wire.MaxText) // it is in part the operator's words
	s.server.registry.remove(s, end)
	s.server.metrics.ended.WithLabelValues(string(ending)).Inc()
	values := append(s.log(), "ending", ending, "byOperator", ended.Told, "message", end.Message, "age", end.Age.Round(time.Millisecond).String())
	switch ending {
	case wire.EndProtocol, wire.EndFlooding:
		s.server.o.Logger.Error(ended, "Session ended", values...)
	default:
		s.server.o.Logger.Info("Session ended", values...)
	}
	s.server.registry.tell(Event{ClusterID: info.ClusterID, Kind: Closed, Info: info, Ended: &end})
}

// tellable reports whether an ending is an operator's to tell. The others are the
// hub's own judgements: an operator can't declare its token revoked.
func tellable(e wire.Ending) bool {
	switch e {
	case wire.EndMoving, wire.EndGoodbye, wire.EndProtocol, wire.EndFlooding, wire.EndSlow, wire.EndSilent:
		return true
	default:
		return false
	}
}

// log names the session in a log line. A logger with these values for each session
// would hold more memory than the session.
func (s *session) log() []any {
	return []any{"cluster", s.info.ClusterID, "session", s.info.SessionID, "epoch", s.info.Epoch}
}
