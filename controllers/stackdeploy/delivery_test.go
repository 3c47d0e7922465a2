// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

var _ = Describe("Delivery", func() {
	var (
		w  *world
		h  *replica
		id string
	)
	BeforeEach(func() {
		w = newWorld()
		h = w.start("hub-0/boot1", true)
		id = w.cluster("prod")
	})
	// deployed is a StackDeploy that its operator has.
	deployed := func(o *operator, app string) (*kubenestv1.StackDeploy, wire.Delivery) {
		s := w.stack(app, id)
		EventuallyWithOffset(1, o.has(s)).ShouldNot(BeNil())
		EventuallyWithOffset(1, w.delivered(s)).Should(Equal("True/Delivered"))
		return s, o.has(s)().Delivery
	}

	It("brings a StackDeploy, and what its operator says of it back", func() {
		o := h.connect(id, nil)
		s, d := deployed(o, "shop")
		var spec kubenestv1.StackDeploySpec
		got := o.has(s)()
		Expect(json.Unmarshal(got.Spec, &spec)).To(Succeed())
		Expect(spec).To(Equal(w.get(s).Spec))
		Expect(d).To(Equal(wire.Delivery{UID: string(s.UID), Generation: 1, Digest: wire.Digest(got.Spec)}))
		Expect(w.get(s).Status.Delivered).To(HaveValue(Equal(*sourceOf(stackOf(s), d))))
		Expect(w.ready(s)()).To(Equal("False/Deploying"))

		o.report(s, d, running("web:1"))
		Eventually(w.ready(s)).Should(Equal("True/Running"))
		status := w.get(s).Status
		Expect(status.Phase).To(Equal(kubenestv1.AppRunning))
		Expect(status.Components).To(HaveLen(2))
		Expect(status.Components[0]).To(And(HaveField("Cluster", "prod"), HaveField("ClusterID", id), HaveField("Exports", []string{"dsn"})))
		Expect(status.Source).To(HaveValue(Equal(*sourceOf(stackOf(s), d))))

		By("writing nothing more while nothing happens")
		version := w.get(s).ResourceVersion
		o.report(s, d, running("web:1"))
		Consistently(func() string { return w.get(s).ResourceVersion }).Should(Equal(version))
		Expect(o.count()).To(Equal(1))
	})

	It("waits for the inventory, and sends only what differs from it", func() {
		o := h.connect(id, nil)
		same, _ := deployed(o, "same")
		other, _ := deployed(o, "other")
		restored, _ := deployed(o, "restored")
		o.Close(wire.EndGoodbye, "")
		Eventually(o.done).Should(BeClosed())
		w.edit(other, func(s *kubenestv1.StackDeploy) { s.Spec.Paused = true })
		// What a hub had delivered whose database is lost: this generation, with other content.
		foreign := *o.stacks[stackOf(restored)]
		foreign.Digest = "another"
		o.stacks[stackOf(restored)] = &foreign

		again := h.connect(id, o)
		Eventually(func() int64 { return again.has(other)().Generation }).Should(BeEquivalentTo(2))
		Eventually(func() string { return again.has(restored)().Digest }).ShouldNot(Equal("another"))
		Consistently(again.count).Should(Equal(2), "%s is the same", same.Name)
	})

	It("sends nothing before the inventory came", func() {
		s := w.stack("shop", id)
		o, err := h.front.Connect(w.ctx, h.authority.Issue(identityOf(id)), helloOf(1))
		Expect(err).NotTo(HaveOccurred())
		Consistently(o.Received).ShouldNot(Receive())
		Expect(o.Send(wire.TypeInventory, wire.Inventory{})).To(Succeed())
		var e wire.Envelope
		Eventually(o.Received).Should(Receive(&e))
		Expect(e.Type).To(Equal(wire.TypeDeliver))
		Expect(w.delivered(s)()).NotTo(Equal("True/Delivered"))
	})

	It("delivers again what was under way when the session was lost", func() {
		o := h.connect(id, nil, func(o *operator, _ *wire.Hello) {
			o.answer = func(*wire.Deliver) (*wire.Delivered, bool) { return nil, false }
		})
		s := w.stack("shop", id)
		Eventually(o.count).Should(Equal(1))
		Eventually(w.delivered(s)).Should(Equal("False/Delivering"))
		o.Close(wire.EndGoodbye, "")
		again := h.connect(id, nil)
		Eventually(again.has(s)).ShouldNot(BeNil())
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
	})

	It("ends at the last of many edits, and skips others", func() {
		o := h.connect(id, nil)
		s, _ := deployed(o, "shop")
		for i := range 50 {
			w.edit(s, func(s *kubenestv1.StackDeploy) { s.Spec.Components[1].WorkloadSpec.Image = fmt.Sprintf("web:%d", i+2) })
		}
		last := w.get(s).Generation
		Eventually(func() int64 { return o.has(s)().Generation }).Should(Equal(last))
		Expect(string(o.has(s)().Spec)).To(ContainSubstring("web:51"))
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
	})

	It("drops a report about an older generation", func() {
		o := h.connect(id, nil)
		s, first := deployed(o, "shop")
		o.report(s, first, running("web:1"))
		Eventually(w.ready(s)).Should(Equal("True/Running"))
		w.edit(s, func(s *kubenestv1.StackDeploy) { s.Spec.Components[1].WorkloadSpec.Image = "web:2" })
		Eventually(func() int64 { return o.has(s)().Generation }).Should(BeEquivalentTo(2))
		Eventually(w.ready(s)).Should(Equal("False/Deploying"))
		second := o.has(s)().Delivery
		o.report(s, second, running("web:2"))
		Eventually(w.ready(s)).Should(Equal("True/Running"))

		o.report(s, first, running("web:1"))
		foreign := second
		foreign.Digest = "another"
		Consistently(func() string {
			o.report(s, foreign, running("web:3"))
			return w.get(s).Status.Components[1].Image
		}).Should(Equal("web:2"))
	})

	It("retries what can not be stored now, and not what is refused until it changes", func() {
		failure, tries := wire.DeliveryUnavailable, 0
		o := h.connect(id, nil, func(o *operator, _ *wire.Hello) {
			o.answer = func(d *wire.Deliver) (*wire.Delivered, bool) {
				tries++
				if d.Generation == 1 && failure == wire.DeliveryUnavailable && tries > 1 {
					return &wire.Delivered{Stack: d.Stack, Delivery: d.Delivery}, true
				}
				return &wire.Delivered{Stack: d.Stack, Delivery: d.Delivery, Failure: failure, Message: "etcd says no"}, true
			}
		})
		s := w.stack("shop", id)
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
		Expect(o.count()).To(Equal(2))

		o.mu.Lock()
		failure = wire.DeliveryInvalid
		o.mu.Unlock()
		w.edit(s, func(s *kubenestv1.StackDeploy) { s.Spec.Paused = true })
		Eventually(w.delivered(s)).Should(Equal("False/DeliveryRefused"))
		Expect(w.condition(s, kubenestv1.ConditionStalled)()).To(Equal("True/DeliveryRefused"))
		Expect(w.get(s).Status.Message).To(ContainSubstring("etcd says no"))
		Eventually(w.events(s.Name)).Should(ContainElement(kubenestv1.ReasonDeliveryRefused))
		Consistently(o.count).Should(Equal(3))

		o.mu.Lock()
		o.answer = nil
		o.mu.Unlock()
		w.edit(s, func(s *kubenestv1.StackDeploy) { s.Spec.Paused = false })
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
	})

	It("says what to do when the operator is too old, by its hello or its answer", func() {
		o := h.connect(id, nil, func(_ *operator, hello *wire.Hello) { hello.Schema = 0 })
		s := w.stack("shop", id)
		Eventually(w.delivered(s)).Should(Equal("False/OperatorTooOld"))
		Expect(w.get(s).Status.Message).To(And(ContainSubstring("v0.0.0-test"), ContainSubstring("schema 0"), ContainSubstring("schema 1"), ContainSubstring("helm upgrade")))
		Expect(w.get(s).Status.Phase).To(Equal(kubenestv1.AppFailed))
		Expect(o.count()).To(BeZero())

		h.connect(id, nil, func(o *operator, _ *wire.Hello) {
			o.answer = func(d *wire.Deliver) (*wire.Delivered, bool) {
				return &wire.Delivered{Stack: d.Stack, Delivery: d.Delivery, Failure: wire.DeliverySchema, Message: `unknown field "spec.later"`}, true
			}
		})
		Eventually(func() string { return w.get(s).Status.Message }).Should(ContainSubstring("spec.later"))
		h.connect(id, nil)
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
		Expect(w.condition(s, kubenestv1.ConditionStalled)()).To(Equal("absent"))
	})

	It("says so, too, of an operator that knows nothing of deployments", func() {
		s := w.stack("shop", id)
		Eventually(w.delivered(s)).Should(Equal("False/ClusterDisconnected"))
		_, err := h.front.Connect(w.ctx, h.authority.Issue(identityOf(id)), helloOf(0)) // and sends no inventory
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.delivered(s)).Should(Equal("False/OperatorTooOld"))
		Expect(api.Delete(w.ctx, w.get(s))).To(Succeed())
		Eventually(func() string { return w.get(s).Status.Message }).Should(ContainSubstring("upgrade the operator"))
		Eventually(w.condition(s, kubenestv1.ConditionReconciling)).Should(Equal("True/Deleting"))
		h.connect(id, nil)
		Eventually(w.gone(s)).Should(BeTrue())
	})

	It("delivers 1 MB, and says what is too large", func() {
		o := h.connect(id, nil)
		values := func(size int) *runtime.RawExtension {
			return &runtime.RawExtension{Raw: []byte(`{"x":"` + strings.Repeat("x", size) + `"}`)}
		}
		large := w.stack("large", id, func(s *kubenestv1.StackDeploy) { s.Spec.Components[0].AddonSpec.Values = values(1 << 20) })
		Eventually(o.has(large)).ShouldNot(BeNil())
		Expect(len(o.has(large)().Spec)).To(BeNumerically(">", 1<<20))
		Eventually(w.delivered(large)).Should(Equal("True/Delivered"))

		// Inputs travel besides, so that a message can be larger than any object.
		var inputs []kubenestv1.StackInput
		for i := range 4 {
			content := bytes.Repeat([]byte{byte(i)}, 900<<10)
			name := fmt.Sprintf("chart-%d", i)
			Expect(api.Create(w.ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{kubenestv1.ChartLabel: "true"}},
				BinaryData: map[string][]byte{"chart.tgz": content},
			})).To(Succeed())
			inputs = append(inputs, kubenestv1.StackInput{Name: name, Kind: kubenestv1.InputChart, Revision: wire.Digest(content)})
		}
		s := w.stack("huge", id, func(s *kubenestv1.StackDeploy) { s.Spec.Inputs = inputs })
		Eventually(w.delivered(s)).Should(Equal("False/TooLarge"))
		Expect(w.get(s).Status.Message).To(And(ContainSubstring("at most 4194304"), ContainSubstring("Chart chart-0")))
		Expect(o.has(s)()).To(BeNil())
		Expect(o.Ended()).To(BeEmpty())
		w.edit(s, func(s *kubenestv1.StackDeploy) { s.Spec.Inputs = s.Spec.Inputs[:1] })
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
		Expect(o.has(s)().Inputs[0].Data["chart.tgz"]).To(HaveLen(900 << 10))
	})

	It("takes along the inputs that are meant, and no others", func() {
		o := h.connect(id, nil)
		secret := func(name string, kind corev1.SecretType) *corev1.Secret {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Type: kind, Data: map[string][]byte{"password": []byte("PRIVATE")}}
			Expect(api.Create(w.ctx, s)).To(Succeed())
			return s
		}
		wrong := secret("wrong", corev1.SecretTypeOpaque)
		right := secret("right", kubenestv1.SecretTypeGitCredential)
		version := func(s *corev1.Secret) string { return wire.Digest([]byte(string(s.UID) + "/" + s.ResourceVersion)) }
		refused := map[string]kubenestv1.StackInput{
			"is not of type":       {Name: "wrong", Kind: kubenestv1.InputGitCredential, Revision: version(wrong)},
			"is not one with":      {Name: "right", Kind: kubenestv1.InputExports, Revision: "r"},
			"is not there: create": {Name: "absent", Kind: kubenestv1.InputChart, Revision: "r"},
			"has changed":          {Name: "right", Kind: kubenestv1.InputGitCredential, Revision: "before"},
		}
		i := 0
		for want, input := range refused {
			i++
			s := w.stack(fmt.Sprintf("app-%d", i), id, func(s *kubenestv1.StackDeploy) { s.Spec.Inputs = []kubenestv1.StackInput{input} })
			Eventually(w.delivered(s)).Should(Equal("False/InputMissing"), want)
			Expect(w.get(s).Status.Message).To(ContainSubstring(want))
			Expect(o.has(s)()).To(BeNil())
		}
		s := w.stack("shop", id, func(s *kubenestv1.StackDeploy) {
			s.Spec.Inputs = []kubenestv1.StackInput{
				{Name: "right", Kind: kubenestv1.InputGitCredential, Revision: version(right)},
				{Name: "later", Kind: kubenestv1.InputExports}, // without content yet
			}
		})
		Eventually(o.has(s)).ShouldNot(BeNil())
		Expect(o.has(s)().Inputs).To(ConsistOf(wire.Input{Name: "right", Kind: "GitCredential", Revision: version(right), Data: right.Data}))
		Expect(string(o.has(s)().Spec)).NotTo(ContainSubstring("PRIVATE"))
	})

	It("has what is deleted removed, also while the cluster was away", func() {
		o := h.connect(id, nil, func(o *operator, _ *wire.Hello) { o.clings = true })
		s, d := deployed(o, "shop")
		away, _ := deployed(o, "away")
		Expect(api.Delete(w.ctx, w.get(s))).To(Succeed())
		Eventually(o.asked(s)).Should(BeTrue())
		o.report(s, d, kubenestv1.StackDeployStatus{Waiting: []string{"PersistentVolumeClaim shop/data"}})
		Eventually(func() string { return w.get(s).Status.Message }).Should(ContainSubstring("waits for: PersistentVolumeClaim shop/data"))
		Expect(w.condition(s, kubenestv1.ConditionReconciling)()).To(Equal("True/Deleting"))
		Expect(o.Send(wire.TypeRemoved, wire.Removed{Stack: stackOf(s)})).To(Succeed())
		Eventually(w.gone(s)).Should(BeTrue())

		o.Close(wire.EndGoodbye, "")
		Eventually(o.done).Should(BeClosed())
		w.lose(id, time.Second)
		Expect(api.Delete(w.ctx, w.get(away))).To(Succeed())
		Consistently(w.gone(away)).Should(BeFalse())
		Eventually(w.delivered(away)).Should(Equal("False/ClusterDisconnected"))
		again := h.connect(id, o)
		Eventually(again.asked(away)).Should(BeTrue())
		Eventually(w.gone(away)).Should(BeTrue())
	})

	It("lets many through at once, and only so many unanswered", func() {
		o := h.connect(id, nil, func(o *operator, _ *wire.Hello) {
			o.answer = func(*wire.Deliver) (*wire.Delivered, bool) { return nil, false }
		})
		const apps = 200
		stacks := make([]*kubenestv1.StackDeploy, apps)
		for i := range stacks {
			stacks[i] = w.stack(fmt.Sprintf("app-%d", i), id)
		}
		Eventually(o.count).Should(Equal(wire.MaxUnanswered))
		Consistently(o.count).Should(Equal(wire.MaxUnanswered))
		begin, answered := time.Now(), 0
		Eventually(func() int {
			answered += o.answerAll()
			return answered
		}).WithPolling(time.Millisecond).WithTimeout(30 * time.Second).Should(Equal(apps))
		AddReportEntry("200 deliveries", time.Since(begin))
		Expect(o.most).To(Equal(wire.MaxUnanswered))
		Eventually(func() (n int) {
			for _, s := range stacks {
				if w.delivered(s)() == "True/Delivered" {
					n++
				}
			}
			return n
		}, 30*time.Second).Should(Equal(apps))
		Expect(o.Ended()).To(BeEmpty())
	})

	It("is not moved by reports about what is not the operator's", func() {
		o := h.connect(id, nil)
		elsewhere := w.stack("elsewhere", w.cluster("dev"))
		for i := range 3 * maxStrays / 2 {
			s := &kubenestv1.StackDeploy{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("made-up-%d", i)}}
			o.report(s, wire.Delivery{UID: "u", Generation: 1, Digest: "d"}, running("evil:1"))
		}
		o.report(elsewhere, wire.Delivery{UID: string(elsewhere.UID), Generation: 1, Digest: "d"}, running("evil:1"))
		Expect(o.Send(wire.TypeExports, wire.Exports{Stack: stackOf(elsewhere), Component: "db", Revision: "r", Data: map[string][]byte{"dsn": []byte("evil")}})).To(Succeed())
		Expect(o.Send(wire.TypeRemoved, wire.Removed{Stack: stackOf(elsewhere)})).To(Succeed())
		Expect(o.Send(wire.TypeDelivered, wire.Delivered{Stack: stackOf(elsewhere), Delivery: wire.Delivery{UID: "u", Generation: 9, Digest: "d"}})).To(Succeed())
		s, _ := deployed(o, "shop")
		Expect(w.get(elsewhere).Status.Components).To(BeEmpty())
		Expect(w.get(s).Status.Components).To(BeEmpty())
		Expect(h.dropped("unknown_stack")).To(BeNumerically(">=", maxStrays/2))
		Expect(h.mailbox.boxes[id].strays).To(HaveLen(maxStrays))
	})

	It("writes an operator's flapping no more than once a second", func() {
		o := h.connect(id, nil)
		s, d := deployed(o, "shop")
		versions := map[string]bool{}
		begin := time.Now()
		for i := range 150 {
			o.report(s, d, running(fmt.Sprintf("web:%d", i)))
			for since := time.Now(); time.Since(since) < 20*time.Millisecond; {
				versions[w.get(s).ResourceVersion] = true
			}
		}
		Expect(len(versions)).To(BeNumerically("<=", writesAtOnce+2+int(time.Since(begin)/writeEvery)))
		Eventually(func() string { return w.get(s).Status.Components[1].Image }).Should(Equal("web:149"), "the newest wins")
	})

	It("tells once of work that it has no record of, and leaves it alone", func() {
		unknown := &wire.Deliver{Stack: wire.Stack{Namespace: w.namespace, Name: "newer"}, Delivery: wire.Delivery{UID: "u", Generation: 3, Digest: "d"}}
		o := h.connect(id, nil, func(o *operator, _ *wire.Hello) { o.stacks[unknown.Stack] = unknown })
		Eventually(w.events("prod")).Should(ConsistOf(kubenestv1.EventUnknownWork))
		o.Close(wire.EndGoodbye, "")
		again := h.connect(id, o)
		Consistently(w.events("prod"), unknownAfter+time.Second).Should(ConsistOf(kubenestv1.EventUnknownWork))
		Expect(again.removals).To(BeEmpty())
		Expect(h.mailbox.unknown()).To(BeEquivalentTo(1))
	})
})

