// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
)

var _ = Describe("Inventory and Remove", func() {
	It("lists what was delivered, and nothing else", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		Expect(o.Inventory(ctx)).To(Equal(wire.Inventory{Stacks: []wire.Held{}}))
		var want []wire.Held
		for i := range 60 { // more than a page
			d := delivery(fmt.Sprintf("app-%02d", i), int64(i), appSpec("shop"))
			Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
			want = append(want, wire.Held{Stack: d.Stack, Delivery: d.Delivery, Removing: i == 7})
		}
		Expect(o.Remove(ctx, &wire.Remove{Stack: want[7].Stack})).To(Succeed())
		for name, source := range map[string]*kubenestv1.StackSource{
			"by-hand":       nil,
			"another-name":  {Namespace: "acme", Name: "app-01"},
			"x.not:a:name!": nil,
			"acme.no-uid":   {Namespace: "acme", Name: "no-uid"},
		} {
			s := &kubenestv1.StackDeploy{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: strings.NewReplacer(":", "-", "!", "").Replace(name)}}
			s.Spec = appSpec("shop")
			s.Spec.Source = source
			Expect(api.Create(ctx, s)).To(Succeed())
		}
		want = append(want, wire.Held{
			Stack: wire.Stack{Namespace: "acme", Name: "no-uid"}, Delivery: wire.Delivery{UID: "unknown", Digest: "unknown"},
		})
		got, err := o.Inventory(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Validate()).To(Succeed())
		Expect(got.Stacks).To(ConsistOf(want))
	})

	It("is complete or none", func(ctx SpecContext) {
		pages := 0
		o := newOperator(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*kubenestv1.StackDeployList); ok {
				if pages++; pages > 1 {
					return errors.New("the API server is away")
				}
			}
			return c.List(ctx, l, opts...)
		}})
		for i := range 51 {
			Expect(o.Deliver(ctx, delivery(fmt.Sprintf("app-%02d", i), 1, appSpec("shop"))).Failure).To(BeEmpty())
		}
		_, err := o.Inventory(ctx)
		Expect(err).To(MatchError(ContainSubstring("away")))
	})

	It("removes", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		in, listed := exportsInput("r1")
		d := delivery("shop", 1, appSpec("shop", listing(listed)), in)
		Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		topic := agent.Topic{Type: wire.TypeRemoved, Stack: d.Stack}
		n := o.follow()
		Eventually(n.take).Should(ContainElement("report shop"))
		for range 2 {
			Expect(o.Remove(ctx, &wire.Remove{Stack: d.Stack})).To(Succeed())
		}
		Expect(o.copy(ctx, "shop").Spec.Removed).To(BeTrue())
		_, ok, err := o.News(ctx, topic)
		Expect(err).NotTo(HaveOccurred())
		Expect(ok).To(BeFalse(), "it is under way")
		Expect(o.kept(ctx)).NotTo(BeEmpty(), "a removal may need them")

		Expect(api.Delete(ctx, o.copy(ctx, "shop"))).To(Succeed())
		Eventually(n.take).Should(ContainElement("removed shop"))
		message, ok, err := o.News(ctx, topic)
		Expect(err).NotTo(HaveOccurred())
		Expect(ok).To(BeTrue())
		Expect(message).To(Equal(wire.Removed{Stack: d.Stack}))
		Expect(o.kept(ctx)).To(BeEmpty())

		By("knowing nothing of it")
		unknown := wire.Stack{Namespace: "acme", Name: "unknown"}
		Expect(o.Remove(ctx, &wire.Remove{Stack: unknown})).To(Succeed())
		message, ok, err = o.News(ctx, agent.Topic{Type: wire.TypeRemoved, Stack: unknown})
		Expect(err).NotTo(HaveOccurred())
		Expect(ok).To(BeTrue())
		Expect(message).To(Equal(wire.Removed{Stack: unknown}))
	})

	It("takes a delivery after a removal was asked for, by whomever", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		d := delivery("shop", 1, appSpec("shop"))
		for _, remove := range []func(){
			func() { Expect(o.Remove(ctx, &wire.Remove{Stack: d.Stack})).To(Succeed()) },
			func() {
				Expect(api.Patch(ctx, o.copy(ctx, "shop"), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"removed":true}}`)),
					client.FieldOwner("kubectl-patch"))).To(Succeed())
			},
		} {
			Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
			remove()
			Expect(o.copy(ctx, "shop").Spec.Removed).To(BeTrue())
			Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
			Expect(o.copy(ctx, "shop").Spec.Removed).To(BeFalse())
		}
	})

	It("removes inputs of what went while there was no session", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		in, listed := exportsInput("r1")
		for _, name := range []string{"stays", "goes"} {
			Expect(o.Deliver(ctx, delivery(name, 1, appSpec("shop", listing(listed)), in)).Failure).To(BeEmpty())
		}
		Expect(api.Delete(ctx, o.copy(ctx, "goes"))).To(Succeed())
		_, err := o.Inventory(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(o.kept(ctx)).To(HaveLen(1))
		Expect(o.inputs.Get(ctx, o.local("stays"), listed)).To(Equal(in.Data))
	})
})

var _ = Describe("Follow and News", func() {
	report := func(ctx context.Context, o *operator, name string) (*wire.Report, bool) {
		GinkgoHelper()
		message, ok, err := o.News(ctx, agent.Topic{Type: wire.TypeReport, Stack: wire.Stack{Namespace: "acme", Name: name}})
		Expect(err).NotTo(HaveOccurred())
		if !ok {
			return nil, false
		}
		r := message.(wire.Report)
		Expect(r.Validate()).To(Succeed())
		return &r, true
	}
	exports := func(ctx context.Context, o *operator) func() *wire.Exports {
		return func() *wire.Exports {
			message, ok, err := o.News(ctx, agent.Topic{
				Type: wire.TypeExports, Stack: wire.Stack{Namespace: "acme", Name: "shop"}, Component: "db",
			})
			if err != nil || !ok {
				return nil
			}
			e := message.(wire.Exports)
			return &e
		}
	}

	It("reports what a status is about", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		first := delivery("shop", 1, appSpec("shop"))
		Expect(o.Deliver(ctx, first)).To(Equal(stored(first)))
		n := o.follow()
		Eventually(n.gathered()).Should(ConsistOf("report shop", "exports shop db"))
		_, ok := report(ctx, o, "shop")
		Expect(ok).To(BeFalse(), "nobody has taken it up")

		o.taken(ctx, "shop", kubenestv1.AppDeploying)
		o.taken(ctx, "shop", kubenestv1.AppRunning)
		Eventually(n.take).Should(ContainElement("report shop"))
		Eventually(func() string {
			r, _ := report(ctx, o, "shop")
			return string(r.Status)
		}).Should(ContainSubstring(`"phase":"Running"`), "the newest wins")

		By("storing a later generation that nobody has taken up yet")
		second := delivery("shop", 2, appSpec("shop", restarted))
		Expect(o.Deliver(ctx, second)).To(Equal(stored(second)))
		Eventually(n.take).Should(ContainElement("exports shop db"))
		r, ok := report(ctx, o, "shop")
		Expect(ok).To(BeTrue())
		Expect(r.Delivery).To(Equal(first.Delivery))
		o.taken(ctx, "shop", kubenestv1.AppRunning)
		Eventually(func() wire.Delivery {
			r, _ := report(ctx, o, "shop")
			return r.Delivery
		}).Should(Equal(second.Delivery))

		By("saying nothing when nothing changes")
		Eventually(n.take).Should(ContainElement("report shop"))
		Consistently(n.take).Should(BeEmpty())
	})

	It("notes everything anew for each session", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		for i := range 3 {
			Expect(o.Deliver(ctx, delivery(fmt.Sprintf("app-%d", i), 1, appSpec("shop"))).Failure).To(BeEmpty())
		}
		all := ConsistOf("report app-0", "report app-1", "report app-2", "exports app-0 db", "exports app-1 db", "exports app-2 db")
		for range 2 {
			Eventually(o.follow().gathered()).Should(all)
		}
	})

	It("brings exports up, their changes, and their end", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		namespace := newProject()
		d := delivery("shop", 1, appSpec(namespace))
		Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		n := o.follow()
		both := ConsistOf("report shop", "exports shop db")
		Eventually(n.gathered()).Should(both)
		gone := &wire.Exports{Stack: d.Stack, Component: "db", Revision: "none"}
		Eventually(exports(ctx, o)).Should(Equal(gone), "the hub may know some")

		By("telling those that the status has, and nothing before")
		secret := exportsSecret(namespace, "rev-1", password)
		Expect(api.Create(ctx, secret)).To(Succeed())
		Expect(exports(ctx, o)()).To(Equal(gone))
		o.exported(ctx, "shop", "rev-1")
		Eventually(n.gathered()).Should(both, "the status is another, too")
		Expect(exports(ctx, o)()).To(Equal(&wire.Exports{Stack: d.Stack, Component: "db", Revision: "rev-1", Data: secret.Data}))
		Expect(exports(ctx, o)().Validate()).To(Succeed())

		By("noting none when something else of the status changes")
		o.taken(ctx, "shop", kubenestv1.AppRunning)
		Eventually(n.take).Should(ConsistOf("report shop"))

		By("telling them in another revision")
		secret.Annotations[kubenestv1.ExportsRevisionAnnotation] = "rev-2"
		secret.Data["dsn"] = []byte(password + "2")
		Expect(api.Update(ctx, secret)).To(Succeed())
		o.exported(ctx, "shop", "rev-2")
		Eventually(n.gathered()).Should(both)
		Expect(exports(ctx, o)()).To(Equal(&wire.Exports{Stack: d.Stack, Component: "db", Revision: "rev-2", Data: secret.Data}))

		By("losing the Secret, and then the status")
		Expect(api.Delete(ctx, secret)).To(Succeed())
		Expect(exports(ctx, o)()).To(Equal(gone), "whatever the status says")
		Expect(api.Create(ctx, exportsSecret(namespace, "rev-2", password))).To(Succeed())
		Expect(exports(ctx, o)()).To(HaveField("Revision", "rev-2"))
		o.exported(ctx, "shop", "")
		Eventually(n.gathered()).Should(both)
		Expect(exports(ctx, o)()).To(Equal(gone))
	})

	It("says that exports are gone with their component", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		namespace := newProject()
		d := delivery("shop", 1, appSpec(namespace))
		Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		Expect(api.Create(ctx, exportsSecret(namespace, "rev-1", password))).To(Succeed())
		o.exported(ctx, "shop", "rev-1")
		n := o.follow()
		Eventually(n.gathered()).Should(ConsistOf("report shop", "exports shop db"))
		Eventually(exports(ctx, o)).Should(HaveField("Revision", "rev-1"))

		d = delivery("shop", 2, appSpec(namespace, func(s *kubenestv1.StackDeploySpec) { s.Components = s.Components[:1] }))
		Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		Expect(exports(ctx, o)()).To(HaveField("Revision", "rev-1"), "it is still there")
		s := o.copy(ctx, "shop")
		s.Status.Components = s.Status.Components[:1]
		Expect(api.Status().Update(ctx, s)).To(Succeed())
		Eventually(n.gathered()).Should(ConsistOf("report shop", "exports shop db"))
		Expect(exports(ctx, o)()).To(Equal(&wire.Exports{Stack: d.Stack, Component: "db", Revision: "none"}))
	})

	It("believes no Secret that only claims to be an addon's", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		namespace := newProject()
		d := delivery("shop", 1, appSpec(namespace))
		Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		o.follow()
		gone := &wire.Exports{Stack: d.Stack, Component: "db", Revision: "none"}
		forged := exportsSecret(namespace, "forged", password)
		Expect(api.Create(ctx, forged)).To(Succeed())
		Eventually(exports(ctx, o)).Should(Equal(gone), "the status knows of none")
		o.exported(ctx, "shop", "rev-1")
		Eventually(exports(ctx, o)).Should(HaveField("Revision", "forged"), "this one is as good as real")

		changed := func(change func(*corev1.Secret)) {
			GinkgoHelper()
			s := forged.DeepCopy()
			change(s)
			Expect(api.Update(ctx, s)).To(Succeed())
			Expect(exports(ctx, o)()).To(Equal(gone))
			forged.ResourceVersion = s.ResourceVersion
		}
		changed(func(s *corev1.Secret) { s.Annotations[kubenestv1.OwnerAnnotation] = clusterID + "/acme/another" })
		changed(func(s *corev1.Secret) { delete(s.Annotations, kubenestv1.OwnerAnnotation) })
		changed(func(s *corev1.Secret) { s.Labels[kubenestv1.ExportsLabel] = "input" })
		changed(func(s *corev1.Secret) { s.Labels = nil })

		By("leaving those in other namespaces alone")
		Expect(api.Delete(ctx, forged)).To(Succeed())
		Expect(api.Create(ctx, exportsSecret(newProject(), "forged", password))).To(Succeed())
		Expect(api.Create(ctx, exportsSecret(o.namespace, "forged", password))).To(Succeed())
		Expect(exports(ctx, o)()).To(Equal(gone))
	})

	It("says nothing of exports that the Project may not read", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		namespace := newNamespace("shop-")
		Expect(o.Deliver(ctx, delivery("shop", 1, appSpec(namespace))).Failure).To(BeEmpty())
		Expect(api.Create(ctx, exportsSecret(namespace, "rev-1", password))).To(Succeed())
		o.exported(ctx, "shop", "rev-1")
		o.follow()
		Eventually(func() error {
			_, ok, err := o.News(ctx, agent.Topic{Type: wire.TypeExports, Stack: wire.Stack{Namespace: "acme", Name: "shop"}, Component: "db"})
			Expect(ok).To(BeFalse(), "or others would take them for gone")
			return err
		}).Should(MatchError(ContainSubstring("system:serviceaccount:" + namespace + ":kubenest-project")))
	})

	It("says that exports are too large, and no word of them", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		namespace := newProject()
		Expect(o.Deliver(ctx, delivery("shop", 1, appSpec(namespace))).Failure).To(BeEmpty())
		large := strings.Repeat(password, wire.MaxExports/len(password)+1)
		Expect(api.Create(ctx, exportsSecret(namespace, "rev-1", large))).To(Succeed())
		o.exported(ctx, "shop", "rev-1")
		o.follow()
		Eventually(func() string { exports(ctx, o)(); return o.logged() }).Should(ContainSubstring("Exports can not be told to the hub"))
		Expect(exports(ctx, o)()).To(BeNil())
	})

	It("cuts a status that is larger than a report", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		Expect(o.Deliver(ctx, delivery("shop", 1, appSpec("shop"))).Failure).To(BeEmpty())
		s := o.copy(ctx, "shop")
		s.Status.Source, s.Status.Phase = s.Spec.Source, kubenestv1.AppDegraded
		s.Status.Conditions = []metav1.Condition{{
			Type: "Ready", Status: metav1.ConditionFalse, Reason: "Degraded", Message: strings.Repeat("c", 30_000), LastTransitionTime: metav1.Now(),
		}}
		for i := range 128 {
			c := kubenestv1.ComponentStatus{
				Name: fmt.Sprintf("component-%d", i), Phase: kubenestv1.AppDegraded, Reason: "CrashLoopBackOff",
				Message: strings.Repeat("m", 1024), Image: strings.Repeat("i", 512),
			}
			for range 5 {
				c.Warnings = append(c.Warnings, strings.Repeat("w", 512))
			}
			s.Status.Components = append(s.Status.Components, c)
		}
		Expect(api.Status().Update(ctx, s)).To(Succeed())
		o.follow()
		var r *wire.Report
		Eventually(func() (ok bool) {
			r, ok = report(ctx, o, "shop")
			return ok
		}).Should(BeTrue())
		var status kubenestv1.StackDeployStatus
		Expect(json.Unmarshal(r.Status, &status)).To(Succeed())
		Expect(status.Components).To(HaveLen(128))
		Expect(status.Components[127].Message).To(HavePrefix("mmm"))
		Expect(status.Message).To(ContainSubstring("kubectl -n " + o.namespace + " get stackdeploy acme.shop"))
		Expect(status.Phase).To(Equal(kubenestv1.AppDegraded))
	})
})
