// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// Deployments is what an operator has of its hub's StackDeploys. Of its methods that
// write, one is called at a time, and none while Inventory reads, whatever sessions
// there are.
type Deployments interface {
	// Inventory reads anew all that the operator has. What it returns is complete: what
	// is not in it counts as gone.
	Inventory(ctx context.Context) (wire.Inventory, error)
	// Deliver stores a StackDeploy durably, or says why not.
	Deliver(ctx context.Context, d *wire.Deliver) wire.Delivered
	// Remove has everything of a StackDeploy be removed, in the course of time. Of an
	// unknown one it has nothing to do.
	Remove(ctx context.Context, r *wire.Remove) error
	// Follow notes each topic that there is, and then those that change, until ctx
	// ends. It notes at least the topics of which News would have something else to say
	// than before. Note does not block.
	Follow(ctx context.Context, note func(Topic)) error
	// News is what there is to say about a topic now: a wire.Report, wire.Exports or
	// wire.Removed, as the topic's type says; not ok if there is nothing.
	News(ctx context.Context, t Topic) (message any, ok bool, err error)
}

// Topic is something that a hub follows.
type Topic struct {
	// Type of the message that tells of it: report, exports or removed.
	Type wire.Type
	// Stack of the hub's that it is about.
	Stack wire.Stack
	// Component, of exports.
	Component string
}

const (
	// applyTimeout bounds what is done for one message of the hub.
	applyTimeout = 30 * time.Second
	// inventoryTimeout bounds the reading of everything.
	inventoryTimeout = 2 * time.Minute
	// An inventory that failed is tried again after firstRetry, and then after up to
	// lastRetry; all else after retryEvery.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	retryEvery            = 5 * time.Second
	// Removals under way are looked at again, noted or not: one may have ended before
	// it was followed.
	recheckEvery = time.Minute
)

var errOutdated = errors.New("a newer session has been welcomed")

// exchange is a session's part in deploying. Its reader only queues; the rest is done
// by goroutines of its own, which end with the session: whatever was under way then
// is owed in the next one by what its inventory says.
type exchange struct {
	// Static.
	session *session
	with    Deployments

	orders *intake // what the hub asks for
	news   *news   // what the hub is to be told
}

func newExchange(s *session, with Deployments) *exchange {
	return &exchange{session: s, with: with, orders: newIntake(), news: newNews()}
}

// take queues a message of the hub. It does not block, and quotes nothing of a
// message that can't be read: it may hold secrets.
func (x *exchange) take(e *wire.Envelope) error {
	if x == nil {
		return nil // nothing is deployed by this operator
	}
	switch e.Type {
	case wire.TypeDeliver:
		m := new(wire.Deliver)
		if err := e.Read(m); err != nil {
			return fmt.Errorf("%w: %s", wire.ErrMalformed, e.Type)
		}
		return x.orders.deliver(m)
	default:
		m := new(wire.Remove)
		if err := e.Read(m); err != nil {
			return err
		}
		return x.orders.remove(m.Stack)
	}
}

// run works until the session ends.
func (x *exchange) run(ctx context.Context) {
	if x == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	parts.Go(func() {
		defer cancel()
		select {
		case <-x.session.conn.Done():
		case <-ctx.Done():
		}
	})
	if !x.open(ctx) {
		return
	}
	parts.Go(func() { x.follow(ctx) })
	parts.Go(func() { x.tell(ctx) })
	x.keep(ctx)
}

// open sends the inventory, before anything else, and reports whether it could. It
// tries until the session ends: a part of an inventory is none.
func (x *exchange) open(ctx context.Context) bool {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		inventory, err := x.inventory(ctx)
		if err == nil {
			if err = x.session.conn.Send(wire.TypeInventory, inventory); err == nil {
				return x.drained(ctx)
			}
		}
		if ctx.Err() != nil || errors.Is(err, errOutdated) {
			return false
		}
		x.session.log.Error(err, "Could not tell the hub what is deployed here", "retryIn", wait.String())
		if !pause(ctx, wait, nil) {
			return false
		}
	}
}

// inventory is read when no older session applies anything any more.
func (x *exchange) inventory(ctx context.Context) (inventory wire.Inventory, err error) {
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	outer := x.alone(ctx, func() { inventory, err = x.with.Inventory(ctx) })
	if outer != nil {
		return wire.Inventory{}, outer
	}
	if err == nil {
		err = inventory.Validate()
	}
	return inventory, err
}

// alone does something while no other session's exchange does, and only in the
// newest one.
func (x *exchange) alone(ctx context.Context, do func()) error {
	applying := x.session.agent.applying
	select {
	case applying <- struct{}{}:
		defer func() { <-applying }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !x.session.newest() {
		return errOutdated
	}
	do()
	return nil
}

// drained waits until the hub has been sent all that was queued, and reports whether
// the session goes on. What comes after that can not pass a large message, nor fill
// the queue.
func (x *exchange) drained(ctx context.Context) bool {
	select {
	case <-x.session.conn.Drained():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// keep applies what the hub asks for, in its order.
func (x *exchange) keep(ctx context.Context) {
	var (
		failed []wire.Stack     // removals to try again
		retry  <-chan time.Time // set while there are some
	)
	for {
		a, ok := x.orders.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-x.orders.wake:
			case <-retry:
				x.orders.again(failed)
				failed, retry = nil, nil
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if a.deliver != nil {
			failed = slices.DeleteFunc(failed, func(s wire.Stack) bool { return s == a.stack })
			x.deliver(ctx, a.deliver)
			continue
		}
		if x.remove(ctx, a.stack) {
			continue
		}
		if failed = append(failed, a.stack); retry == nil {
			retry = time.After(retryEvery)
		}
	}
}

func (x *exchange) deliver(ctx context.Context, d *wire.Deliver) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	x.news.told(d.Stack) // a removal that was asked for before is off
	var delivered wire.Delivered
	if err := x.alone(ctx, func() { delivered = x.with.Deliver(ctx, d) }); err != nil {
		delivered = wire.Delivered{Stack: d.Stack, Delivery: d.Delivery, Failure: wire.DeliveryUnavailable, Message: err.Error()}
	}
	if delivered.Failure != "" {
		x.session.log.Info("Did not store what the hub delivered", "stack", d.Stack, "generation", d.Generation,
			"failure", delivered.Failure, "message", delivered.Message)
	} else {
		x.session.log.V(1).Info("Stored what the hub delivered", "stack", d.Stack, "generation", d.Generation)
	}
	delivered.Message = wire.Line(delivered.Message, wire.MaxText)
	_ = x.session.conn.Send(wire.TypeDelivered, delivered) // if the session has ended, the next inventory tells
}

// remove reports whether a removal is under way, or over.
func (x *exchange) remove(ctx context.Context, stack wire.Stack) bool {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	x.news.await(stack)
	var err error
	if outer := x.alone(ctx, func() { err = x.with.Remove(ctx, &wire.Remove{Stack: stack}) }); outer != nil {
		return errors.Is(outer, errOutdated) // then the newer session is asked
	}
	if err != nil {
		x.session.log.Error(err, "Could not begin a removal, trying again", "stack", stack)
		return false
	}
	x.news.note(Topic{Type: wire.TypeRemoved, Stack: stack})
	return true
}
