// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/go-logr/logr"
)

// repeatAfter is how often a complaint that stays the same is repeated.
const repeatAfter = 10 * time.Minute

// voice logs why there is no session: at each change of the cause, and then at a
// low rate.
type voice struct {
	cause string
	said  time.Time
	times int
}

func (v *voice) say(log logr.Logger, err error, keysAndValues ...any) {
	cause := resultOf(err)
	v.times++
	if cause == v.cause && time.Since(v.said) < repeatAfter {
		log.V(1).Info("Still not connected to the hub", append(keysAndValues, "result", cause, "attempts", v.times)...)
		return
	}
	if cause != v.cause {
		v.times = 1
	}
	v.cause, v.said = cause, time.Now()
	log.Error(err, "Could not connect to the hub", append(keysAndValues, "result", cause, "attempts", v.times)...)
}

// reset forgets, so that the next complaint is heard.
func (v *voice) reset() { *v = voice{} }
