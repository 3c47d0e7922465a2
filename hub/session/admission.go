// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"sync"
	"time"
)

// admission bounds how many connections open at once. Opening is the dear part of
// a session: signatures, a write to the record. When a hub replica dies, thousands
// ask for it in the same minute.
type admission struct {
	limits Limits
	places chan struct{} // a token for each that opens

	mu      sync.Mutex
	waiting int
	perID   map[string]int
}

func newAdmission(l Limits) *admission {
	return &admission{limits: l, places: make(chan struct{}, l.Openings), perID: map[string]int{}}
}

// enter waits for a place, which leave frees. It fails when too many wait, or for
// too long.
func (a *admission) enter(ctx context.Context) bool {
	select {
	case a.places <- struct{}{}:
		return true
	default:
	}
	if !a.queue(1) {
		return false
	}
	defer a.queue(-1)
	timer := time.NewTimer(a.limits.WaitFor)
	defer timer.Stop()
	select {
	case a.places <- struct{}{}:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

func (a *admission) leave() { <-a.places }

func (a *admission) queue(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting+n > a.limits.Waiting {
		return false
	}
	a.waiting += n
	return true
}

// enterAs counts an opening of a cluster, until leaveAs. It fails when the cluster
// has too many.
func (a *admission) enterAs(clusterID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.perID[clusterID] >= a.limits.OpeningsOfOne {
		return false
	}
	a.perID[clusterID]++
	return true
}

func (a *admission) leaveAs(clusterID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.perID[clusterID]--; a.perID[clusterID] == 0 {
		delete(a.perID, clusterID)
	}
}
