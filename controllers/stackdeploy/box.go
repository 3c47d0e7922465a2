// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

const (
	// maxKept bounds what is kept of a session's reports and exports until it is
	// worked in, in bytes: room for 2,000 StackDeploys with large statuses.
	maxKept = 32 << 20
	// maxComponents with exports of one StackDeploy are kept.
	maxComponents = 64
	// maxStrays is how many StackDeploys that this replica does not know are listened
	// to: its cache may be behind that of the replica which delivered them.
	maxStrays = 256
	// answerWithin is how long an operator may take to answer a delivery before it is
	// made again.
	answerWithin = time.Minute
	// A delivery that can't be stored now is made again after retryAfter, then twice
	// that, up to retryAfterMax.
	retryAfter    = 2 * time.Second
	retryAfterMax = 5 * time.Minute
	// A StackDeploy's status is written writesAtOnce times without a wait, then once
	// each writeEvery.
	writeEvery   = time.Second
	writesAtOnce = 5
	// PaceEvery and PaceAtOnce bound what is sent to one operator that it has to
	// answer: its answers count as messages of its own (session.Limits).
	PaceEvery  = 20 * time.Millisecond
	PaceAtOnce = 400
)

// box is what is known of one session.
type box struct {
	session string
	epoch   int64
	// complete is set once the inventory came.
	complete bool
	slots    map[wire.Stack]*slot
	// unanswered deliveries, and their bytes.
	unanswered, bytes int
	pace              *rate.Limiter
	// waiting for room, in order.
	waiting []wire.Stack
	queued  map[wire.Stack]bool
	// kept is the size of reports and exports.
	kept   int
	strays map[wire.Stack]bool
}

// slot is what is known of one StackDeploy in a session.
type slot struct {
	// held is what the operator has, nil if it has none.
	held *wire.Held
	// sent is the delivery that is not answered.
	sent    *sending
	failure *failure
	// asked to remove it, and removed.
	asked, removed bool
	// report and exports are those that are not worked in.
	report  *wire.Report
	exports map[string]*wire.Exports
	writes  *rate.Limiter
}

// sending is a delivery on its way.
type sending struct {
	wire.Delivery
	bytes int
	at    time.Time
}

// failure is why a delivery was not stored.
type failure struct {
	wire.Delivery
	kind     wire.DeliveryFailure
	message  string
	attempts int
	retryAt  time.Time
}

func newBox(from *session.Info) *box {
	return &box{
		session: from.SessionID, epoch: from.Epoch,
		slots: map[wire.Stack]*slot{}, queued: map[wire.Stack]bool{}, strays: map[wire.Stack]bool{},
		pace: rate.NewLimiter(rate.Every(PaceEvery), PaceAtOnce),
	}
}

func (b *box) slot(s wire.Stack) *slot {
	if b.slots[s] == nil {
		b.slots[s] = &slot{}
	}
	return b.slots[s]
}

// stray reports whether an unknown StackDeploy is listened to.
func (b *box) stray(s wire.Stack) bool {
	if !b.strays[s] && len(b.strays) >= maxStrays {
		return false
	}
	b.strays[s] = true
	return true
}

// answered ends a delivery, and reports whether it was under way.
func (b *box) answered(s *slot, d wire.Delivery) bool {
	if s.sent == nil || s.sent.Delivery != d {
		return false
	}
	b.unanswered--
	b.bytes -= s.sent.bytes
	s.sent = nil
	return true
}

// next are those that waited, as many as there is room for.
func (b *box) next() []wire.Stack {
	n := min(len(b.waiting), max(0, wire.MaxUnanswered-b.unanswered))
	next := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	for _, s := range next {
		delete(b.queued, s)
	}
	return next
}

// wait queues a StackDeploy for room.
func (b *box) wait(s wire.Stack) {
	if !b.queued[s] {
		b.queued[s] = true
		b.waiting = append(b.waiting, s)
	}
}

// room reports whether a delivery of a given size may be sent: any size, if it is
// the only one.
func (b *box) room(size int) bool {
	return b.unanswered < wire.MaxUnanswered && (b.unanswered == 0 || b.bytes+size <= wire.MaxUnansweredBytes)
}

// forget drops what is known of a StackDeploy that is gone. That the operator has it
// stays known.
func (b *box) forget(s wire.Stack) {
	old := b.slots[s]
	if old == nil {
		return
	}
	b.worked(old, old.report, old.exports)
	if old.sent != nil {
		b.answered(old, old.sent.Delivery)
	}
	delete(b.slots, s)
	if old.held != nil {
		b.slots[s] = &slot{held: old.held}
	}
}

// worked drops a report and exports that were worked in, unless newer ones came.
func (b *box) worked(s *slot, report *wire.Report, exports map[string]*wire.Exports) {
	if report != nil && s.report == report {
		b.kept -= len(report.Status)
		s.report = nil
	}
	for component, e := range exports {
		if s.exports[component] == e {
			b.kept -= sizeOf(e)
			delete(s.exports, component)
		}
	}
}

// renew makes a slot that of another StackDeploy of the same name.
func (s *slot) renew() { s.failure, s.asked, s.removed = nil, false, false }

// fail notes why a delivery was not stored, and when to make it again.
func (s *slot) fail(answer *wire.Delivered, now time.Time) {
	attempts := 0
	if s.failure != nil && s.failure.Delivery == answer.Delivery {
		attempts = s.failure.attempts
	}
	wait := min(retryAfter<<min(attempts, 10), retryAfterMax)
	s.failure = &failure{
		Delivery: answer.Delivery, kind: answer.Failure, message: answer.Message,
		attempts: attempts + 1, retryAt: now.Add(wait),
	}
}
