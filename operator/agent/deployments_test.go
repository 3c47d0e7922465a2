// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

// cluster has deployments as a test wants them. What happens is in its diary.
type cluster struct {
	inventory func(context.Context) (wire.Inventory, error)
	deliver   func(context.Context, *wire.Deliver) wire.Delivered
	remove    func(wire.Stack) error
	topics    []agent.Topic
	changes   chan agent.Topic

	mu    sync.Mutex
	diary []string
	state map[wire.Stack]int // reported; 0 is gone
}

func newCluster() *cluster {
	return &cluster{changes: make(chan agent.Topic), state: map[wire.Stack]int{}}
}

func (c *cluster) write(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary = append(c.diary, fmt.Sprintf(format, args...))
}

func (c *cluster) read() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.diary...)
}

func (c *cluster) set(s wire.Stack, state int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state[s] = state
}

func (c *cluster) Inventory(ctx context.Context) (wire.Inventory, error) {
	c.write("inventory")
	if c.inventory != nil {
		return c.inventory(ctx)
	}
	return wire.Inventory{}, nil
}

func (c *cluster) Deliver(ctx context.Context, d *wire.Deliver) wire.Delivered {
	c.write("deliver %s %d", d.Name, d.Generation)
	defer c.write("delivered %s %d", d.Name, d.Generation)
	if c.deliver != nil {
		return c.deliver(ctx, d)
	}
	return wire.Delivered{Stack: d.Stack, Delivery: d.Delivery}
}

func (c *cluster) Remove(_ context.Context, r *wire.Remove) error {
	c.write("remove %s", r.Name)
	if c.remove != nil {
		return c.remove(r.Stack)
	}
	return nil
}

func (c *cluster) Follow(ctx context.Context, note func(agent.Topic)) error {
	for _, t := range c.topics {
		note(t)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-c.changes:
			note(t)
		}
	}
}

func (c *cluster) News(_ context.Context, t agent.Topic) (any, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.state[t.Stack]
	if t.Type == wire.TypeRemoved {
		return wire.Removed{Stack: t.Stack}, state == 0, nil
	}
	return wire.Report{
		Stack: t.Stack, Delivery: delivery(1), Status: json.RawMessage(fmt.Sprintf(`{"state":%d}`, state)),
	}, state != 0, nil
}

func stackNamed(name string) wire.Stack { return wire.Stack{Namespace: "acme", Name: name} }

func delivery(generation int64) wire.Delivery {
	return wire.Delivery{UID: "uid", Generation: generation, Digest: "digest"}
}

func deliverOf(name string, generation int64) wire.Deliver {
	return wire.Deliver{Stack: stackNamed(name), Delivery: delivery(generation), Spec: json.RawMessage(`{}`)}
}

func reportTopic(name string) agent.Topic {
	return agent.Topic{Type: wire.TypeReport, Stack: stackNamed(name)}
}

// deploying starts an operator with deployments, and returns its first session.
func deploying(t *testing.T, c *cluster) (*agenttest.Hub, *operator, *agenttest.Session) {
	t.Helper()
	hub := agenttest.Start(t, nil, nil)
	op := start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub)), Schema: 7, Deployments: c})
	return hub, op, next(t, hub.Sessions, "session")
}

// nextOf waits for the next message that is no heartbeat.
func nextOf(t *testing.T, s *agenttest.Session) wire.Envelope {
	t.Helper()
	for {
		if e := next(t, s.Messages, "message"); e.Type != wire.TypeHeartbeat {
			return e
		}
	}
}

