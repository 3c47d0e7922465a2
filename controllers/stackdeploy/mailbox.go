// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

// Mailbox takes what the operators of this replica's sessions say of deployments:
// it is the session.Deployments of the hub. Everything in it belongs to a session,
// and goes with it. Of what is said of one StackDeploy the newest wins, until the
// controllers have worked it in.
type Mailbox struct {
	clock   clock.PassiveClock
	metrics *metrics

	mu    sync.Mutex
	known map[string]map[wire.Stack]wire.Delivery // by cluster; what there is to deliver
	boxes map[string]*box                         // by cluster

	// Set once, when the controllers start.
	stacks   adder[reconcile.Request]
	clusters adder[string]
	// flooded ends a session that says more than can be kept.
	flooded func(clusterID, sessionID string)
}

var _ session.Deployments = (*Mailbox)(nil)

// adder is a work queue, as far as it is needed here.
type adder[K comparable] interface{ Add(key K) }

// NewMailbox makes an empty mailbox. Its metrics are registered, unless registry is
// nil.
func NewMailbox(c clock.PassiveClock, registry prometheus.Registerer) (*Mailbox, error) {
	m := &Mailbox{clock: c, known: map[string]map[wire.Stack]wire.Delivery{}, boxes: map[string]*box{}}
	var err error
	m.metrics, err = newMetrics(registry, m.unknown)
	return m, err
}

// Inventory is everything that the operator has. The first of a session counts:
// what comes later is known from its answers.
func (m *Mailbox) Inventory(from session.Info, inventory *wire.Inventory) {
	m.mu.Lock()
	b := m.boxLocked(&from)
	if b == nil || b.complete {
		m.mu.Unlock()
		m.metrics.dropped(droppedLate)
		return
	}
	b.complete = true
	for i := range inventory.Stacks {
		held := inventory.Stacks[i]
		b.slot(held.Stack).held = &held
	}
	wake := slices.Collect(maps.Keys(m.known[from.ClusterID]))
	m.mu.Unlock()
	m.wake(wake...)
	m.wakeCluster(from.ClusterID)
}

// Delivered notes the answer to a delivery that is under way, and wakes what waits
// for room.
func (m *Mailbox) Delivered(from session.Info, answer *wire.Delivered) {
	m.change(&from, answer.Stack, func(b *box) bool {
		s, ok := b.slots[answer.Stack]
		if !ok || !b.answered(s, answer.Delivery) {
			return false
		}
		if answer.Failure == "" {
			s.held, s.failure = &wire.Held{Stack: answer.Stack, Delivery: answer.Delivery}, nil
			m.metrics.answered("stored")
			return true
		}
		s.fail(answer, m.clock.Now())
		m.metrics.answered(string(answer.Failure))
		return true
	})
}

// Removed notes that nothing of a StackDeploy is left.
func (m *Mailbox) Removed(from session.Info, answer *wire.Removed) {
	m.change(&from, answer.Stack, func(b *box) bool {
		s, ok := b.slots[answer.Stack]
		if !ok {
			return false
		}
		if s.sent != nil {
			b.answered(s, s.sent.Delivery)
		}
		s.held, s.removed = nil, s.asked
		return true
	})
}

// Report keeps the newest state of a StackDeploy.
func (m *Mailbox) Report(from session.Info, report *wire.Report) {
	m.post(&from, report.Stack, len(report.Status), func(b *box, s *slot) {
		if s.report != nil {
			b.kept -= len(s.report.Status)
		}
		s.report = report
	})
}

// Exports keeps the newest exports of a component.
func (m *Mailbox) Exports(from session.Info, exports *wire.Exports) {
	m.post(&from, exports.Stack, sizeOf(exports), func(b *box, s *slot) {
		if old := s.exports[exports.Component]; old != nil {
			b.kept -= sizeOf(old)
		}
		if s.exports == nil {
			s.exports = map[string]*wire.Exports{}
		}
		s.exports[exports.Component] = exports
	})
}

func sizeOf(e *wire.Exports) int {
	size := len(e.Component)
	for name, value := range e.Data {
		size += len(name) + len(value)
	}
	return size
}

// post keeps something of a given size until it is worked in.
func (m *Mailbox) post(from *session.Info, s wire.Stack, size int, keep func(*box, *slot)) {
	m.mu.Lock()
	b := m.boxLocked(from)
	switch {
	case b == nil:
		m.mu.Unlock()
		m.metrics.dropped(droppedLate)
		return
	case !m.knowsLocked(from.ClusterID, s) && !b.stray(s):
		m.mu.Unlock()
		m.metrics.dropped(droppedUnknown)
		return
	case b.kept+size > maxKept || len(b.slot(s).exports) > maxComponents:
		flooded := m.flooded
		m.mu.Unlock()
		m.metrics.dropped(droppedFull)
		if flooded != nil { // its next session tells everything again
			flooded(from.ClusterID, from.SessionID)
		}
		return
	}
	b.kept += size
	keep(b, b.slot(s))
	m.mu.Unlock()
	m.wake(s)
}

