// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
)

var _ = Describe("A cluster that is away", func() {
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
	run := func() (*operator, *kubenestv1.StackDeploy, wire.Delivery) {
		o := h.connect(id, nil)
		s := w.stack("shop", id)
		Eventually(o.has(s)).ShouldNot(BeNil())
		d := o.has(s)().Delivery
		o.report(s, d, running("web:1"))
		Eventually(w.ready(s)).Should(Equal("True/Running"))
		return o, s, d
	}
	leave := func(o *operator) {
		o.Close(wire.EndGoodbye, "")
		Eventually(o.done).Should(BeClosed())
	}

	It("changes nothing for a short time, turns Unknown after that, and back", func() {
		o, s, d := run()
		leave(o)
		w.lose(id, time.Second)
		version := w.get(s).ResourceVersion
		Consistently(func() string { return w.get(s).ResourceVersion }).Should(Equal(version))

		at := w.lose(id, clusters.AwayAfter+time.Minute)
		Eventually(w.ready(s)).Should(Equal("Unknown/ClusterDisconnected"))
		status := w.get(s).Status
		Expect(w.delivered(s)()).To(Equal("False/ClusterDisconnected"))
		Expect(status.Phase).To(Equal(kubenestv1.AppUnknown))
		Expect(status.Components[1].Image).To(Equal("web:1"))
		Expect(status.ReportedAt.Time).To(BeTemporally("==", at))
		Expect(status.Message).To(ContainSubstring("Cluster prod is not connected"))
		version = w.get(s).ResourceVersion
		Consistently(func() string { return w.get(s).ResourceVersion }).Should(Equal(version))

		again := h.connect(id, o)
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
		Expect(w.ready(s)()).To(Equal("Unknown/ClusterDisconnected"), "it has not said anything yet")
		again.report(s, d, running("web:1"))
		Eventually(w.ready(s)).Should(Equal("True/Running"))
		Expect(w.get(s).Status.ReportedAt).To(BeNil())
		Expect(again.count()).To(BeZero())
	})

	It("says at once what waits for it, and gets it when it is back", func() {
		o, s, _ := run()
		leave(o)
		w.lose(id, time.Second)
		w.edit(s, func(s *kubenestv1.StackDeploy) { s.Spec.Components[1].WorkloadSpec.Image = "web:2" })
		Eventually(w.delivered(s)).Should(Equal("False/ClusterDisconnected"))
		Expect(w.ready(s)()).To(Equal("False/ClusterDisconnected"))
		Expect(w.get(s).Status.Phase).To(Equal(kubenestv1.AppPending))
		again := h.connect(id, o)
		Eventually(func() int64 { return again.has(s)().Generation }).Should(BeEquivalentTo(2))
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
	})

	It("is Pending for what it never heard of", func() {
		s := w.stack("shop", id)
		Eventually(w.delivered(s)).Should(Equal("False/ClusterDisconnected"))
		Expect(w.get(s).Status.Message).To(ContainSubstring("has not connected yet: install its operator"))
		Expect(w.get(s).Status.Phase).To(Equal(kubenestv1.AppPending))
	})

	It("holds a deletion until it is given up, and says what stays", func() {
		o, s, _ := run()
		leave(o)
		w.lose(id, time.Hour)
		Expect(api.Delete(w.ctx, w.get(s))).To(Succeed())
		Consistently(w.gone(s)).Should(BeFalse())
		record, err := w.recordOf(id)
		Expect(err).NotTo(HaveOccurred())
		record.Spec.Abandoned = true
		Expect(api.Update(w.ctx, record)).To(Succeed())
		Eventually(w.gone(s)).Should(BeTrue())
		Eventually(w.events("prod")).Should(ContainElement(kubenestv1.EventLeftBehind))
		var list corev1.EventList
		Expect(api.List(w.ctx, &list, client.InNamespace(w.namespace), client.MatchingFields{"reason": kubenestv1.EventLeftBehind})).To(Succeed())
		Expect(list.Items[0].Message).To(And(ContainSubstring("namespace shop"), ContainSubstring(`patch stackdeploy `+w.namespace+"."+s.Name), ContainSubstring(`"removed":true`)))
	})

	It("does not hold a deletion when its record is gone", func() {
		s := w.stack("shop", "gone-0000")
		Eventually(w.delivered(s)).Should(Equal("False/ClusterNotFound"))
		Expect(api.Delete(w.ctx, w.get(s))).To(Succeed())
		Eventually(w.gone(s)).Should(BeTrue())
		Eventually(w.events(s.Name)).Should(ContainElement(kubenestv1.EventLeftBehind))
	})
})

