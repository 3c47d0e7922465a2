// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

func objectKey(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// woken are the keys that were added.
type woken struct{ keys []string }

func (w *woken) Add(r reconcile.Request) { w.keys = append(w.keys, r.Name) }

func (w *woken) take() []string {
	keys := w.keys
	w.keys = nil
	return keys
}

// post office: a mailbox that knows some StackDeploys of cluster c.
type office struct {
	Gomega
	*Mailbox
	clock   *testclock.FakePassiveClock
	woken   *woken
	flooded []string
	from    session.Info
}

func newOffice(t *testing.T, names ...string) *office {
	t.Helper()
	o := &office{
		Gomega: NewWithT(t), clock: testclock.NewFakePassiveClock(noon.Time), woken: &woken{},
		from: session.Info{ClusterID: "c", SessionID: "s1", Epoch: 1},
	}
	var err error
	o.Mailbox, err = NewMailbox(o.clock, nil)
	o.Expect(err).NotTo(HaveOccurred())
	for _, name := range names {
		o.see(named(name, "u"))
	}
	o.start(o.woken, func(_, id string) { o.flooded = append(o.flooded, id) })
	return o
}

func named(name, uid string) *kubenestv1.StackDeploy {
	return &kubenestv1.StackDeploy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "org", Name: name, UID: types.UID(uid), Generation: 1},
		Spec:       kubenestv1.StackDeploySpec{ClusterID: "c", Namespace: "shop"},
	}
}

func stackNamed(name string) wire.Stack { return wire.Stack{Namespace: "org", Name: name} }

func (o *office) reports(name string, size int) {
	o.Report(o.from, &wire.Report{Stack: stackNamed(name), Delivery: third, Status: make(json.RawMessage, size)})
}

func TestNothingIsKnownBeforeTheInventory(t *testing.T) {
	o := newOffice(t, "a", "b")
	_, complete := o.view(&o.from, stackNamed("a"))
	o.Expect(complete).To(BeFalse())
	o.reports("a", 10)
	o.Expect(o.woken.take()).To(Equal([]string{"a"}))
	o.Inventory(o.from, &wire.Inventory{Stacks: []wire.Held{{Stack: stackNamed("b"), Delivery: third}, {Stack: stackNamed("x"), Delivery: third}}})
	o.Expect(o.woken.take()).To(ConsistOf("a", "b"))
	v, complete := o.view(&o.from, stackNamed("a"))
	o.Expect(complete).To(BeTrue())
	o.Expect(v.report).NotTo(BeNil(), "what came before the inventory counts")
	v, _ = o.view(&o.from, stackNamed("b"))
	o.Expect(v.held.Delivery).To(Equal(third))
	o.Expect(o.unknownOf("c")).To(Equal([]string{"org/x"}))

	o.Inventory(o.from, &wire.Inventory{})
	v, _ = o.view(&o.from, stackNamed("b"))
	o.Expect(v.held).NotTo(BeNil(), "a second inventory changes nothing")
}

func TestANewSessionBeginsEmptyAndAnOldOneIsNotHeard(t *testing.T) {
	o := newOffice(t, "a")
	o.Inventory(o.from, &wire.Inventory{})
	old := o.from
	o.from.SessionID, o.from.Epoch = "s2", 2
	o.reports("a", 10)
	_, complete := o.view(&o.from, stackNamed("a"))
	o.Expect(complete).To(BeFalse())
	o.Inventory(old, &wire.Inventory{})
	o.closed("c", "s1")
	_, complete = o.view(&o.from, stackNamed("a"))
	o.Expect(complete).To(BeFalse())
	o.Expect(o.boxes).To(HaveKey("c"), "the old one's end does not end the new one")
	o.closed("c", "s2")
	o.Expect(o.boxes).To(BeEmpty())
}

func TestUnansweredAreBounded(t *testing.T) {
	o := newOffice(t)
	o.Inventory(o.from, &wire.Inventory{})
	for i := range wire.MaxUnanswered {
		_, ok := o.reserve(&o.from, stackNamed(fmt.Sprint("s", i)), third, 10)
		o.Expect(ok).To(BeTrue())
	}
	for _, late := range []string{"x", "y", "x"} {
		_, ok := o.reserve(&o.from, stackNamed(late), third, 10)
		o.Expect(ok).To(BeFalse())
	}
	o.woken.take()
	answer := func(name string, d wire.Delivery) {
		o.Delivered(o.from, &wire.Delivered{Stack: stackNamed(name), Delivery: d})
	}
	answer("s0", wire.Delivery{UID: "u", Generation: 99, Digest: "d"})
	o.Expect(o.woken.take()).To(BeEmpty(), "nobody asked for that")
	answer("s0", third)
	o.Expect(o.woken.take()).To(Equal([]string{"x", "s0"}), "the first that waited")
	answer("s1", third)
	o.Expect(o.woken.take()).To(ContainElement("y"))
}