func TestTheInventoryComesBeforeAllElse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster()
	failures := 2
	want := wire.Inventory{}
	for i := range 2000 { // several chunks, which small messages could pass
		want.Stacks = append(want.Stacks, wire.Held{Stack: stackNamed(fmt.Sprintf("app-%04d", i)), Delivery: delivery(int64(i))})
	}
	begin := make(chan struct{})
	c.inventory = func(context.Context) (wire.Inventory, error) {
		<-begin
		if failures--; failures >= 0 {
			return wire.Inventory{Stacks: want.Stacks[:10]}, errors.New("the API server went away in the middle")
		}
		return want, nil
	}
	for i := range 5 {
		c.topics = append(c.topics, reportTopic(fmt.Sprintf("app-%04d", i)))
		c.set(c.topics[i].Stack, 1)
	}
	_, op, s := deploying(t, c)
	g.Expect(s.Hello.Schema).To(Equal(7))
	g.Expect(s.Send(wire.TypeDeliver, deliverOf("early", 1))).To(Succeed())
	close(begin)

	e := nextOf(t, s)
	g.Expect(e.Type).To(Equal(wire.TypeInventory))
	var got wire.Inventory
	g.Expect(e.Read(&got)).To(Succeed())
	g.Expect(got).To(Equal(want), "it is whole")
	seen := map[wire.Type]int{}
	for range 6 {
		seen[nextOf(t, s).Type]++
	}
	g.Expect(seen).To(Equal(map[wire.Type]int{wire.TypeReport: 5, wire.TypeDelivered: 1}))
	g.Expect(op.log.String()).To(ContainSubstring("went away in the middle"))
}

func TestWithoutDeploymentsNothingIsTaken(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub)), Schema: 7})
	s := next(t, hub.Sessions, "session")
	g.Expect(s.Hello.Schema).To(BeZero())
	g.Expect(s.Send(wire.TypeDeliver, deliverOf("web", 1))).To(Succeed())
	g.Expect(s.Send(wire.TypeRemove, wire.Remove{Stack: stackNamed("web")})).To(Succeed())
	nextMessage[wire.Heartbeat](t, s, wire.TypeHeartbeat)
	nextMessage[wire.Heartbeat](t, s, wire.TypeHeartbeat)
}

func TestABurstOfDeliveriesIsAppliedInOrder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster()
	gate := make(chan struct{})
	c.deliver = func(_ context.Context, d *wire.Deliver) wire.Delivered {
		<-gate
		answer := wire.Delivered{Stack: d.Stack, Delivery: d.Delivery}
		if d.Generation == 3 {
			answer.Failure, answer.Message = wire.DeliveryInvalid, strings.Repeat("no ", 1000)
		}
		return answer
	}
	_, _, s := deploying(t, c)
	for i := range wire.MaxUnanswered {
		g.Expect(s.Send(wire.TypeDeliver, deliverOf("web", int64(i)))).To(Succeed())
	}
	nextMessage[wire.Heartbeat](t, s, wire.TypeHeartbeat) // storing delays no heartbeat
	nextMessage[wire.Heartbeat](t, s, wire.TypeHeartbeat)
	close(gate)
	for i := range wire.MaxUnanswered {
		answer := nextMessage[wire.Delivered](t, s, wire.TypeDelivered)
		g.Expect(answer.Delivery).To(Equal(delivery(int64(i))))
		if i == 3 {
			g.Expect(answer.Failure).To(Equal(wire.DeliveryInvalid))
		} else {
			g.Expect(answer.Failure).To(BeEmpty())
		}
		g.Expect(len(answer.Message)).To(BeNumerically("<=", wire.MaxText))
	}
	g.Expect(c.read()).To(HaveLen(1 + 2*wire.MaxUnanswered))
}

func TestMoreDeliveriesThanAllowedBreakTheProtocol(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster()
	c.deliver = func(ctx context.Context, d *wire.Deliver) wire.Delivered {
		<-ctx.Done()
		return wire.Delivered{Stack: d.Stack, Delivery: d.Delivery, Failure: wire.DeliveryUnavailable}
	}
	hub, _, s := deploying(t, c)
	nextMessage[wire.Inventory](t, s, wire.TypeInventory)
	for i := range wire.MaxUnanswered + 2 { // one is being applied
		_ = s.Send(wire.TypeDeliver, deliverOf("web", int64(i)))
	}
	g.Expect(ended(t, s)).To(Equal(wire.EndProtocol))
	next(t, hub.Sessions, "next session")
}

