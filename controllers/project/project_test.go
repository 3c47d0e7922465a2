// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

var _ = Describe("A Project", func() {
	It("has the namespace made on its cluster, with quota, limits, labels and the owner's grants", func(ctx SpecContext) {
		org := organization()
		cluster := register(org, "dev", func(c *kubenestv1.ManagedCluster) {
			c.Spec.Grants = &kubenestv1.Grants{PodSecurity: kubenestv1.PodSecurityRestricted}
		})
		p := create(org, "shop", "dev", func(p *kubenestv1.Project) {
			p.Spec.Namespace = "shop-prod"
			p.Spec.Labels = map[string]string{"team": "retail"}
			p.Spec.Quota = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("8000m")}
			p.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}
		})
		s := awaitStack(p, cluster)
		Expect(s.Finalizers).To(HaveExactElements(kubenestv1.RemovalFinalizer))
		Expect(s.Labels).To(Equal(map[string]string{kubenestv1.ProjectLabel: "shop", kubenestv1.ClusterLabel: cluster.ID()}))
		Expect(s.Spec.ClusterID).To(Equal(cluster.ID()))
		Expect(s.Spec.Namespace).To(Equal("shop-prod"))
		Expect(s.Spec.Project).To(Equal(kubenestv1.ProjectKey{Namespace: org, Name: "shop"}))
		Expect(s.Spec.Delivery).To(Equal(kubenestv1.DeliveryDirect))
		Expect(s.Spec.Grants).To(Equal(&kubenestv1.Grants{PodSecurity: kubenestv1.PodSecurityRestricted}))
		Expect(s.Spec.NamespaceSettings.Labels).To(Equal(map[string]string{"team": "retail", kubenestv1.ProjectLabel: "shop"}))
		Expect(s.Spec.NamespaceSettings.Quota.Name(corev1.ResourceRequestsCPU, resource.DecimalSI).String()).To(Equal("8"))
		Expect(s.Spec.NamespaceSettings.Limits).To(HaveLen(1))
		Expect(get(p).Finalizers).To(HaveExactElements(kubenestv1.RemovalFinalizer))

		By("saying how far it is")
		Eventually(conditionOf(p, kubenestv1.ConditionReady)).Should(Equal("False/NamespacePending"))
		Expect(conditionOf(p, kubenestv1.ConditionReconciling)()).To(Equal("True/NamespacePending"))
		reportReady(s)
		Eventually(conditionOf(p, kubenestv1.ConditionReady)).Should(Equal("True/NamespaceReady"))
		status := get(p).Status
		Expect(conditionOf(p, kubenestv1.ConditionReconciling)()).To(Equal("absent"))
		Expect(status.Namespace).To(Equal("shop-prod"))
		Expect(status.ObservedGeneration).To(BeEquivalentTo(1))
		Expect(status.Clusters).To(HaveExactElements(kubenestv1.ProjectCluster{
			ClusterID: cluster.ID(), Cluster: "dev", Ready: "True", Reason: kubenestv1.ReasonNamespaceReady, Message: "Namespace shop-prod is ready on cluster dev.",
		}))
		Eventually(reasons(p)).Should(HaveExactElements(kubenestv1.ReasonNamespaceReady))

		By("writing nothing while nothing changes")
		before, stackBefore := get(p).ResourceVersion, get(s).ResourceVersion
		c := get(cluster)
		c.Spec.Region = "eu" // has the Project looked at again
		Expect(api.Update(ctx, c)).To(Succeed())
		Consistently(func() []string { return []string{get(p).ResourceVersion, get(s).ResourceVersion} }).Should(HaveExactElements(before, stackBefore))

		By("following an edit, and what the cluster's owner grants")
		edited := get(p)
		edited.Spec.Quota, edited.Spec.Limits, edited.Spec.Labels = nil, nil, nil
		Expect(api.Update(ctx, edited)).To(Succeed())
		Eventually(func() *kubenestv1.NamespaceSettings { return get(s).Spec.NamespaceSettings }).Should(Equal(&kubenestv1.NamespaceSettings{
			Labels: map[string]string{kubenestv1.ProjectLabel: "shop"},
		}))
		Eventually(conditionOf(p, kubenestv1.ConditionReady)).Should(Equal("False/NamespacePending"), "what was reported is of an older generation")
		c = get(cluster)
		c.Spec.Grants = nil
		Expect(api.Update(ctx, c)).To(Succeed())
		Eventually(func() *kubenestv1.Grants { return get(s).Spec.Grants }).Should(BeNil())
	})

	It("says what the operator says", func() {
		org := organization()
		cluster := register(org, "dev")
		p := create(org, "shop", "dev")
		s := awaitStack(p, cluster)
		report(s, nil, is(kubenestv1.ConditionDelivered, metav1.ConditionFalse, kubenestv1.ReasonClusterDisconnected, "Cluster dev is away since 10:00."))
		Eventually(conditionOf(p, kubenestv1.ConditionReady)).Should(Equal("Unknown/ClusterDisconnected"))
		Expect(get(p).Status.Clusters[0].Ready).To(Equal("Unknown"))
		Expect(get(p).Status.Message).To(Equal("Cluster dev is away since 10:00."))

		report(s, nil, is(kubenestv1.ConditionDelivered, metav1.ConditionFalse, kubenestv1.ReasonOperatorTooOld, "Upgrade the operator."))
		Eventually(conditionOf(p, kubenestv1.ConditionReady)).Should(Equal("False/OperatorTooOld"))

		report(s, nil, is(kubenestv1.ConditionDelivered, metav1.ConditionTrue, kubenestv1.ReasonDelivered, ""),
			is(kubenestv1.ConditionReady, metav1.ConditionFalse, kubenestv1.ReasonNamespaceTaken, "Namespace shop exists and is not kubenest's."),
			is(kubenestv1.ConditionStalled, metav1.ConditionTrue, kubenestv1.ReasonNamespaceTaken, "x"))
		Eventually(conditionOf(p, kubenestv1.ConditionStalled)).Should(Equal("True/NamespaceTaken"))
		Expect(messageOf(p)()).To(Equal("Namespace shop exists and is not kubenest's."))
		Eventually(reasons(p)).Should(ContainElement(kubenestv1.ReasonNamespaceTaken))
	})

	It("has its namespace on each cluster that its Apps are on, or have been", func(ctx SpecContext) {
		org, platform := organization(), organization()
		dev, prod := register(org, "dev"), register(platform, "prod", allowAll)
		p := create(org, "shop", "dev")
		reportReady(awaitStack(p, dev))
		web := deploy(p, "web", prod)
		s := awaitStack(p, prod)
		Eventually(conditionOf(p, kubenestv1.ConditionReady)).Should(Equal("False/NamespacePending"))
		reportReady(s)
		Eventually(conditionOf(p, kubenestv1.ConditionReady)).Should(Equal("True/NamespaceReady"))
		Expect(get(p).Status.Clusters).To(HaveLen(2))
		Expect(get(p).Status.Clusters[0].Cluster).To(Equal("dev"))
		Expect(get(p).Status.Clusters[1].Cluster).To(Equal(platform + "/prod"))

		By("keeping it, with what people have put there, when the App has left")
		Expect(api.Delete(ctx, web)).To(Succeed())
		letGo(web)
		Eventually(func() string { return get(p).Status.Clusters[1].Reason }).Should(Equal(kubenestv1.ReasonNamespaceKept))
		Consistently(deleting(s)).Should(BeFalse())
		Expect(conditionOf(p, kubenestv1.ConditionReady)()).To(Equal("True/NamespaceReady"))

		By("using it again when an App comes back")
		web = deploy(p, "web", prod)
		Eventually(func() string { return get(p).Status.Clusters[1].Reason }).ShouldNot(Equal(kubenestv1.ReasonNamespaceKept))

		By("making it anew when an App comes back while somebody has it removed")
		Expect(api.Delete(ctx, web)).To(Succeed())
		letGo(web)
		Eventually(func() string { return get(p).Status.Clusters[1].Reason }).Should(Equal(kubenestv1.ReasonNamespaceKept))
		Expect(api.Delete(ctx, s)).To(Succeed())
		Eventually(deleting(s)).Should(BeTrue())
		deploy(p, "api", prod)
		Eventually(func(g Gomega) {
			now := stackOf(p, prod)
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(now), now)).To(Succeed())
			g.Expect(now.UID).NotTo(Equal(s.UID))
			g.Expect(now.DeletionTimestamp).To(BeNil())
		}).Should(Succeed())
	})

	It("makes nothing on a further cluster that may not be used", func() {
		org, other := organization(), organization()
		dev, theirs := register(org, "dev"), register(other, "theirs")
		p := create(org, "shop", "dev")
		reportReady(awaitStack(p, dev))
		deploy(p, "web", theirs)
		Eventually(conditionOf(p, kubenestv1.ConditionStalled)).Should(Equal("True/ClusterNotAllowed"))
		Consistently(gone(stackOf(p, theirs))).Should(BeTrue())
	})

	It("takes no StackDeploy for one of its Apps that names another namespace's Project", func(ctx SpecContext) {
		org, other := organization(), organization()
		dev := register(org, "dev")
		theirs := register(other, "theirs", allowAll)
		p := create(org, "shop", "dev")
		awaitStack(p, dev)
		forged := deploy(p, "web", theirs)
		forged = forged.DeepCopy()
		forged.ObjectMeta = metav1.ObjectMeta{Namespace: other, Name: "forged"}
		Expect(api.Create(ctx, forged)).To(Succeed())
		Eventually(func() int { return len(get(p).Status.Clusters) }).Should(Equal(2), "the one in its own namespace")
		Expect(projectOf(forged)).To(BeEmpty())
	})

	DescribeTable("is refused", func(ctx SpecContext, setUp func(org, other string) kubenestv1.ClusterReference, reason, message string) {
		org, other := organization(), organization()
		reference := setUp(org, other)
		p := create(org, "shop", "x", func(p *kubenestv1.Project) { p.Spec.ClusterRef = reference })
		Eventually(conditionOf(p, kubenestv1.ConditionStalled)).Should(Equal("True/" + reason))
		Expect(conditionOf(p, kubenestv1.ConditionReady)()).To(Equal("False/" + reason))
		Expect(messageOf(p)()).To(ContainSubstring(strings.ReplaceAll(message, "OTHER", other)))
		var stacks kubenestv1.StackDeployList
		Expect(api.List(ctx, &stacks, client.InNamespace(org))).To(Succeed())
		Expect(stacks.Items).To(BeEmpty())
		Eventually(reasons(p)).Should(ContainElement(reason))

		By("being deleted at once")
		Expect(api.Delete(ctx, p)).To(Succeed())
		Eventually(gone(p)).Should(BeTrue())
	},
		Entry("cluster that is not there", func(_, _ string) kubenestv1.ClusterReference {
			return kubenestv1.ClusterReference{Name: "dev"}
		}, kubenestv1.ReasonClusterNotFound, "There is no ManagedCluster dev in namespace"),
		Entry("cluster of another organization", func(_, other string) kubenestv1.ClusterReference {
			register(other, "dev")
			return kubenestv1.ClusterReference{Namespace: other, Name: "dev"}
		}, kubenestv1.ReasonClusterNotAllowed, "ManagedCluster OTHER/dev may not be used by Projects of namespace"),
		Entry("cluster that is being deleted", func(org, _ string) kubenestv1.ClusterReference {
			record := register(org, "dev", func(c *kubenestv1.ManagedCluster) { c.Finalizers = []string{"example.com/hold"} })
			Expect(api.Delete(GinkgoT().Context(), record)).To(Succeed())
			DeferCleanup(letGo, record)
			return kubenestv1.ClusterReference{Name: "dev"}
		}, kubenestv1.ReasonClusterDeleting, "ManagedCluster dev is being deleted"),
		Entry("cluster that was given up", func(org, _ string) kubenestv1.ClusterReference {
			register(org, "dev", func(c *kubenestv1.ManagedCluster) { c.Spec.Abandoned = true })
			return kubenestv1.ClusterReference{Name: "dev"}
		}, kubenestv1.ReasonAbandoned, "was given up"),
		Entry("record with the id of an older one", func(org, other string) kubenestv1.ClusterReference {
			owner := register(other, "owner")
			Eventually(time.Now).Should(BeTemporally(">=", owner.CreationTimestamp.Add(time.Second)), "age counts in seconds")
			register(org, "dev", func(c *kubenestv1.ManagedCluster) { c.Spec.ClusterID = string(owner.UID) })
			return kubenestv1.ClusterReference{Name: "dev"}
		}, kubenestv1.ReasonClusterIDTaken, "belongs to an older record"),
	)

	It("goes on when what it was refused for is mended", func(ctx SpecContext) {
		org := organization()
		p := create(org, "shop", "dev")
		Eventually(conditionOf(p, kubenestv1.ConditionStalled)).Should(Equal("True/ClusterNotFound"))
		awaitStack(p, register(org, "dev"))
		Eventually(conditionOf(p, kubenestv1.ConditionStalled)).Should(Equal("absent"))

		By("being allowed by its namespace's labels")
		other := organization()
		theirs := register(other, "prod", func(c *kubenestv1.ManagedCluster) {
			c.Spec.AllowedProjects = &kubenestv1.AllowedProjects{NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "true"}}}
		})
		second := create(org, "second", "prod", func(p *kubenestv1.Project) { p.Spec.ClusterRef.Namespace = other })
		Eventually(conditionOf(second, kubenestv1.ConditionStalled)).Should(Equal("True/ClusterNotAllowed"))
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: org}}
		ns = get(ns)
		ns.Labels["team"] = "true"
		Expect(api.Update(ctx, ns)).To(Succeed())
		awaitStack(second, theirs)
	})

	It("keeps what it has when its cluster is closed to it", func(ctx SpecContext) {
		org, other := organization(), organization()
		cluster := register(other, "prod", allowAll)
		p := create(org, "shop", "prod", func(p *kubenestv1.Project) { p.Spec.ClusterRef.Namespace = other })
		s := awaitStack(p, cluster)
		c := get(cluster)
		c.Spec.AllowedProjects = nil
		Expect(api.Update(ctx, c)).To(Succeed())
		Eventually(conditionOf(p, kubenestv1.ConditionStalled)).Should(Equal("True/ClusterNotAllowed"))
		Consistently(deleting(s)).Should(BeFalse())
	})

	It("loses what the owner of its cluster takes back, though the cluster is closed to it", func(ctx SpecContext) {
		org, other := organization(), organization()
		cluster := register(other, "prod", allowAll, func(c *kubenestv1.ManagedCluster) {
			c.Spec.Grants = &kubenestv1.Grants{ClusterScoped: true, PodSecurity: kubenestv1.PodSecurityPrivileged}
		})
		p := create(org, "shop", "prod", func(p *kubenestv1.Project) {
			p.Spec.ClusterRef.Namespace = other
			p.Spec.Labels = map[string]string{"team": "shop"}
		})
		s := awaitStack(p, cluster)
		Expect(s.Spec.Grants.ClusterScoped).To(BeTrue())
		c := get(cluster)
		c.Spec.AllowedProjects, c.Spec.Grants = nil, nil
		Expect(api.Update(ctx, c)).To(Succeed())
		Eventually(conditionOf(p, kubenestv1.ConditionStalled)).Should(Equal("True/ClusterNotAllowed"))
		Eventually(func() *kubenestv1.Grants { return get(s).Spec.Grants }).Should(BeNil())
		before := s.Spec.DeepCopy()
		before.Grants = nil
		Expect(get(s).Spec).To(Equal(*before), "nothing else of it changes")
	})

	It("is not taken up outside organizations", func(ctx SpecContext) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}}
		Expect(api.Create(ctx, ns)).To(Succeed())
		cluster := register(ns.Name, "dev")
		p := create(ns.Name, "shop", "dev")
		Eventually(conditionOf(p, kubenestv1.ConditionStalled)).Should(Equal("True/NotAnOrganization"))
		Expect(messageOf(p)()).To(ContainSubstring("kubectl label namespace " + ns.Name))
		Expect(gone(stackOf(p, cluster))()).To(BeTrue())
		ns.Labels = map[string]string{kubenestv1.OrganizationLabel: "true"}
		Expect(api.Update(ctx, ns)).To(Succeed())
		awaitStack(p, cluster)
	})
})