var _ = Describe("Two replicas", func() {
	It("leave a StackDeploy to the one that holds the session", func() {
		w := newWorld()
		first, second := w.start("hub-0/boot1", true), w.start("hub-1/boot1", false)
		id := w.cluster("prod")
		stale := first.connect(id, nil)
		s := w.stack("shop", id)
		Eventually(stale.has(s)).ShouldNot(BeNil())
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
		d := stale.has(s)().Delivery

		// The operator goes elsewhere, and its first session lingers.
		newer := second.connect(id, stale)
		newer.report(s, d, running("web:1"))
		Eventually(w.ready(s)).Should(Equal("True/Running"))
		version := w.get(s).ResourceVersion
		stale.report(s, d, running("web:stale"))
		Consistently(func() string { return w.get(s).ResourceVersion }).Should(Equal(version))
		w.edit(s, func(s *kubenestv1.StackDeploy) { s.Spec.Paused = true })
		Eventually(func() int64 { return newer.has(s)().Generation }).Should(BeEquivalentTo(2))
		Expect(stale.has(s)().Generation).To(BeEquivalentTo(1))
	})

	It("refuse a write that was computed from an older object", func() {
		w := newWorld()
		s := w.stack("shop", w.cluster("prod"))
		before := w.get(s)
		w.edit(s, func(s *kubenestv1.StackDeploy) { s.Spec.Paused = true })
		desired := running("web:1")
		Expect(writeStatus(w.ctx, api, before, &desired)).To(MatchError(ContainSubstring("the object has been modified")))
		Expect(release(w.ctx, api, before)).NotTo(Succeed())
		Expect(w.get(s).Finalizers).To(ConsistOf(kubenestv1.RemovalFinalizer))
	})
})