func TestABrokenDeliveryIsNotQuoted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, op, s := deploying(t, newCluster())
	g.Expect(s.Send(wire.TypeDeliver, map[string]any{"inputs": []any{map[string]any{"data": map[string]any{"password": 19471893}}}})).To(Succeed())
	g.Expect(ended(t, s)).To(Equal(wire.EndProtocol))
	g.Expect(s.Ended.Error()).NotTo(ContainSubstring("19471893"))
	op.stop()
	g.Expect(op.log.String()).NotTo(ContainSubstring("19471893"))
}

func TestASessionLostInTheMiddleOfADelivery(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster()
	begun := make(chan struct{}, 1)
	c.deliver = func(ctx context.Context, d *wire.Deliver) wire.Delivered {
		answer := wire.Delivered{Stack: d.Stack, Delivery: d.Delivery}
		if d.Generation == 1 {
			begun <- struct{}{}
			<-ctx.Done() // it ends with its session, so that the next one need not wait
			answer.Failure = wire.DeliveryUnavailable
		}
		return answer
	}
	hub, _, s := deploying(t, c)
	for i := range 3 {
		g.Expect(s.Send(wire.TypeDeliver, deliverOf("web", int64(i+1)))).To(Succeed())
	}
	next(t, begun, "delivery")
	s.Cut()
	again := next(t, hub.Sessions, "next session")
	g.Expect(nextOf(t, again).Type).To(Equal(wire.TypeInventory))
	g.Expect(again.Send(wire.TypeDeliver, deliverOf("web", 4))).To(Succeed())
	g.Expect(nextMessage[wire.Delivered](t, again, wire.TypeDelivered).Delivery).To(Equal(delivery(4)))
	g.Expect(c.read()).To(Equal([]string{"inventory", "deliver web 1", "delivered web 1", "inventory", "deliver web 4", "delivered web 4"}))
}

func TestOnlyTheNewestSessionApplies(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster()
	begun, gate := make(chan struct{}, 1), make(chan struct{})
	c.deliver = func(_ context.Context, d *wire.Deliver) wire.Delivered {
		if d.Generation == 1 {
			begun <- struct{}{}
			<-gate // whatever the session does
		}
		return wire.Delivered{Stack: d.Stack, Delivery: d.Delivery}
	}
	hub, _, old := deploying(t, c)
	g.Expect(old.Send(wire.TypeDeliver, deliverOf("web", 1))).To(Succeed())
	g.Expect(old.Send(wire.TypeDeliver, deliverOf("web", 2))).To(Succeed())
	g.Expect(old.Send(wire.TypeRemove, wire.Remove{Stack: stackNamed("web")})).To(Succeed())
	next(t, begun, "delivery")
	g.Expect(old.Send(wire.TypeMoving, wire.Moving{})).To(Succeed())
	moved := next(t, hub.Sessions, "next session")
	nextMessage[wire.Heartbeat](t, moved, wire.TypeHeartbeat)
	nextMessage[wire.Heartbeat](t, moved, wire.TypeHeartbeat)
	g.Expect(c.read()).To(Equal([]string{"inventory", "deliver web 1"}), "an inventory is not read while something is applied")
	close(gate)
	g.Expect(nextOf(t, moved).Type).To(Equal(wire.TypeInventory))
	g.Expect(moved.Send(wire.TypeDeliver, deliverOf("web", 5))).To(Succeed())
	nextMessage[wire.Delivered](t, moved, wire.TypeDelivered)
	g.Expect(c.read()).To(Equal([]string{
		"inventory", "deliver web 1", "delivered web 1", "inventory", "deliver web 5", "delivered web 5",
	}))
}