func TestALargeDeliveryGoesAlone(t *testing.T) {
	o := newOffice(t)
	o.Inventory(o.from, &wire.Inventory{})
	_, ok := o.reserve(&o.from, stackNamed("large"), third, 3<<20)
	o.Expect(ok).To(BeTrue(), "a single one may be of any size")
	_, ok = o.reserve(&o.from, stackNamed("small"), third, 10)
	o.Expect(ok).To(BeFalse())
	o.Delivered(o.from, &wire.Delivered{Stack: stackNamed("large"), Delivery: third})
	_, ok = o.reserve(&o.from, stackNamed("small"), third, 10)
	o.Expect(ok).To(BeTrue())
	_, ok = o.reserve(&o.from, stackNamed("large"), third, 3<<20)
	o.Expect(ok).To(BeFalse())
}

func TestSendingIsPacedForTheAnswers(t *testing.T) {
	o := newOffice(t)
	o.Inventory(o.from, &wire.Inventory{})
	sent := func() (n int) {
		for {
			s := stackNamed("s")
			if _, ok := o.reserve(&o.from, s, third, 10); !ok {
				return n
			}
			o.Delivered(o.from, &wire.Delivered{Stack: s, Delivery: third})
			n++
		}
	}
	o.Expect(sent()).To(Equal(PaceAtOnce))
	o.clock.SetTime(noon.Add(time.Second))
	o.Expect(sent()).To(Equal(int(time.Second / PaceEvery)))
	limits := session.DefaultLimits().Messages
	o.Expect(float64(time.Second/PaceEvery)+40).To(BeNumerically("<=", limits.PerSecond), "with room for reports")
	o.Expect(PaceAtOnce + 200).To(BeNumerically("<=", limits.Burst))
}

func TestSilenceCountsAsFailureAndIsRetriedSlower(t *testing.T) {
	o := newOffice(t)
	o.Inventory(o.from, &wire.Inventory{})
	for _, wait := range []time.Duration{retryAfter, 2 * retryAfter, 4 * retryAfter} {
		_, ok := o.reserve(&o.from, stackNamed("s"), third, 10)
		o.Expect(ok).To(BeTrue())
		o.clock.SetTime(o.clock.Now().Add(answerWithin))
		v, _ := o.view(&o.from, stackNamed("s"))
		o.Expect(v.sent).To(BeNil())
		o.Expect(v.failure.kind).To(Equal(wire.DeliveryUnavailable))
		o.Expect(v.failure.retryAt.Sub(o.clock.Now())).To(Equal(wait))
	}
	o.Delivered(o.from, &wire.Delivered{Stack: stackNamed("s"), Delivery: third})
	v, _ := o.view(&o.from, stackNamed("s"))
	o.Expect(v.held).To(BeNil(), "it was given up")
}

func TestOfReportsTheNewestIsKeptAndWorkedInOnce(t *testing.T) {
	o := newOffice(t, "a")
	o.Inventory(o.from, &wire.Inventory{})
	o.reports("a", 10)
	v, _ := o.view(&o.from, stackNamed("a"))
	o.reports("a", 20)
	o.worked(&o.from, stackNamed("a"), v.report, nil)
	v, _ = o.view(&o.from, stackNamed("a"))
	o.Expect(v.report.Status).To(HaveLen(20), "it came meanwhile")
	o.Expect(o.boxes["c"].kept).To(Equal(20))
	o.worked(&o.from, stackNamed("a"), v.report, nil)
	o.Expect(o.boxes["c"].kept).To(BeZero())
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	var names []string
	for i := range maxKept/wire.MaxStatus + 1 {
		names = append(names, fmt.Sprint("s", i))
	}
	o := newOffice(t, names...)
	for i := range names {
		o.reports(names[i], wire.MaxStatus)
	}
	o.Expect(o.flooded).To(Equal([]string{"s1"}), "its next session tells everything again")
	o.Expect(o.boxes["c"].kept).To(BeNumerically("<=", maxKept))

	o = newOffice(t)
	for i := range 10 * maxStrays {
		o.reports(fmt.Sprint("unknown", i), 10)
	}
	o.Expect(o.boxes["c"].slots).To(HaveLen(maxStrays))
	o.Expect(o.flooded).To(BeEmpty())
	o.see(named("unknown1", "u"))
	o.Expect(o.boxes["c"].strays).To(HaveLen(maxStrays - 1))
	for i := range 2 * maxComponents {
		o.Exports(o.from, &wire.Exports{Stack: stackNamed("unknown1"), Component: fmt.Sprint("c", i), Revision: "r"})
	}
	o.Expect(len(o.boxes["c"].slots[stackNamed("unknown1")].exports)).To(BeNumerically("<=", maxComponents+1))
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	o := newOffice(t, "a")
	o.Inventory(o.from, &wire.Inventory{})
	o.reports("a", 10)
	_, _ = o.reserve(&o.from, stackNamed("a"), third, 10)
	o.forget(named("a", "another"))
	o.Expect(o.known).To(HaveKey("c"), "that one was replaced already")
	o.forget(named("a", "u"))
	o.Expect(o.known).To(BeEmpty())
	b := o.boxes["c"]
	o.Expect([]int{b.kept, b.unanswered, b.bytes, len(b.slots)}).To(Equal([]int{0, 0, 0, 0}))
}

