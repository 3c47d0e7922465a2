// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

const (
	shortestSpan      = time.Second
	longestSpan       = time.Minute
	longestRetryAfter = 10 * time.Minute
)

// backoff says how long to wait before the next attempt. It is pure: the caller
// brings the chance, at least 0 and below 1.
type backoff struct{ failures int }

// next is the wait after a failure, or after a refusal if there was one.
func (b *backoff) next(r *wire.Refusal, chance float64) time.Duration {
	span := min(shortestSpan<<min(b.failures, 6), longestSpan)
	b.failures++
	wait := share(span, chance)
	if r == nil {
		return wait
	}
	if !r.Class.Retriable() {
		wait = longestSpan/2 + share(longestSpan/2, chance)
	}
	if r.RetryAfter > 0 {
		after := time.Duration(min(r.RetryAfter, longestRetryAfter.Milliseconds())) * time.Millisecond
		wait = max(wait, after+share(after/2, chance)) // those told the same come back apart
	}
	return wait
}

// reset starts over, after something has worked.
func (b *backoff) reset() { b.failures = 0 }

func share(d time.Duration, chance float64) time.Duration {
	return time.Duration(float64(d) * chance)
}