func TestRemovals(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster()
	c.set(stackNamed("web"), 1)
	_, _, s := deploying(t, c)
	removed := func() string { return nextMessage[wire.Removed](t, s, wire.TypeRemoved).Name }

	g.Expect(s.Send(wire.TypeRemove, wire.Remove{Stack: stackNamed("unknown")})).To(Succeed())
	g.Expect(removed()).To(Equal("unknown"), "at once")

	// One that nobody asked for, and one that is not over.
	c.changes <- agent.Topic{Type: wire.TypeRemoved, Stack: stackNamed("by-hand")}
	g.Expect(s.Send(wire.TypeRemove, wire.Remove{Stack: stackNamed("web")})).To(Succeed())
	eventually(t, c.read).Should(ContainElement("remove web"))
	c.changes <- agent.Topic{Type: wire.TypeRemoved, Stack: stackNamed("web")}
	c.set(stackNamed("web"), 0)
	c.changes <- agent.Topic{Type: wire.TypeRemoved, Stack: stackNamed("web")}
	g.Expect(removed()).To(Equal("web"))
	c.changes <- agent.Topic{Type: wire.TypeRemoved, Stack: stackNamed("web")} // told already
	g.Expect(s.Send(wire.TypeRemove, wire.Remove{Stack: stackNamed("web")})).To(Succeed())
	g.Expect(removed()).To(Equal("web"), "each is answered")
	g.Expect(s.Send(wire.TypeRemove, wire.Remove{Stack: stackNamed("last")})).To(Succeed())
	g.Expect(removed()).To(Equal("last"))
}

func TestARemovalThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w, c := newWorld(t), newCluster()
		failures := 2
		c.remove = func(wire.Stack) error {
			if failures--; failures >= 0 {
				return errors.New("the API server is away")
			}
			return nil
		}
		w.options.Deployments = c
		start(t, w.options)
		s := <-w.hub.Sessions
		g.Expect(s.Send(wire.TypeRemove, wire.Remove{Stack: stackNamed("web")})).To(Succeed())
		g.Expect(nextMessage[wire.Removed](t, s, wire.TypeRemoved).Stack).To(Equal(stackNamed("web")))
		g.Expect(c.read()).To(Equal([]string{"inventory", "remove web", "remove web", "remove web"}))
	})
}

func TestThePaceOfNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w, c := newWorld(t), newCluster()
		const stacks, perSecond, burst = 600, 20, 100
		for i := range stacks {
			c.topics = append(c.topics, reportTopic(fmt.Sprintf("app-%d", i)))
			c.set(c.topics[i].Stack, 1)
		}
		w.options.Deployments = c
		start(t, w.options)
		s := <-w.hub.Sessions
		g.Expect(nextOf(t, s).Type).To(Equal(wire.TypeInventory))
		began := time.Now()
		last := c.topics[stacks-1]
		for i := range stacks {
			if i == burst {
				for state := range 50 { // while it waits for its turn
					c.set(last.Stack, state+2)
					c.changes <- last
				}
			}
			var r wire.Report
			g.Expect(nextOf(t, s).Read(&r)).To(Succeed())
			allowed := burst + perSecond*time.Since(began).Seconds()
			g.Expect(float64(i + 1)).To(BeNumerically("<=", allowed+1e-6))
			if r.Stack == last.Stack {
				g.Expect(string(r.Status)).To(Equal(`{"state":51}`), "the newest wins")
				g.Expect(i).To(Equal(stacks-1), "and is told once")
			}
		}
		g.Expect(time.Since(began)).To(BeNumerically("<", (stacks-burst)/perSecond*time.Second+2*time.Second))
	})
}

func TestARemovalThatNobodyNotedIsToldAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w, c := newWorld(t), newCluster()
		c.set(stackNamed("web"), 1)
		w.options.Deployments = c
		start(t, w.options)
		s := <-w.hub.Sessions
		g.Expect(s.Send(wire.TypeRemove, wire.Remove{Stack: stackNamed("web")})).To(Succeed())
		synctest.Wait()
		c.set(stackNamed("web"), 0) // before it was followed
		asked := time.Now()
		var e wire.Envelope
		for e.Type != wire.TypeRemoved {
			e = <-s.Messages
		}
		g.Expect(time.Since(asked)).To(BeNumerically("<=", time.Minute+time.Second))
	})
}
