// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// drainSteps is in how many steps, at most, the sessions are asked to move.
const drainSteps = 50

// Drain asks all sessions to move, so that they dial spread over within: the asking
// takes half of it, and each operator dials at a random moment of the other half.
// Sessions that open meanwhile are asked too. It returns when none is left, or when
// ctx ends; those that are left then go on.
func (s *Server) Drain(ctx context.Context, within time.Duration, reason string) {
	moving := &wire.Moving{Within: (within / 2).Milliseconds(), Reason: reason}
	s.draining.Store(moving)
	defer s.draining.Store(nil)
	closed := make(chan struct{}, 1)
	defer s.registry.Subscribe(func(e Event) {
		if e.Kind == Closed {
			select {
			case closed <- struct{}{}:
			default: // told already
			}
		}
	})()

	held := s.registry.sessions()
	s.o.Logger.Info("Asking sessions to move", "sessions", len(held), "within", within.String(), "reason", reason)
	rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	size := len(held)/drainSteps + 1
	steps := (len(held) + size - 1) / size
	step := time.NewTicker(max(within/2/time.Duration(max(steps, 1)), time.Nanosecond))
	defer step.Stop()
	for some := range slices.Chunk(held, size) {
		for _, one := range some {
			one.move(moving)
		}
		select {
		case <-step.C:
		case <-ctx.Done():
			return
		}
	}
	for s.registry.Len() > 0 {
		select {
		case <-closed:
		case <-ctx.Done():
			return
		}
	}
}
