// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package replica_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubenest/kubenest/hub/replica"
)

// member is a hub replica, as far as this package goes.
type member struct {
	id      replica.ID
	keeper  *replica.Keeper
	watcher *replica.Watcher
	road    *road
	stop    context.CancelFunc
	done    chan error
}

var _ = Describe("Replicas", func() {
	var (
		namespace string
		clock     *clocktesting.FakeClock
	)

	BeforeEach(func(ctx SpecContext) {
		created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hub-"}}
		Expect(api.Create(ctx, created)).To(Succeed())
		namespace = created.Name
		clock = clocktesting.NewFakeClock(time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC))
	})

	start := func(name string) *member {
		GinkgoHelper()
		c, way := newRoad()
		m := &member{id: replica.New(name), road: way, done: make(chan error, 2)}
		m.keeper = replica.NewKeeper(c, namespace, m.id, GinkgoLogr)
		m.keeper.SetClock(clock)
		m.watcher = replica.NewWatcher(c, namespace, m.id, GinkgoLogr)
		m.watcher.SetClock(clock)
		Expect(m.keeper.CanRenew()).To(BeFalse(), "no sessions before the Lease is there")
		var running context.Context
		running, m.stop = context.WithCancel(context.Background())
		keeping := make(chan error, 1)
		go func() { keeping <- m.keeper.Run(running) }()
		watching := make(chan error, 1)
		go func() { watching <- m.watcher.Run(running) }()
		go func() {
			err := <-keeping
			m.stop()
			<-watching
			m.done <- err
		}()
		DeferCleanup(func() {
			m.stop()
			Eventually(m.done, "20s").Should(Receive())
		})
		Eventually(m.keeper.CanRenew).Should(BeTrue())
		Eventually(m.watcher.SeenRenewals, "20s").Should(Equal(1))
		return m
	}
	// pass lets time pass while every one of members renews and sees it.
	pass := func(d time.Duration, members ...*member) {
		GinkgoHelper()
		for ; d > 0; d -= replica.RenewEvery {
			seen := make([]int, len(members))
			for i, m := range members {
				seen[i] = m.watcher.SeenRenewals()
			}
			clock.Step(replica.RenewEvery)
			for i, m := range members {
				Eventually(m.watcher.SeenRenewals, "60s", "5ms").Should(BeNumerically(">", seen[i]), "%s renews", m.id)
				for _, other := range members {
					Eventually(func() bool { alive, _ := m.watcher.Alive(other.id.String()); return alive }).Should(BeTrue())
				}
			}
		}
	}
	alive := func(m *member, of replica.ID) func() bool {
		return func() bool {
			is, _ := m.watcher.Alive(of.String())
			return is
		}
	}
	lease := func(ctx context.Context, name string) *coordinationv1.Lease {
		GinkgoHelper()
		var found coordinationv1.Lease
		Expect(api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: replica.LeaseName(name)}, &found)).To(Succeed())
		return &found
	}

	It("keeps one Lease and releases it", func(ctx SpecContext) {
		a := start("a")
		first := lease(ctx, "a")
		Expect(first.Labels).To(HaveKeyWithValue(replica.Label, "true"))
		Expect(*first.Spec.HolderIdentity).To(Equal(a.id.String()))
		Expect(*first.Spec.LeaseDurationSeconds).To(BeEquivalentTo(15))
		Expect(a.keeper.LastRenewed()).To(Equal(clock.Now()))

		pass(replica.RenewEvery, a)
		Expect(lease(ctx, "a").Spec.RenewTime.Sub(first.Spec.RenewTime.Time)).To(Equal(replica.RenewEvery))

		By("making it anew when somebody deletes it")
		Expect(api.Delete(ctx, lease(ctx, "a"))).To(Succeed())
		pass(replica.RenewEvery, a)
		Expect(*lease(ctx, "a").Spec.HolderIdentity).To(Equal(a.id.String()))

		a.stop()
		Eventually(a.done).Should(Receive(BeNil()))
		a.done <- nil
		Expect(lease(ctx, "a").Spec.HolderIdentity).To(BeNil())
		Expect(a.keeper.CanRenew()).To(BeFalse())
	})

	It("sees a peer leave at once, and one that dies when its Lease has lapsed", func() {
		a, b, c := start("a"), start("b"), start("c")
		Eventually(alive(a, b.id)).Should(BeTrue())
		Eventually(alive(a, c.id)).Should(BeTrue())
		Eventually(a.watcher.Peers).Should(ConsistOf(b.id, c.id))
		pass(2*replica.RenewEvery, a, b, c)

		b.stop()
		Eventually(b.done).Should(Receive(BeNil()))
		b.done <- nil
		Eventually(alive(a, b.id)).Should(BeFalse(), "it has released its Lease")
		Expect(a.watcher.Peers()).To(ConsistOf(c.id))

		c.road.setCut(true)
		pass(replica.LeaseDuration-replica.RenewEvery, a)
		is, again := a.watcher.Alive(c.id.String())
		Expect(is).To(BeTrue(), "10 s are not 15 s")
		Expect(again).To(And(BeNumerically(">", 0), BeNumerically("<=", replica.LeaseDuration)))
		Expect(a.watcher.PeerReady()).To(BeTrue())
		pass(2*replica.RenewEvery, a)
		Expect(alive(a, c.id)()).To(BeFalse())
		Expect(a.watcher.PeerReady()).To(BeFalse())

		By("believing one that comes back")
		c.road.setCut(false)
		pass(replica.RenewEvery, a)
		Eventually(func() bool {
			clock.Step(time.Second)
			return alive(a, c.id)()
		}).Should(BeTrue())
	})

	It("takes a replica that restarts under its name for another one", func() {
		a, old := start("a"), start("b")
		Eventually(alive(a, old.id)).Should(BeTrue())

		restarted := start("b")
		Expect(restarted.id.Name).To(Equal(old.id.Name))
		Eventually(alive(a, old.id)).Should(BeFalse(), "at once: its Lease never lapsed")
		Eventually(alive(a, restarted.id)).Should(BeTrue())
		Expect(alive(restarted, old.id)()).To(BeFalse(), "the newcomer knows without asking")
		Expect(alive(restarted, restarted.id)()).To(BeTrue())

		By("ending the one that was replaced, if it still runs")
		clock.Step(replica.RenewEvery)
		Eventually(old.done).Should(Receive(MatchError(replica.ErrSuperseded)))
		old.done <- nil
		Expect(old.keeper.CanRenew()).To(BeFalse())
		Consistently(alive(a, restarted.id), "300ms").Should(BeTrue(), "the old one has not released the newer's Lease")
	})

	It("calls nobody dead for an outage of the API server", func() {
		a, b, dead := start("a"), start("b"), start("dead")
		Eventually(a.watcher.Peers).Should(ConsistOf(b.id, dead.id))
		dead.road.setCut(true)
		pass(4*replica.RenewEvery, a, b)
		Expect(alive(a, dead.id)()).To(BeFalse())

		a.road.setCut(true)
		b.road.setCut(true)
		clock.Step(replica.RenewalDeadline - time.Second)
		Expect(a.keeper.CanRenew()).To(BeTrue())
		clock.Step(time.Second)
		Expect(a.keeper.CanRenew()).To(BeFalse(), "not after 60 s")
		clock.Step(time.Hour)
		Expect(alive(a, b.id)()).To(BeTrue(), "we were blind for an hour")
		Expect(a.watcher.PeerReady()).To(BeFalse(), "but cannot say that it is there")

		By("giving it time when only we are back")
		a.road.setCut(false)
		pass(replica.RenewEvery, a)
		Expect(a.keeper.CanRenew()).To(BeTrue())
		pass(replica.RenewalDeadline-2*replica.RenewEvery, a)
		Expect(alive(a, b.id)()).To(BeTrue())
		Expect(alive(a, dead.id)()).To(BeFalse(), "who was dead before stays dead")

		By("and no more than that")
		pass(3*replica.RenewEvery, a)
		Expect(alive(a, b.id)()).To(BeFalse())
	})

	It("judges a replica without a Lease only when no news of it can be under way", func() {
		a := start("a")
		stranger := replica.New("stranger")
		is, again := a.watcher.Alive(stranger.String())
		Expect(is).To(BeTrue(), "it may be so new that its Lease is not known yet")
		Expect(again).To(BeNumerically(">", 0))
		pass(2*replica.RenewEvery, a)
		Expect(alive(a, stranger)()).To(BeFalse())
		is, again = a.watcher.Alive(stranger.String())
		Expect(is).To(BeFalse())
		Expect(again).To(BeZero())

		By("being sure of what cannot live")
		for _, nobody := range []string{"", "nonsense", "a/earlierboot"} {
			is, again := a.watcher.Alive(nobody)
			Expect(is).To(BeFalse(), nobody)
			Expect(again).To(BeZero())
		}

		By("knowing nobody dead before the first list")
		c, way := newRoad()
		way.setCut(true)
		blind := replica.NewWatcher(c, namespace, replica.New("blind"), GinkgoLogr)
		is, again = blind.Alive(stranger.String())
		Expect(is).To(BeTrue())
		Expect(again).To(BeNumerically(">", 0))
	})

	It("removes Leases that lapsed long ago", func(ctx SpecContext) {
		a := start("a")
		gone := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: replica.LeaseName("gone"), Labels: map[string]string{replica.Label: "true"}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       new(replica.New("gone").String()),
				RenewTime:            new(metav1.NewMicroTime(clock.Now().AddDate(30, 0, 0))), // clocks do not matter
				LeaseDurationSeconds: new(int32(15)),
			},
		}
		Expect(api.Create(ctx, gone)).To(Succeed())
		Eventually(a.watcher.Peers).Should(HaveLen(1))

		own := lease(ctx, "a")
		hour := func() {
			for range int(replica.PruneAfter / replica.RenewEvery) {
				clock.SetTime(clock.Now().Add(replica.RenewEvery))
				own = own.DeepCopy()
				own.Spec.RenewTime = new(metav1.NewMicroTime(clock.Now()))
				a.watcher.Observe(own)
			}
		}
		hour()
		Expect(a.watcher.Prune(ctx)).To(Succeed())
		Expect(lease(ctx, "gone")).NotTo(BeNil(), "not yet")
		hour()
		Expect(a.watcher.Prune(ctx)).To(Succeed())
		err := api.Get(ctx, client.ObjectKeyFromObject(gone), &coordinationv1.Lease{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), fmt.Sprint(err))
		Expect(lease(ctx, "a")).NotTo(BeNil(), "never its own")
		Expect(a.watcher.Prune(ctx)).To(Succeed())
	})
})
