// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// State of an agent, for probes, Events and logs.
type State struct {
	// Connected is whether there is a session.
	Connected bool
	// Since when Connected is what it is.
	Since time.Time
	// Session, Epoch and Replica are those of the session, or of the last one.
	Session string
	Epoch   int64
	Replica string
	// Refusal of the last attempt; nil if it was welcomed or reached no hub.
	Refusal *wire.Refusal
	// Failure of the last attempt, nil if a hub answered.
	Failure *Failure
	// LastSuccess is when a hub last answered, by welcome, refusal or session.
	LastSuccess time.Time
}

// Trouble is what keeps the agent from being connected, in words; empty while it
// is connected.
func (s *State) Trouble() string {
	switch {
	case s.Connected:
		return ""
	case s.Refusal != nil:
		return fmt.Sprintf("the hub refuses this operator (%s): %s", s.Refusal.Class, s.Refusal.Message)
	case s.Failure != nil:
		return s.Failure.Error()
	default:
		return "not connected to the hub yet"
	}
}

// cause names what changed between two states, without the words.
func (s *State) cause() string {
	switch {
	case s.Connected:
		return "connected"
	case s.Refusal != nil:
		return "refused " + string(s.Refusal.Class)
	case s.Failure != nil:
		return "failed " + string(s.Failure.Kind)
	default:
		return ""
	}
}

// status is the State, and who is told of its changes.
type status struct {
	notify func(State)
	start  time.Time

	mu      sync.Mutex
	state   State
	resting time.Time // until when a hub asked not to be asked
}

func newStatus(now time.Time, notify func(State)) *status {
	if notify == nil {
		notify = func(State) {}
	}
	return &status{notify: notify, start: now, state: State{Since: now, LastSuccess: now}}
}

func (s *status) get() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// change applies a change and tells of it if it is one of cause. It is called by
// Run's goroutine only, so that what is told is in order.
func (s *status) change(apply func(*State)) {
	s.mu.Lock()
	before := s.state
	apply(&s.state)
	after := s.state
	s.mu.Unlock()
	if before.cause() != after.cause() {
		s.notify(after)
	}
}

func (s *status) welcomed(w *wire.Welcome, now time.Time) {
	s.change(func(st *State) {
		if !st.Connected {
			st.Connected, st.Since = true, now
		}
		st.Session, st.Epoch, st.Replica = w.Session, w.Epoch, w.Replica
		st.Refusal, st.Failure, st.LastSuccess = nil, nil, now
	})
}

func (s *status) ended(now time.Time) {
	s.change(func(st *State) { st.Connected, st.Since, st.LastSuccess = false, now, now })
}

func (s *status) failed(err error, now time.Time) {
	s.change(func(st *State) {
		st.Refusal, st.Failure = nil, nil
		switch {
		case errors.As(err, &st.Refusal):
			st.LastSuccess = now // a hub is there, and its answer is clear
		case errors.As(err, &st.Failure):
		default:
			st.Failure = &Failure{Kind: FailedConfiguration, Err: err}
		}
	})
}

// rest notes a wait that a hub asked for: it is no sign of being stuck.
func (s *status) rest(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting = until
}

// idle is how long nothing has worked.
func (s *status) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Connected {
		return 0
	}
	return min(time.Since(s.state.LastSuccess), time.Since(s.resting))
}

const (
	// ReadyGrace is how long an agent counts as ready before its first session.
	ReadyGrace = time.Minute
	// DefaultWatchdog is how long nothing may work before the agent counts as stuck.
	DefaultWatchdog = 10 * time.Minute
)

// Ready fails when there is no session, except within ReadyGrace after the start.
func (a *Agent) Ready() error {
	st := a.status.get()
	if st.Connected || time.Since(a.status.start) < ReadyGrace {
		return nil
	}
	return errors.New(st.Trouble())
}

// Alive fails when nothing has worked for longer than the watchdog allows: no
// session, and not even a clean refusal. A restart is then worth a try.
func (a *Agent) Alive() error {
	st, idle := a.status.get(), a.status.idle()
	if idle < a.watchdog {
		return nil
	}
	return fmt.Errorf("no hub has answered for %v: %s", idle.Round(time.Second), st.Trouble())
}

// State is how the agent is doing now.
func (a *Agent) State() State { return a.status.get() }
