// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
)

// SetClock replaces the clock before Run.
func (k *Keeper) SetClock(c clock.WithTicker) { k.clock = c }

// SetClock replaces the clock before Run.
func (w *Watcher) SetClock(c clock.PassiveClock) { w.clock = c }

// SeenRenewals counts the renewals of the watcher's own Lease that it has seen.
func (w *Watcher) SeenRenewals() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.renewals
}

// Observe feeds a Lease to the watcher as its watch would.
func (w *Watcher) Observe(lease *coordinationv1.Lease) { w.observe(lease) }

// LeaseName is the name of a replica's Lease.
func LeaseName(name string) string { return leaseName(name) }
