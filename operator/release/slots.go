// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"slices"
	"sync"
)

// slots bound how much is done at a time, and how much of it for one namespace, so that
// no Project can keep the others from theirs. Who came first goes first, unless its
// namespace has its share.
type slots struct {
	total, share int

	mu      sync.Mutex
	used    int
	by      map[string]int
	waiting []*place
}

// place is one in the queue.
type place struct {
	key string
	got chan struct{} // closed when it is its turn
}

func newSlots(total, share int) *slots {
	return &slots{total: total, share: share, by: map[string]int{}}
}

// with does something when there is a slot for it.
func (s *slots) with(ctx context.Context, key string, do func() error) error {
	if err := s.take(ctx, key); err != nil {
		return err
	}
	defer s.give(key)
	return do()
}

// take waits for a slot, which is to be given back, or for the end of ctx.
func (s *slots) take(ctx context.Context, key string) error {
	p := &place{key: key, got: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, p)
	s.assign()
	s.mu.Unlock()
	select {
	case <-p.got:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.waiting, p); at >= 0 {
		s.waiting = slices.Delete(s.waiting, at, at+1)
	} else {
		s.free(key) // it came at the same time
	}
	return context.Cause(ctx)
}

// give gives a slot back.
func (s *slots) give(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free(key)
}

func (s *slots) free(key string) {
	s.used--
	if s.by[key]--; s.by[key] == 0 {
		delete(s.by, key)
	}
	s.assign()
}

func (s *slots) assign() {
	s.waiting = slices.DeleteFunc(s.waiting, func(p *place) bool {
		if s.used >= s.total || s.by[p.key] >= s.share {
			return false
		}
		s.used++
		s.by[p.key]++
		close(p.got)
		return true
	})
}

// turn is a slot that is given back while nothing is done but waiting. One goroutine at
// a time has it.
type turn struct {
	slots *slots
	key   string
	held  bool
}

// begin waits for the slot. At the end of ctx it goes on without one: what it is for
// has that context, too, and ends.
func (t *turn) begin(ctx context.Context) error {
	err := t.slots.take(ctx, t.key)
	t.held = err == nil
	return err
}

// end gives the slot back, if there is one.
func (t *turn) end() {
	if t.held {
		t.held = false
		t.slots.give(t.key)
	}
}
