// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

// deployments notes what it is told.
type deployments struct {
	mu   sync.Mutex
	told []string
}

func (d *deployments) note(from session.Info, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, from.ClusterID+": "+fmt.Sprintf(format, args...))
}

func (d *deployments) Inventory(from session.Info, m *wire.Inventory) {
	d.note(from, "inventory of %d, schema %d", len(m.Stacks), from.Schema)
}

func (d *deployments) Delivered(from session.Info, m *wire.Delivered) {
	d.note(from, "delivered %s %s %s", m.Stack, m.Failure, m.Message)
}

func (d *deployments) Removed(from session.Info, m *wire.Removed) {
	d.note(from, "removed %s", m.Stack)
}

func (d *deployments) Report(from session.Info, m *wire.Report) {
	d.note(from, "report %s of %d", m.Stack, len(m.Status))
}

func (d *deployments) Exports(from session.Info, m *wire.Exports) {
	d.note(from, "exports %s/%s", m.Stack, m.Component)
}

var (
	shop     = wire.Stack{Namespace: "org", Name: "shop"}
	delivery = wire.Delivery{UID: "u", Generation: 3, Digest: "d"}
)

func TestDeploymentMessages(t *testing.T) {
	told := &deployments{}
	bubble(t, session.Options{Deployments: told}, func(f *fixture) {
		o := f.connect(cluster)
		large := json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
		for _, m := range []struct {
			kind    wire.Type
			message any
		}{
			{wire.TypeInventory, wire.Inventory{Stacks: []wire.Held{{Stack: shop, Delivery: delivery}}}},
			{wire.TypeDelivered, wire.Delivered{Stack: shop, Delivery: delivery, Failure: "new one", Message: "a\nb"}},
			{wire.TypeReport, wire.Report{Stack: shop, Delivery: delivery, Status: large}},
			{wire.TypeExports, wire.Exports{Stack: shop, Component: "db", Revision: "r"}},
			{wire.TypeRemoved, wire.Removed{Stack: shop}},
		} {
			f.Expect(o.Send(m.kind, m.message)).To(Succeed())
			synctest.Wait()
			f.Expect(f.metric("kubenest_hub_session_messages_received_total", string(m.kind))).To(BeEquivalentTo(1))
		}
		f.Expect(told.told).To(Equal([]string{
			"cluster-1: inventory of 1, schema 1",
			"cluster-1: delivered org/shop invalid a b",
			"cluster-1: report org/shop of 100002",
			"cluster-1: exports org/shop/db",
			"cluster-1: removed org/shop",
		}))
	})
}

func TestDeploymentMessagesOutOfPlace(t *testing.T) {
	for kind, message := range map[wire.Type]any{
		wire.TypeDeliver:   wire.Deliver{Stack: shop, Delivery: delivery, Spec: json.RawMessage(`{}`)},
		wire.TypeRemove:    wire.Remove{Stack: shop},
		wire.TypeReport:    wire.Report{Stack: shop, Delivery: delivery, Status: json.RawMessage(`"` + strings.Repeat("x", wire.MaxStatus) + `"`)},
		wire.TypeInventory: wire.Inventory{Stacks: []wire.Held{{Stack: wire.Stack{Namespace: "a/b", Name: "c"}}}},
	} {
		t.Run(string(kind), func(t *testing.T) {
			bubble(t, session.Options{Deployments: &deployments{}}, func(f *fixture) {
				o := f.connect(cluster)
				f.Expect(o.Send(kind, message)).To(Succeed())
				f.wantEnd(wire.EndProtocol)
			})
		})
	}
}

func TestDeploymentMessagesThatNobodyTakes(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		o := f.connect(cluster)
		f.Expect(o.Send(wire.TypeRemoved, wire.Removed{Stack: shop})).To(Succeed())
		synctest.Wait()
		f.Expect(f.metric("kubenest_hub_session_messages_dropped_total", "nobody_listens")).To(BeEquivalentTo(1))
		f.Expect(o.Ended()).To(BeEmpty())
	})
}

