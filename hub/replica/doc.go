// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replica makes this hub replica known to the others, and tells which
// of them live.
//
// Each replica renews one Lease, however many clusters it holds: that is what
// an idle fleet costs. The holder is an ID, which is drawn anew at each start,
// so that a replica that restarts under its name is another one.
//
// # When is a replica dead
//
// At once when its Lease has another holder or none. Otherwise when its Lease
// has not been renewed for the Lease's duration, by the watcher's own clock,
// and while the watcher's own view was good: time counts only between two
// renewals of the watcher's own Lease that came back through the same watch.
// When the API server, or the way to it, is down, nobody looks dead; after such
// an outage everybody has RenewalDeadline to be heard of again.
package replica

import "time"

const (
	// LeaseDuration is how long a Lease holds without a renewal.
	LeaseDuration = 15 * time.Second
	// RenewEvery is the time between two renewals, and bounds each attempt.
	RenewEvery = 5 * time.Second
	// RenewalDeadline is how long a replica may fail to renew before it takes no
	// new sessions.
	RenewalDeadline = time.Minute
	// PruneAfter is how long a Lease stays after it has lapsed.
	PruneAfter = time.Hour

	// Label, with the value "true", marks the Leases of hub replicas.
	Label = "kubenest.io/hub-replica"
)
