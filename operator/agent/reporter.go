// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

const (
	// collectTimeout bounds one collection of facts.
	collectTimeout = 10 * time.Second
	// firstFacts is how long the first hello waits for facts; a later heartbeat
	// brings them otherwise.
	firstFacts = 5 * time.Second
)

// reporter keeps the latest facts, so that nothing has to wait for them.
type reporter struct {
	collect func(context.Context) wire.Facts
	every   atomic.Int64  // time.Duration
	first   chan struct{} // closed after the first collection

	mu     sync.Mutex
	latest wire.Facts
}

func newReporter(collect func(context.Context) wire.Facts) *reporter {
	if collect == nil {
		collect = func(context.Context) wire.Facts { return wire.Facts{} }
	}
	r := &reporter{collect: collect, first: make(chan struct{})}
	r.every.Store(int64(wire.DefaultTiming.Heartbeat))
	return r
}

// run collects facts until ctx ends.
func (r *reporter) run(ctx context.Context) {
	r.once(ctx)
	close(r.first)
	for pause(ctx, time.Duration(r.every.Load()), nil) {
		r.once(ctx)
	}
}

func (r *reporter) once(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	facts := r.collect(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = facts
}

func (r *reporter) facts() wire.Facts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

// pause waits, and returns early when something wakes it. It reports whether ctx
// goes on.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
	return ctx.Err() == nil
}