// change applies an answer to a session's box, and wakes its StackDeploy and those
// that there is room for now.
func (m *Mailbox) change(from *session.Info, s wire.Stack, f func(*box) bool) {
	m.mu.Lock()
	b := m.boxLocked(from)
	if b == nil || !f(b) {
		m.mu.Unlock()
		m.metrics.dropped(droppedUnknown)
		return
	}
	wake := append(b.next(), s)
	m.mu.Unlock()
	m.wake(wake...)
}

// boxLocked is the box of a session, empty if it is new; nil if there is a newer
// session.
func (m *Mailbox) boxLocked(from *session.Info) *box {
	b := m.boxes[from.ClusterID]
	switch {
	case b != nil && b.session == from.SessionID:
		return b
	case b != nil && b.epoch > from.Epoch:
		return nil
	}
	b = newBox(from)
	m.boxes[from.ClusterID] = b
	return b
}

// opened begins a session. The StackDeploys of an operator that is too old for
// deployments are woken now, since it says nothing of them.
func (m *Mailbox) opened(from *session.Info) {
	m.mu.Lock()
	m.boxLocked(from)
	var wake []wire.Stack
	if from.Schema < kubenestv1.StackDeploySchema {
		wake = slices.Collect(maps.Keys(m.known[from.ClusterID]))
	}
	m.mu.Unlock()
	m.wake(wake...)
}

// closed drops what belongs to a session.
func (m *Mailbox) closed(clusterID, sessionID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.boxes[clusterID]; b != nil && b.session == sessionID {
		delete(m.boxes, clusterID)
	}
}

// see takes note of a StackDeploy that there is.
func (m *Mailbox) see(stack *kubenestv1.StackDeploy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, s := stack.Spec.ClusterID, stackOf(stack)
	if m.known[id] == nil {
		m.known[id] = map[wire.Stack]wire.Delivery{}
	}
	last, known := m.known[id][s]
	if !known || last.UID != string(stack.UID) {
		m.known[id][s] = wire.Delivery{UID: string(stack.UID)}
	}
	if b := m.boxes[id]; b != nil {
		delete(b.strays, s)
		if known && last.UID != string(stack.UID) {
			b.slot(s).renew()
		}
	}
}

// changed takes note of a StackDeploy that was another before. Its generation counts
// the changes of its spec; where that is not so, the API server's database was restored
// from a backup, and what was computed of a generation is not of the one that has its
// number now.
func (m *Mailbox) changed(before, after *kubenestv1.StackDeploy) {
	restored := after.Generation < before.Generation ||
		after.Generation == before.Generation && !equality.Semantic.DeepEqual(&before.Spec, &after.Spec)
	if restored && before.UID == after.UID {
		m.mu.Lock()
		id, s := after.Spec.ClusterID, stackOf(after)
		if m.known[id][s].UID == string(after.UID) {
			m.known[id][s] = wire.Delivery{UID: string(after.UID)}
		}
		m.mu.Unlock()
	}
	m.see(after)
}

// forget takes note of a StackDeploy that is gone.
func (m *Mailbox) forget(stack *kubenestv1.StackDeploy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, s := stack.Spec.ClusterID, stackOf(stack)
	if m.known[id][s].UID != string(stack.UID) {
		return // made anew already
	}
	delete(m.known[id], s)
	if len(m.known[id]) == 0 {
		delete(m.known, id)
	}
	if b := m.boxes[id]; b != nil {
		b.forget(s)
	}
}

func (m *Mailbox) knowsLocked(clusterID string, s wire.Stack) bool {
	_, ok := m.known[clusterID][s]
	return ok
}

// start gives the mailbox the queues to wake, and wakes what came before.
func (m *Mailbox) start(stacks adder[reconcile.Request], flooded func(clusterID, sessionID string)) {
	m.mu.Lock()
	m.stacks, m.flooded = stacks, flooded
	var wake []wire.Stack
	for id := range m.boxes {
		for s := range m.known[id] {
			wake = append(wake, s)
		}
	}
	m.mu.Unlock()
	m.wake(wake...)
}

// startClusters gives the mailbox the queue of clusters.
func (m *Mailbox) startClusters(queue adder[string]) {
	m.mu.Lock()
	m.clusters = queue
	ids := make([]string, 0, len(m.boxes))
	for id := range m.boxes {
		ids = append(ids, id)
	}
	m.mu.Unlock()
	for _, id := range ids {
		queue.Add(id)
	}
}

func (m *Mailbox) wake(stacks ...wire.Stack) {
	m.mu.Lock()
	queue := m.stacks
	m.mu.Unlock()
	if queue == nil {
		return
	}
	for _, s := range stacks {
		queue.Add(requestFor(s))
	}
}

func (m *Mailbox) wakeCluster(id string) {
	m.mu.Lock()
	queue := m.clusters
	m.mu.Unlock()
	if queue != nil {
		queue.Add(id)
	}
}