var _ = Describe("Exports", func() {
	var (
		w  *world
		h  *replica
		id string
		o  *operator
	)
	BeforeEach(func() {
		w = newWorld()
		h = w.start("hub-0/boot1", true)
		id = w.cluster("prod")
		o = h.connect(id, nil)
	})
	app := func(name string) *kubenestv1.App {
		a := &kubenestv1.App{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
			Spec: kubenestv1.AppSpec{
				ProjectRef: kubenestv1.LocalReference{Name: "shop"},
				Components: []kubenestv1.Component{{Name: "db", Type: kubenestv1.ComponentAddon, AddonSpec: &kubenestv1.AddonSpec{Chart: kubenestv1.Chart{OCI: "oci://example.com/db", Version: "1.0.0"}}}},
			},
		}
		Expect(api.Create(w.ctx, a)).To(Succeed())
		return a
	}
	deploy := func(name string) *kubenestv1.StackDeploy {
		s := w.stack(name, id)
		Eventually(w.delivered(s)).Should(Equal("True/Delivered"))
		return s
	}
	send := func(s *kubenestv1.StackDeploy, component, revision string, data map[string][]byte) {
		Expect(o.Send(wire.TypeExports, wire.Exports{Stack: stackOf(s), Component: component, Revision: revision, Data: data})).To(Succeed())
	}
	secret := func(name string) func() map[string][]byte {
		return func() map[string][]byte {
			var s corev1.Secret
			if err := api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &s); err != nil {
				return nil
			}
			return s.Data
		}
	}
	dsn := func(value string) map[string][]byte { return map[string][]byte{"dsn": []byte(value)} }

	It("are kept in a Secret of the App, which follows them", func() {
		a, s := app("shop"), deploy("shop")
		send(s, "db", "r1", dsn("one"))
		Eventually(secret("shop-db-exports")).Should(Equal(dsn("one")))
		var kept corev1.Secret
		Expect(api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: "shop-db-exports"}, &kept)).To(Succeed())
		Expect(metav1.IsControlledBy(&kept, a)).To(BeTrue())
		Expect(kept.Labels).To(And(HaveKeyWithValue(kubenestv1.ExportsLabel, "true"), HaveKeyWithValue(kubenestv1.ManagedByLabel, kubenestv1.ManagedBy)))
		Expect(kept.Annotations).To(HaveKeyWithValue(kubenestv1.ExportsRevisionAnnotation, "r1"))
		send(s, "db", "r1", dsn("one"))
		send(s, "db", "r2", map[string][]byte{"url": []byte("two")})
		Eventually(secret("shop-db-exports")).Should(Equal(map[string][]byte{"url": []byte("two")}))
		send(s, "db", "none", nil)
		Eventually(secret("shop-db-exports")).Should(BeNil())
	})

	It("travel on to another cluster of the App", func() {
		app("shop")
		s := deploy("shop")
		send(s, "db", "r1", dsn("one"))
		Eventually(secret("shop-db-exports")).ShouldNot(BeNil())
		other := w.cluster("dev")
		dev := h.connect(other, nil)
		consumer := w.stack("shop", other, func(s *kubenestv1.StackDeploy) {
			s.Spec.Components = s.Spec.Components[1:]
			s.Spec.Inputs = []kubenestv1.StackInput{{Name: "shop-db-exports", Kind: kubenestv1.InputExports, Revision: "r1"}}
		})
		Eventually(dev.has(consumer)).ShouldNot(BeNil())
		Expect(dev.has(consumer)().Inputs[0].Data).To(Equal(dsn("one")))
		stolen := w.stack("thief", other, func(s *kubenestv1.StackDeploy) { s.Spec.Inputs = consumer.Spec.Inputs })
		Eventually(w.delivered(stolen)).Should(Equal("False/InputMissing"), "another App's are not for it")
	})

	It("are not taken from a cluster that does not run the addon, nor of what is none", func() {
		app("shop")
		s := w.stack("shop", w.cluster("dev"))
		send(s, "db", "evil", dsn("evil"))
		mine := deploy("mine")
		app("mine")
		send(mine, "web", "evil", dsn("evil"))
		send(mine, "other", "evil", dsn("evil"))
		send(mine, "db", "..", map[string][]byte{"..": []byte("evil")})
		Consistently(func() int {
			var list corev1.SecretList
			Expect(api.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
			return len(list.Items)
		}).Should(BeZero())
		send(mine, "db", "r1", dsn("one"))
		Eventually(secret("mine-db-exports")).Should(Equal(dsn("one")))
	})

	It("leave a Secret alone that is somebody else's, and say so", func() {
		app("shop")
		foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shop-db-exports", Labels: map[string]string{kubenestv1.ExportsLabel: "true"}}, Data: dsn("theirs")}
		Expect(api.Create(w.ctx, foreign)).To(Succeed())
		s := deploy("shop")
		o.report(s, o.has(s)().Delivery, running("web:1"))
		send(s, "db", "r1", dsn("one"))
		reason := func() string {
			if components := w.get(s).Status.Components; len(components) > 0 {
				return components[0].Reason
			}
			return "no components"
		}
		Eventually(reason).Should(Equal(kubenestv1.ReasonObjectNotOurs))
		Expect(w.get(s).Status.Components[0].Message).To(And(ContainSubstring("shop-db-exports"), Not(ContainSubstring("one"))))
		Expect(secret("shop-db-exports")()).To(Equal(dsn("theirs")))
		Expect(api.Delete(w.ctx, foreign)).To(Succeed())
		Eventually(secret("shop-db-exports"), 2*inputsAgain).Should(Equal(dsn("one")))
		Eventually(reason).Should(BeEmpty())
	})
})