func TestARemovalIsNotTheNextObjectsOfThatName(t *testing.T) {
	o := newOffice(t, "a")
	o.Inventory(o.from, &wire.Inventory{})
	o.Removed(o.from, &wire.Removed{Stack: stackNamed("a")})
	o.Expect(o.ask(&o.from, stackNamed("a"))).To(BeTrue())
	v, _ := o.view(&o.from, stackNamed("a"))
	o.Expect(v.removed).To(BeFalse(), "that was said before it was asked for")
	o.Removed(o.from, &wire.Removed{Stack: stackNamed("a")})
	v, _ = o.view(&o.from, stackNamed("a"))
	o.Expect(v.removed).To(BeTrue())
	o.see(named("a", "new"))
	v, _ = o.view(&o.from, stackNamed("a"))
	o.Expect(v.asked || v.removed).To(BeFalse())
}

func TestDigestIsComputedOnceAGeneration(t *testing.T) {
	o := newOffice(t, "a")
	s := named("a", "u")
	d, spec, err := o.delivery(s)
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(d.Digest).To(Equal(wire.Digest(spec)))
	same, spec, err := o.delivery(s)
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(same).To(Equal(d))
	o.Expect(spec).To(BeNil())
	s.Generation, s.Spec.Paused = 2, true
	other, spec, err := o.delivery(s)
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(other.Digest).To(And(Equal(wire.Digest(spec)), Not(Equal(d.Digest))))
}

func TestARestoredDatabaseIsNotMistakenForWhatWasBefore(t *testing.T) {
	o := newOffice(t, "a")
	generation := func(n int64, image string) *kubenestv1.StackDeploy {
		s := named("a", "u")
		s.Generation, s.Spec.App = n, image
		return s
	}
	first := generation(5, "one")
	lost, _, err := o.delivery(first)
	o.Expect(err).NotTo(HaveOccurred())
	for name, way := range map[string][]*kubenestv1.StackDeploy{
		"seen on its way": {generation(4, "old"), generation(5, "two")},
		"all at once":     {generation(5, "two")},
	} {
		t.Run(name, func(t *testing.T) {
			g, before := NewWithT(t), first
			_, _, err := o.delivery(first)
			g.Expect(err).NotTo(HaveOccurred())
			for _, next := range way {
				o.changed(before, next)
				before = next
			}
			d, spec, err := o.delivery(before)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(d.Generation).To(Equal(lost.Generation))
			g.Expect(d.Digest).To(And(Equal(wire.Digest(spec)), Not(Equal(lost.Digest))))
			o.changed(before, first) // for the next one
		})
	}
}

func TestAnOperatorGetsNoMoreThanItCanTellOf(t *testing.T) {
	o := newOffice(t, "one-more")
	inventory := &wire.Inventory{}
	for i := range wire.MaxStacks - 1 {
		inventory.Stacks = append(inventory.Stacks, wire.Held{Stack: stackNamed(fmt.Sprintf("s-%d", i)), Delivery: third})
	}
	o.Inventory(o.from, inventory)
	last, more := stackNamed("last"), stackNamed("one-more")
	o.Expect(o.full(&o.from, last)).To(BeFalse())
	_, ok := o.reserve(&o.from, last, third, 1)
	o.Expect(ok).To(BeTrue())
	o.Expect(o.full(&o.from, more)).To(BeTrue(), "the last one is on its way")
	o.Expect(o.full(&o.from, stackNamed("s-1"))).To(BeFalse(), "it has that one, of which there may be a newer")
	o.Removed(o.from, &wire.Removed{Stack: stackNamed("s-1")})
	o.Expect(o.full(&o.from, more)).To(BeFalse())
}
