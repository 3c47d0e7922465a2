// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

var _ = Describe("Deleting a Project", func() {
	It("deletes its Apps, then its namespaces, and says what it waits for", func(ctx SpecContext) {
		org := organization()
		dev, prod := register(org, "dev"), register(org, "prod")
		p := create(org, "shop", "dev")
		own := awaitStack(p, dev)
		app := newApp(p, "web")
		onDev, onProd := deploy(p, "web", dev), deploy(p, "web", prod)
		further := awaitStack(p, prod)

		Expect(api.Delete(ctx, p)).To(Succeed())
		Eventually(deleting(app)).Should(BeTrue())
		Eventually(conditionOf(p, kubenestv1.ConditionReconciling)).Should(Equal("True/Deleting"))
		Expect(conditionOf(p, kubenestv1.ConditionReady)()).To(Equal("False/Deleting"))
		Expect(deleting(own)()).To(BeFalse())
		Expect(messageOf(p)()).To(And(ContainSubstring("App web on cluster dev (its removal has not begun)"), ContainSubstring("App web on cluster prod")))

		By("naming the cause on each cluster") // the app controller deletes what the App has
		for _, s := range []*kubenestv1.StackDeploy{onDev, onProd} {
			Expect(api.Delete(ctx, s)).To(Succeed())
		}
		report(onDev, func(s *kubenestv1.StackDeployStatus) { s.Waiting = []string{"Pod web-1: terminating"} })
		report(onProd, nil, is(kubenestv1.ConditionDelivered, metav1.ConditionFalse, kubenestv1.ReasonClusterDisconnected, "cluster prod is away since 10:00."))
		Eventually(messageOf(p)).Should(And(
			ContainSubstring("App web on cluster dev (waits for Pod web-1: terminating)"),
			ContainSubstring("App web on cluster prod (cluster prod is away since 10:00)")))

		By("keeping the namespaces until the Apps are gone")
		letGo(onDev)
		letGo(onProd)
		Consistently(func() bool { return deleting(own)() || deleting(further)() }).Should(BeFalse())
		letGo(app)
		Eventually(deleting(own)).Should(BeTrue())
		Eventually(deleting(further)).Should(BeTrue())
		Eventually(messageOf(p)).Should(ContainSubstring("namespace shop on cluster dev ("))
		Expect(get(p).Status.Clusters).To(HaveLen(2))
		letGo(own)
		Eventually(messageOf(p)).ShouldNot(ContainSubstring("cluster dev"))
		Expect(gone(p)()).To(BeFalse())
		letGo(further)
		Eventually(gone(p)).Should(BeTrue())
	})

	It("ends at once when nothing was made", func(ctx SpecContext) {
		p := create(organization(), "shop", "dev")
		Eventually(conditionOf(p, kubenestv1.ConditionReady)).Should(Equal("False/ClusterNotFound"))
		Expect(api.Delete(ctx, p)).To(Succeed())
		Eventually(gone(p)).Should(BeTrue())
	})

	It("leaves no StackDeploy behind, however soon it comes", func(ctx SpecContext) {
		org := organization()
		cluster := register(org, "dev")
		for i := range 20 {
			p := create(org, fmt.Sprintf("p%d", i), "dev")
			Expect(api.Delete(ctx, p)).To(Succeed())
			Eventually(func() bool {
				s := stackOf(p, cluster)
				if !gone(s)() && deleting(s)() {
					letGo(s)
				}
				return gone(p)() && gone(s)()
			}).Should(BeTrue())
		}
	})

	It("waits for no cluster that was given up", func(ctx SpecContext) {
		org := organization()
		cluster := register(org, "dev")
		p := create(org, "shop", "dev")
		s := awaitStack(p, cluster)
		left := deploy(p, "web", cluster) // its App is gone already
		Expect(api.Delete(ctx, left)).To(Succeed())
		Expect(api.Delete(ctx, p)).To(Succeed())
		Consistently(gone(p)).Should(BeFalse())
		c := get(cluster)
		c.Spec.Abandoned = true
		Expect(api.Update(ctx, c)).To(Succeed())
		Eventually(gone(p)).Should(BeTrue())
		Expect(deleting(s)()).To(BeTrue(), "it is to be let go by whoever delivers")
	})

	It("ends though somebody else owns the finalizer, too", func(ctx SpecContext) {
		p := create(organization(), "shop", "dev", func(p *kubenestv1.Project) { p.Finalizers = []string{kubenestv1.RemovalFinalizer} })
		Expect(api.Delete(ctx, p)).To(Succeed())
		Eventually(gone(p)).Should(BeTrue())
	})
})