func TestSend(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		o := f.connect(cluster)
		f.Expect(f.registry.Send(cluster, o.Welcome.Session, wire.TypeRemove, wire.Remove{Stack: shop})).To(Succeed())
		f.Expect(next[wire.Remove](f, o, wire.TypeRemove).Stack).To(Equal(shop))

		f.Expect(f.registry.Send(cluster, "another", wire.TypeRemove, wire.Remove{})).To(MatchError(session.ErrNotConnected))
		f.Expect(f.registry.Send("another", o.Welcome.Session, wire.TypeRemove, wire.Remove{})).To(MatchError(session.ErrNotConnected))
		large := wire.Trust{CABundle: strings.Repeat("x", wire.MaxMessage)}
		f.Expect(f.registry.Send(cluster, o.Welcome.Session, wire.TypeTrust, large)).To(MatchError(ContainSubstring("at most")))
		f.Expect(o.Ended()).To(BeEmpty())
	})
}

// An operator that has much tells of all of it after its welcome, and answers a
// fleet of deliveries besides.
func TestBudgetFitsAnOperatorWithManyStacks(t *testing.T) {
	bubble(t, session.Options{Deployments: &deployments{}}, func(f *fixture) {
		o := f.connect(cluster)
		inventory := wire.Inventory{}
		for i := range 2000 {
			inventory.Stacks = append(inventory.Stacks, wire.Held{Stack: wire.Stack{Namespace: "org", Name: fmt.Sprintf("app-%d", i)}, Delivery: delivery})
		}
		f.Expect(o.Send(wire.TypeInventory, inventory)).To(Succeed())
		answer := func() {
			f.Expect(o.Send(wire.TypeDelivered, wire.Delivered{Stack: shop, Delivery: delivery})).To(Succeed())
		}
		for range 400 { // what may come at once
			answer()
		}
		status := json.RawMessage(`"` + strings.Repeat("x", 40_000) + `"`)
		for range 1000 { // what comes in the long run, a second for each 20 reports
			f.Expect(o.Send(wire.TypeReport, wire.Report{Stack: shop, Delivery: delivery, Status: status})).To(Succeed())
			answer()
			answer()
			time.Sleep(time.Second / 20)
		}
		synctest.Wait()
		f.Expect(o.Ended()).To(BeEmpty())
		f.Expect(f.registry.Len()).To(Equal(1))
	})
}

func TestClaimOfAnOperatorThatHungUpIsCancelled(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		f.authority.OnClaim = func(ctx context.Context, _ session.Claim) (int64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		begin := time.Now()
		ws := f.openRaw()
		hello, err := wire.Encode(wire.TypeHello, sessiontest.Hello())
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(ws.WriteMessage(1, hello)).To(Succeed())
		synctest.Wait()
		f.Expect(f.authority.Claims()).To(HaveLen(1))
		f.Expect(f.metric("kubenest_hub_connections_unopened_total", "lost")).To(BeEquivalentTo(-1))
		_ = ws.Close()
		synctest.Wait()
		f.Expect(f.metric("kubenest_hub_connections_unopened_total", "lost")).To(BeEquivalentTo(1))
		f.Expect(time.Since(begin)).To(BeNumerically("<", time.Second), "its place is free at once")
		f.Expect(f.log.String()).NotTo(ContainSubstring("Could not decide"))
	})
}

func TestMessageBeforeTheWelcomeWaits(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		claimed := make(chan struct{})
		f.authority.OnClaim = func(context.Context, session.Claim) (int64, error) {
			<-claimed
			return 1, nil
		}
		c := f.open()
		f.Expect(c.Send(wire.TypeHello, sessiontest.Hello())).To(Succeed())
		f.Expect(c.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &wire.Facts{Nodes: new(int32(3))}})).To(Succeed())
		synctest.Wait()
		f.Expect(f.events.take()).To(BeEmpty())
		close(claimed)
		f.Expect(f.events.kinds()).To(Equal([]string{"opened cluster-1", "factsChanged cluster-1"}))
		f.Expect(f.nodes(cluster)).To(BeEquivalentTo(3))
		go func() { _, _ = c.Read() }()
	})
}
