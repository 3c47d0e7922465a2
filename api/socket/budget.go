// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import "time"

// Budget bounds what a peer may send. Pings and pongs count as messages. A chunk
// counts as a sixteenth of one, so that the largest message costs eleven.
type Budget struct {
	// PerSecond is how many messages a second are allowed in the long run; 0 is
	// any number.
	PerSecond float64
	// Burst is how many are allowed at once.
	Burst int
}

const (
	messageCost = 1
	chunkCost   = 1.0 / 16
)

// bucket is a Budget being spent. It is not safe for concurrent use.
type bucket struct {
	Budget
	spent float64 // since time, refills included
	time  time.Time
}

// spend fails with errFlooding when the budget has run out.
func (b *bucket) spend(cost float64) error {
	if b.PerSecond <= 0 {
		return nil
	}
	now := time.Now()
	b.spent = max(0, b.spent-now.Sub(b.time).Seconds()*b.PerSecond)
	b.time = now
	if b.spent+cost > float64(b.Burst) {
		return errFlooding
	}
	b.spent += cost
	return nil
}