var _ = Describe("The record of a cluster", func() {
	inUse := func(record *kubenestv1.ManagedCluster) func() string {
		return func() string {
			c := meta.FindStatusCondition(get(record).Status.Conditions, kubenestv1.ConditionInUse)
			if c == nil {
				return "absent"
			}
			return c.Message
		}
	}
	held := func(record *kubenestv1.ManagedCluster) func() []string {
		return func() []string { return get(record).Finalizers }
	}

	It("is held while a Project or an App uses it, from whichever namespace", func(ctx SpecContext) {
		org, other := organization(), organization()
		cluster := register(org, "dev", allowAll)
		Consistently(held(cluster)).Should(BeEmpty())
		p := create(other, "shop", "dev", func(p *kubenestv1.Project) { p.Spec.ClusterRef.Namespace = org })
		Eventually(held(cluster)).Should(HaveExactElements(kubenestv1.InUseFinalizer))
		connect(cluster, true)
		s := awaitStack(p, cluster)

		Expect(api.Delete(ctx, cluster)).To(Succeed())
		Eventually(inUse(cluster)).Should(And(ContainSubstring("Project "+other+"/shop"), ContainSubstring("spec.abandoned: true"), Not(ContainSubstring("being removed"))))
		Eventually(reasons(cluster)).Should(HaveExactElements(kubenestv1.ReasonClusterInUse))

		By("going when it is used no more")
		Expect(api.Delete(ctx, p)).To(Succeed())
		Eventually(inUse(cluster)).Should(ContainSubstring("Project " + other + "/shop (being removed)"))
		Eventually(deleting(s)).Should(BeTrue())
		Consistently(gone(cluster)).Should(BeFalse(), "over its session the namespace can be removed still")
		letGo(s)
		Eventually(gone(p)).Should(BeTrue())
		Eventually(gone(cluster)).Should(BeTrue())
	})

	It("is let go again without being deleted", func(ctx SpecContext) {
		org := organization()
		cluster := register(org, "dev")
		p := create(org, "shop", "dev")
		Eventually(held(cluster)).Should(HaveExactElements(kubenestv1.InUseFinalizer))
		s := awaitStack(p, cluster)
		Expect(api.Delete(ctx, p)).To(Succeed())
		Eventually(deleting(s)).Should(BeTrue())
		letGo(s)
		Eventually(held(cluster)).Should(BeEmpty())
	})

	It("is held by an App of another cluster's Project, and names ten users at most", func(ctx SpecContext) {
		org := organization()
		dev, prod := register(org, "dev"), register(org, "prod")
		p := create(org, "shop", "dev")
		awaitStack(p, dev)
		for i := range 12 {
			deploy(p, fmt.Sprintf("app-%02d", i), prod)
		}
		Eventually(held(prod)).Should(HaveExactElements(kubenestv1.InUseFinalizer))
		awaitStack(p, prod)
		connect(prod, false)
		Expect(api.Delete(ctx, prod)).To(Succeed())
		Eventually(inUse(prod)).Should(And(ContainSubstring("App "+org+"/app-00, "), ContainSubstring("App "+org+"/app-09, and 3 more"), Not(ContainSubstring("app-10"))))
		Expect(len(inUse(prod)())).To(BeNumerically("<=", 1024))
		Consistently(gone(prod)).Should(BeFalse(), "its Apps are not being deleted")
	})

	It("is not held by Projects that may not use it", func() {
		org, other := organization(), organization()
		cluster := register(org, "dev")
		create(other, "shop", "dev", func(p *kubenestv1.Project) { p.Spec.ClusterRef.Namespace = org })
		Consistently(held(cluster)).Should(BeEmpty())
	})

	It("is released when it is given up, and says what stays behind", func(ctx SpecContext) {
		org := organization()
		cluster := register(org, "dev")
		p := create(org, "shop", "dev")
		awaitStack(p, cluster)
		Eventually(held(cluster)).ShouldNot(BeEmpty())
		c := get(cluster)
		c.Spec.Abandoned = true
		Expect(api.Update(ctx, c)).To(Succeed())
		Eventually(held(cluster)).Should(BeEmpty())
		Eventually(reasons(cluster)).Should(ContainElement(kubenestv1.EventLeftBehind))
		c = get(cluster)
		c.Spec.Abandoned = false
		Expect(api.Update(ctx, c)).To(Succeed())
		Eventually(held(cluster)).ShouldNot(BeEmpty())
	})
})

var _ = Describe("Deleting everything of an organization at once", func() {
	// What is there when it begins.
	type estate struct {
		cluster      *kubenestv1.ManagedCluster
		project      *kubenestv1.Project
		app          *kubenestv1.App
		onApp, onOwn *kubenestv1.StackDeploy
	}
	settle := func(ctx context.Context, connected bool) *estate {
		org := organization()
		e := &estate{cluster: register(org, "dev")}
		e.project = create(org, "shop", "dev")
		e.onOwn = awaitStack(e.project, e.cluster)
		e.app, e.onApp = newApp(e.project, "web"), deploy(e.project, "web", e.cluster)
		Eventually(func() []string { return get(e.cluster).Finalizers }).ShouldNot(BeEmpty())
		connect(e.cluster, connected)
		// As the namespace controller does.
		for _, kind := range []client.Object{&kubenestv1.ManagedCluster{}, &kubenestv1.StackDeploy{}, &kubenestv1.App{}, &kubenestv1.Project{}} {
			Expect(api.DeleteAllOf(ctx, kind, client.InNamespace(org))).To(Succeed())
		}
		return e
	}
	// deliver lets StackDeploys go as the delivery does, and Apps as the app
	// controller does; removed says whether the operator has removed what they made.
	deliver := func(e *estate, removed bool) func(Gomega) {
		return func(g Gomega) {
			released := removed || gone(e.cluster)()
			for _, s := range []*kubenestv1.StackDeploy{e.onApp, e.onOwn} {
				if released && !gone(s)() && deleting(s)() {
					letGo(s)
				}
			}
			if gone(e.onApp)() && !gone(e.app)() && deleting(e.app)() {
				letGo(e.app)
			}
			for _, o := range []client.Object{e.cluster, e.project, e.app, e.onApp, e.onOwn} {
				g.Expect(gone(o)()).To(BeTrue(), "%T %s", o, o.GetName())
			}
		}
	}

	It("ends by the session where there is one", func(ctx SpecContext) {
		e := settle(ctx, true)
		Consistently(gone(e.cluster)).Should(BeFalse())
		Eventually(deliver(e, true)).Should(Succeed())
	})

	It("ends with the record where the cluster is away", func(ctx SpecContext) {
		e := settle(ctx, false)
		Eventually(gone(e.cluster)).Should(BeTrue())
		Eventually(deliver(e, false)).Should(Succeed())
	})
})
