// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"time"
)

// pattern looks for what no single ending shows: connections that all end at the
// same age are cut by something in between.
type pattern struct{ ages []time.Duration }

const patternLength = 5

// add notes the age at which a session ended without a word. It returns a hint
// when the last five ended within a second of each other, else "".
func (p *pattern) add(age time.Duration) string {
	p.ages = append(p.ages, age)
	if len(p.ages) < patternLength {
		return ""
	}
	p.ages = p.ages[len(p.ages)-patternLength:]
	const spread = 2 * time.Second
	shortest, longest := slices.Min(p.ages), slices.Max(p.ages)
	if shortest < 5*time.Second || longest-shortest > spread {
		return ""
	}
	return fmt.Sprintf("closed %d times after %d±1 s: does a proxy or balancer between operator and hub end connections at that age, or when idle?",
		patternLength, int(shortest.Round(time.Second).Seconds()))
}

// clear forgets, after an ending that explains itself.
func (p *pattern) clear() { p.ages = nil }
