// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kubenest/kubenest/api/wire"
)

// maxAsked bounds what a hub may have asked for at once.
const maxAsked = wire.MaxStacks + wire.MaxUnanswered

// intake is what a hub asked for and is not begun yet, in order. Deliveries are
// bounded as the hub bounds those that are unanswered; of removals that follow each
// other one counts, so that a cluster's stacks bound them.
type intake struct {
	wake chan struct{} // holds one when something came

	mu       sync.Mutex
	waiting  []asked
	delivers int
	removing map[wire.Stack]bool // what waits last of a stack is a removal
}

// asked is a delivery, or else a removal.
type asked struct {
	deliver *wire.Deliver
	stack   wire.Stack
}

func newIntake() *intake {
	return &intake{wake: make(chan struct{}, 1), removing: map[wire.Stack]bool{}}
}

// deliver fails when the hub sends more than the protocol allows.
func (i *intake) deliver(d *wire.Deliver) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.delivers >= wire.MaxUnanswered {
		return fmt.Errorf("%w: over %d deliveries before an answer", wire.ErrMalformed, wire.MaxUnanswered)
	}
	i.delivers++
	i.waiting = append(i.waiting, asked{deliver: d, stack: d.Stack})
	delete(i.removing, d.Stack)
	wake(i.wake)
	return nil
}

// remove fails when the hub asks for more than a cluster can have.
func (i *intake) remove(stack wire.Stack) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.removing[stack] {
		return nil
	}
	if len(i.waiting) >= maxAsked {
		return fmt.Errorf("%w: over %d removals at once", wire.ErrMalformed, wire.MaxStacks)
	}
	i.removing[stack] = true
	i.waiting = append(i.waiting, asked{stack: stack})
	wake(i.wake)
	return nil
}

// again queues removals that failed, but those of which the hub has sent something
// else since.
func (i *intake) again(stacks []wire.Stack) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, stack := range stacks {
		if i.removing[stack] || i.deliveringLocked(stack) {
			continue
		}
		i.removing[stack] = true
		i.waiting = append(i.waiting, asked{stack: stack})
	}
}

func (i *intake) deliveringLocked(stack wire.Stack) bool {
	return i.delivers > 0 && slices.ContainsFunc(i.waiting, func(a asked) bool { return a.deliver != nil && a.stack == stack })
}

// next takes what is to be done next.
func (i *intake) next() (asked, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.waiting) == 0 {
		return asked{}, false
	}
	a := i.waiting[0]
	i.waiting[0] = asked{} // it may be large
	if i.waiting = i.waiting[1:]; len(i.waiting) == 0 {
		i.waiting = nil
	}
	if a.deliver != nil {
		i.delivers--
	} else {
		delete(i.removing, a.stack)
	}
	return a, true
}

// wake tells whoever waits that there is something.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