var _ = Describe("Two Projects on one namespace", func() {
	It("are told apart by age, and the younger is named the older where it may see it", func(ctx SpecContext) {
		org, other := organization(), organization()
		cluster := register(org, "dev", allowAll)
		older := create(org, "older", "dev", func(p *kubenestv1.Project) { p.Spec.Namespace = "shop" })
		awaitStack(older, cluster)
		younger := create(org, "younger", "dev", func(p *kubenestv1.Project) { p.Spec.Namespace = "shop" })
		foreign := create(other, "foreign", "dev", func(p *kubenestv1.Project) {
			p.Spec.Namespace, p.Spec.ClusterRef.Namespace = "shop", org
		})
		for _, p := range []*kubenestv1.Project{younger, foreign} {
			Eventually(conditionOf(p, kubenestv1.ConditionStalled)).Should(Equal("True/NamespaceTaken"))
			Expect(gone(stackOf(p, cluster))()).To(BeTrue())
		}
		Expect(messageOf(younger)()).To(ContainSubstring("Namespace shop on cluster dev belongs to Project older:"))
		Expect(messageOf(foreign)()).To(ContainSubstring("belongs to a Project of another organization"))
		Expect(messageOf(foreign)()).NotTo(ContainSubstring("older"))

		By("giving it to the next when the older is gone entirely")
		Expect(api.Delete(ctx, older)).To(Succeed())
		Eventually(deleting(stackOf(older, cluster))).Should(BeTrue())
		Consistently(conditionOf(younger, kubenestv1.ConditionStalled)).Should(Equal("True/NamespaceTaken"))
		letGo(stackOf(older, cluster))
		Eventually(gone(older)).Should(BeTrue())
		Eventually(func() int {
			n := 0
			for _, p := range []*kubenestv1.Project{younger, foreign} {
				if !gone(stackOf(p, cluster))() {
					n++
				}
			}
			return n
		}).Should(Equal(1))
	})

	It("get it once when they come at once", func() {
		org := organization()
		cluster := register(org, "dev")
		var projects []*kubenestv1.Project
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			projects = append(projects, create(org, name, "dev", func(p *kubenestv1.Project) { p.Spec.Namespace = "shop" }))
		}
		count := func(want string) func() int {
			return func() int {
				n := 0
				for _, p := range projects {
					if conditionOf(p, kubenestv1.ConditionReady)() == want {
						n++
					}
				}
				return n
			}
		}
		Eventually(count("False/NamespaceTaken")).Should(Equal(7))
		Eventually(count("False/NamespacePending")).Should(Equal(1))
		n := 0
		for _, p := range projects {
			if !gone(stackOf(p, cluster))() {
				n++
			}
		}
		Expect(n).To(Equal(1))
	})

	It("do not meet on different clusters", func() {
		org := organization()
		a, b := register(org, "a"), register(org, "b")
		awaitStack(create(org, "one", "a", func(p *kubenestv1.Project) { p.Spec.Namespace = "shop" }), a)
		awaitStack(create(org, "two", "b", func(p *kubenestv1.Project) { p.Spec.Namespace = "shop" }), b)
	})

	It("let no Project that may not use a cluster take a namespace on it", func() {
		org, other := organization(), organization()
		cluster := register(org, "dev")
		squatter := create(other, "squatter", "dev", func(p *kubenestv1.Project) {
			p.Spec.Namespace, p.Spec.ClusterRef.Namespace = "shop", org
		})
		Eventually(conditionOf(squatter, kubenestv1.ConditionStalled)).Should(Equal("True/ClusterNotAllowed"))
		awaitStack(create(org, "shop", "dev"), cluster)
	})
})
