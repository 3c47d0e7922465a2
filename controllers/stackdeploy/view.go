// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

// view is what a session says of one StackDeploy. It is a copy, and what it points
// to does not change.
type view struct {
	held           *wire.Held
	sent           *sending
	failure        *failure
	asked, removed bool
	report         *wire.Report
	exports        map[string]*wire.Exports
}

// view returns what a session says of a StackDeploy, if its inventory came. A
// delivery that was not answered in time counts as failed.
func (m *Mailbox) view(from *session.Info, stack wire.Stack) (view, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[from.ClusterID]
	if b == nil || b.session != from.SessionID || !b.complete {
		return view{}, false
	}
	s := b.slots[stack]
	if s == nil {
		return view{}, true
	}
	if now := m.clock.Now(); s.sent != nil && now.Sub(s.sent.at) >= answerWithin {
		late := s.sent.Delivery
		b.answered(s, late)
		s.fail(&wire.Delivered{
			Delivery: late, Failure: wire.DeliveryUnavailable,
			Message: fmt.Sprintf("the operator did not answer within %v", answerWithin),
		}, now)
		m.metrics.answered("silence")
	}
	return view{
		held: s.held, sent: s.sent, failure: s.failure, asked: s.asked, removed: s.removed,
		report: s.report, exports: maps.Clone(s.exports),
	}, true
}

// delivery of a StackDeploy as it is now. The digest is computed once a generation;
// the spec is nil when that was done before.
func (m *Mailbox) delivery(stack *kubenestv1.StackDeploy) (d wire.Delivery, spec []byte, err error) {
	d = wire.Delivery{UID: string(stack.UID), Generation: stack.Generation}
	id, s := stack.Spec.ClusterID, stackOf(stack)
	m.mu.Lock()
	last, known := m.known[id][s]
	m.mu.Unlock()
	if known && last.UID == d.UID && last.Generation == d.Generation && last.Digest != "" {
		return last, nil, nil
	}
	spec, err = json.Marshal(&stack.Spec)
	if err != nil {
		return d, nil, fmt.Errorf("encode spec of %s: %w", s, err)
	}
	d.Digest = wire.Digest(spec)
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, known := m.known[id][s]; known && last.UID == d.UID && last.Generation <= d.Generation {
		m.known[id][s] = d
	}
	return d, spec, nil
}

// room reports whether a delivery of a given size may be sent now. If not, the
// StackDeploy is woken when it may be.
func (m *Mailbox) room(from *session.Info, stack wire.Stack, size int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[from.ClusterID]
	if b == nil || b.session != from.SessionID {
		return false
	}
	if !b.room(size) {
		b.wait(stack)
		return false
	}
	return true
}

// full reports whether an operator has as many StackDeploys as its inventory may list,
// and this is none of them. With one more it could tell nothing any more.
func (m *Mailbox) full(from *session.Info, stack wire.Stack) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[from.ClusterID]
	if b == nil || len(b.slots) < wire.MaxStacks {
		return false
	}
	if s := b.slots[stack]; s != nil && s.held != nil {
		return false
	}
	there := 0
	for _, s := range b.slots {
		if s.held != nil || s.sent != nil {
			there++
		}
	}
	return there >= wire.MaxStacks
}

// reserve makes room for a delivery that is sent next. Without room the StackDeploy
// is woken when there is some, after wait at the latest.
func (m *Mailbox) reserve(from *session.Info, stack wire.Stack, d wire.Delivery, size int) (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[from.ClusterID]
	switch {
	case b == nil || b.session != from.SessionID:
		return 0, false
	case !b.room(size):
		b.wait(stack)
		return lookAgain, false
	case !b.pace.AllowN(m.clock.Now(), 1):
		return paced, false
	}
	s := b.slot(stack)
	if s.sent != nil {
		return lookAgain, false
	}
	s.sent = &sending{Delivery: d, bytes: size, at: m.clock.Now()}
	s.asked, s.removed = false, false
	b.unanswered++
	b.bytes += size
	return 0, true
}

// ask notes that an operator is asked to remove a StackDeploy, unless it was asked
// too much lately.
func (m *Mailbox) ask(from *session.Info, stack wire.Stack) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[from.ClusterID]
	if b == nil || b.session != from.SessionID || !b.pace.AllowN(m.clock.Now(), 1) {
		return false
	}
	b.slot(stack).asked = true
	return true
}

// mayWrite bounds how often a StackDeploy's status is written.
func (m *Mailbox) mayWrite(from *session.Info, stack wire.Stack) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[from.ClusterID]
	if b == nil || b.session != from.SessionID {
		return false
	}
	s := b.slot(stack)
	if s.writes == nil {
		s.writes = rate.NewLimiter(rate.Every(writeEvery), writesAtOnce)
	}
	return s.writes.AllowN(m.clock.Now(), 1)
}

// worked drops what was worked in, unless something newer came meanwhile.
func (m *Mailbox) worked(from *session.Info, stack wire.Stack, report *wire.Report, exports map[string]*wire.Exports) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[from.ClusterID]
	if b == nil || b.session != from.SessionID || b.slots[stack] == nil {
		return
	}
	b.worked(b.slots[stack], report, exports)
}

// unknownOf are the StackDeploys that a cluster's operator has and this hub does
// not know, in order.
func (m *Mailbox) unknownOf(clusterID string) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[clusterID]
	if b == nil {
		return nil
	}
	for s, slot := range b.slots {
		if slot.held != nil && !m.knowsLocked(clusterID, s) {
			names = append(names, s.String())
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// unknown counts those of all clusters, for the metric.
func (m *Mailbox) unknown() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for id, b := range m.boxes {
		for s, slot := range b.slots {
			if slot.held != nil && !m.knowsLocked(id, s) {
				n++
			}
		}
	}
	return float64(n)
}
