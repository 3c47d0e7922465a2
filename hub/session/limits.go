// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/kubenest/kubenest/api/socket"
)

// Limits on what connections and sessions may use.
type Limits struct {
	// Openings is how many connections may be between their request and their
	// welcome. More wait: at most Waiting of them, each for WaitFor. Each is a write to
	// the API server: too many at once take each other's time, until at a slow one all
	// of them outlast wire.OpeningTimeout, and none gets in.
	Openings, Waiting int
	WaitFor           time.Duration
	// OpeningsOfOne is how many of them may be one cluster's, so that one operator
	// that connects and says nothing can't use them up.
	OpeningsOfOne int
	// Heartbeats that are looked at: of more, the newest wins, at the next beat.
	Heartbeats socket.Budget
	// Messages of any kind; a session with more ends as wire.EndFlooding. A correct
	// operator stays below: it sends some 20 reports a second and bursts of a hundred
	// or so, and answers what it is sent, which is paced for it (stackdeploy.PaceEvery).
	Messages socket.Budget
	// Connections of one cluster: each costs a write to its record. With more, its
	// operator is told to wait.
	Connections socket.Budget
	// Failures are the attempts with a token that does not verify, a source and
	// claimed cluster, that are answered as such; with more, it is told to slow down.
	Failures socket.Budget
	// Queued bounds what waits to be written to one session, in bytes.
	Queued int
}

// DefaultLimits let 10,000 operators come back in a minute, and keep one of them
// from costing the others anything.
func DefaultLimits() Limits {
	return Limits{
		Openings: 64, Waiting: 2048, WaitFor: 5 * time.Second,
		OpeningsOfOne: 2,
		Heartbeats:    socket.Budget{PerSecond: 5, Burst: 50},
		Messages:      socket.Budget{PerSecond: 100, Burst: 1000},
		Connections:   socket.Budget{PerSecond: 0.2, Burst: 30},
		Failures:      socket.Budget{PerSecond: 0.1, Burst: 5},
		Queued:        socket.DefaultMaxQueued,
	}
}

func (l Limits) orDefaults() Limits {
	d := DefaultLimits()
	orDefault(&l.Openings, d.Openings)
	orDefault(&l.Waiting, d.Waiting)
	orDefault(&l.WaitFor, d.WaitFor)
	orDefault(&l.OpeningsOfOne, d.OpeningsOfOne)
	orDefault(&l.Heartbeats, d.Heartbeats)
	orDefault(&l.Messages, d.Messages)
	orDefault(&l.Connections, d.Connections)
	orDefault(&l.Failures, d.Failures)
	orDefault(&l.Queued, d.Queued)
	return l
}

func orDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}
