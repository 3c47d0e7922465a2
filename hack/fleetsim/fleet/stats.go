// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Stats is how a fleet is doing.
type Stats struct {
	// Clusters there are, and how many of them are connected.
	Clusters, Connected int
	// Attempts to open a session, by result.
	Attempts map[string]int
	// Endings of sessions.
	Endings map[string]int
	// Elapsed is the time since Run began.
	Elapsed time.Duration
	// AllConnected is how long it took until all were connected for the first time;
	// 0 if they have not been.
	AllConnected time.Duration
	// Trouble is what keeps one of those that are not connected; empty if all are.
	Trouble string
}

// Stats is how the fleet is doing now.
func (f *Fleet) Stats() (Stats, error) {
	s := Stats{Attempts: map[string]int{}, Endings: map[string]int{}}
	families, err := f.registry.Gather()
	if err != nil {
		return s, fmt.Errorf("gather the operators' metrics: %w", err)
	}
	for _, family := range families {
		into := map[string]map[string]int{
			"kubenest_operator_connection_attempts_total": s.Attempts,
			"kubenest_operator_session_endings_total":     s.Endings,
		}[family.GetName()]
		for _, m := range family.GetMetric() {
			if into != nil && len(m.GetLabel()) == 1 {
				into[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Clusters, s.Connected = len(f.states), f.connected
	if !f.began.IsZero() {
		s.Elapsed = time.Since(f.began)
	}
	if !f.complete.IsZero() {
		s.AllConnected = f.complete.Sub(f.began)
	}
	if _, missing, trouble := f.missingLocked(time.Time{}); missing > 0 {
		s.Trouble = trouble
	}
	return s, nil
}

// String is one line for people.
func (s Stats) String() string {
	text := fmt.Sprintf("%d of %d connected; attempts: %s", s.Connected, s.Clusters, counts(s.Attempts))
	if len(s.Endings) > 0 {
		text += "; sessions ended: " + counts(s.Endings)
	}
	if s.Trouble != "" {
		text += "; one that is not connected: " + s.Trouble
	}
	return text
}

func counts(of map[string]int) string {
	if len(of) == 0 {
		return "none"
	}
	parts := make([]string, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(parts, ", ")
}
