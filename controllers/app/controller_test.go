// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

var _ = Describe("An App", func() {
	var h *hub
	BeforeEach(func() { h = startHub() })

	It("gives a workload the export of an addon on another cluster", func() {
		h.create(workload("web", "", uses("db", "dsn")), addon("db", "b"), workload("worker", "b"))
		Eventually(h.listed).WithArguments("b").Should(Equal([]string{"db", "worker"}))
		Eventually(h.listed).WithArguments("a").Should(Equal([]string{"web"}))
		spec := h.spec("a")
		Expect(spec.Inputs).To(Equal([]kubenestv1.StackInput{{Name: "app-db-exports", Kind: kubenestv1.InputExports}}))
		Expect(spec.Held).To(HaveLen(1))
		Expect(spec.Held[0].Reason).To(Equal(kubenestv1.ReasonWaitingForExport))
		Expect(spec.Namespace).To(Equal("shop"))
		stack := h.stack("a")
		Expect(stack.Finalizers).To(ConsistOf(kubenestv1.RemovalFinalizer))
		Expect(stack.Labels).To(Equal(map[string]string{
			kubenestv1.AppLabel: "app", kubenestv1.ProjectLabel: "shop", kubenestv1.ClusterLabel: h.record("a").ID(),
		}))
		h.report("a", kubenestv1.AppRunning)
		h.report("b", kubenestv1.AppRunning)
		Eventually(h.status).Should(And(HaveField("Phase", kubenestv1.AppPending), HaveField("Ready", "2/3"), HaveField("Clusters", "a,b")))
		Expect(h.component("web").Message).To(ContainSubstring("Waits for export dsn of db on cluster b"))

		h.exports("db", "one")
		Eventually(h.spec).WithArguments("a").Should(And(HaveField("Held", BeEmpty()), HaveField("Inputs", ConsistOf(HaveField("Revision", "one")))))
		h.report("a", kubenestv1.AppRunning)
		Eventually(h.phase).Should(Equal(kubenestv1.AppRunning))

		By("a changed export")
		h.exports("db", "two")
		Eventually(h.spec).WithArguments("a").Should(HaveField("Inputs", ConsistOf(HaveField("Revision", "two"))))
		h.report("a", kubenestv1.AppRunning)
		Eventually(h.reasons).Should(ContainElements(kubenestv1.EventRevisionCreated, kubenestv1.ReasonRunning))

		By("at rest, nothing is written")
		Eventually(h.phase).Should(Equal(kubenestv1.AppRunning))
		app, a, b := h.app(), h.stack("a"), h.stack("b")
		Consistently(func(g Gomega) {
			g.Expect(h.app().ResourceVersion).To(Equal(app.ResourceVersion))
			g.Expect(h.stack("a").ResourceVersion).To(Equal(a.ResourceVersion))
			g.Expect(h.stack("b").ResourceVersion).To(Equal(b.ResourceVersion))
		}).Should(Succeed())
	})

	It("is refused within a second, and goes on when the cause is gone", func() {
		h.create(workload("web", "elsewhere"))
		Eventually(h.accepted).WithTimeout(time.Second).Should(Equal(kubenestv1.ReasonClusterNotFound))
		Expect(h.phase()).To(Equal(kubenestv1.AppFailed))
		Eventually(h.reasons).Should(ContainElement(kubenestv1.ReasonClusterNotFound))
		h.cluster("elsewhere")
		Eventually(h.listed).WithArguments("elsewhere").Should(Equal([]string{"web"}))
		Eventually(h.accepted).Should(Equal(kubenestv1.ReasonAccepted))
	})

	It("may not use a cluster whose owner does not allow it", func() {
		other := startHub()
		h.create(workload("web", other.namespace+"/a"))
		Eventually(h.accepted).Should(Equal(kubenestv1.ReasonClusterNotAllowed))
		Expect(other.stack("a")).To(BeNil())
		other.editCluster("a", func(c *kubenestv1.ManagedCluster) {
			c.Spec.AllowedProjects = &kubenestv1.AllowedProjects{NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "web"}}}
		})
		Consistently(h.accepted).Should(Equal(kubenestv1.ReasonClusterNotAllowed))
		Expect(api.Patch(h.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}},
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"web"}}}`)))).To(Succeed())
		Eventually(h.accepted).Should(Equal(kubenestv1.ReasonAccepted))
	})

	It("keeps what runs when a change is refused", func() {
		h.create(workload("web", ""), workload("api", ""))
		h.report("a", kubenestv1.AppRunning)
		Eventually(h.phase).Should(Equal(kubenestv1.AppRunning))
		before := h.stack("a")
		h.edit(func(app *kubenestv1.App) {
			app.Spec.Components[0].WorkloadSpec.Image = "example/web:v2"
			app.Spec.Components[0].DependsOn, app.Spec.Components[1].DependsOn = []string{"api"}, []string{"web"}
		})
		Eventually(h.accepted).WithTimeout(time.Second).Should(Equal(kubenestv1.ReasonDependencyCycle))
		Expect(h.status()).To(And(
			HaveField("Message", ContainSubstring("web → api → web")), HaveField("Message", HaveSuffix("What ran before keeps running.")),
			HaveField("Phase", kubenestv1.AppRunning), HaveField("LatestRevision", int64(1)),
		))
		Consistently(h.stack).WithArguments("a").Should(HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("waits for its Project, and for a chart in a ConfigMap", func() {
		app := h.newApp(addon("db", "", func(c *kubenestv1.Component) {
			c.AddonSpec.Chart = kubenestv1.Chart{ConfigMapRef: &kubenestv1.LocalReference{Name: "pg"}}
		}))
		app.Spec.ProjectRef.Name = "later"
		Expect(api.Create(h.ctx, app)).To(Succeed())
		Eventually(h.accepted).Should(Equal(kubenestv1.ReasonProjectNotFound))
		Expect(api.Create(h.ctx, &kubenestv1.Project{
			ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "later"},
			Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: "a"}},
		})).To(Succeed())
		Eventually(h.accepted).Should(Equal(kubenestv1.ReasonChartNotFound))

		chart := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "pg"}, BinaryData: map[string][]byte{"pg-1.tgz": {1}}}
		Expect(api.Create(h.ctx, chart)).To(Succeed())
		Consistently(h.accepted).Should(Equal(kubenestv1.ReasonChartNotFound), "it lacks the label")
		chart.Labels = map[string]string{kubenestv1.ChartLabel: "true"}
		Expect(api.Update(h.ctx, chart)).To(Succeed())
		Eventually(h.spec).WithArguments("a").Should(HaveField("Inputs", ConsistOf(And(
			HaveField("Kind", kubenestv1.InputChart), HaveField("Name", "pg"), HaveField("Revision", digest([]byte{1}))))))
		chart.BinaryData = map[string][]byte{"pg-1.tgz": {2}}
		Expect(api.Update(h.ctx, chart)).To(Succeed())
		Eventually(h.spec).WithArguments("a").Should(HaveField("Inputs", ConsistOf(HaveField("Revision", digest([]byte{2})))))
	})

	It("needs a Git credential of the right type for argocd", func() {
		h.editCluster("a", func(c *kubenestv1.ManagedCluster) {
			c.Spec.Delivery = kubenestv1.DeliveryArgoCD
			c.Spec.GitOps = &kubenestv1.GitOps{RepoURL: "https://git.example.com/a.git", SecretRef: &kubenestv1.LocalReference{Name: "git"}}
		})
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "git"}, StringData: map[string]string{"password": "hush"}}
		Expect(api.Create(h.ctx, secret)).To(Succeed())
		h.create(workload("web", ""))
		Eventually(h.accepted).Should(Equal(kubenestv1.ReasonGitOpsMissing))
		Expect(h.status().Message).To(And(ContainSubstring("not of type"), Not(ContainSubstring("hush"))))
		Expect(api.Delete(h.ctx, secret)).To(Succeed())
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "git"}, Type: kubenestv1.SecretTypeGitCredential}
		Expect(api.Create(h.ctx, secret)).To(Succeed())
		h.edit(func(app *kubenestv1.App) { app.Spec.Timeout = &metav1.Duration{Duration: time.Minute} })
		Eventually(h.spec).WithArguments("a").Should(And(
			HaveField("Delivery", kubenestv1.DeliveryArgoCD), HaveField("GitOps.Branch", "main"),
			HaveField("Inputs", ConsistOf(And(HaveField("Kind", kubenestv1.InputGitCredential), HaveField("Revision", Not(BeEmpty())))))))
	})

	It("holds a component until what it depends on runs on the other cluster, and not again", func() {
		h.connected("b", metav1.ConditionFalse, time.Now().Add(-time.Hour))
		h.create(workload("web", "", dependsOn("db")), addon("db", "b"))
		Eventually(h.spec).WithArguments("a").Should(HaveField("Held", ConsistOf(HaveField("Reason", kubenestv1.ReasonWaitingForDependency))))
		Eventually(func() string { return h.component("db").Reason }).Should(Equal(kubenestv1.ReasonClusterDisconnected))
		Expect(h.component("db")).To(And(HaveField("Phase", kubenestv1.AppPending), HaveField("Message", ContainSubstring("Cluster b has been disconnected"))))

		By("the cluster returns")
		h.connected("b", metav1.ConditionTrue, time.Now())
		h.report("b", kubenestv1.AppDeploying)
		Eventually(func() kubenestv1.AppPhase { return h.component("db").Phase }).Should(Equal(kubenestv1.AppDeploying))
		Expect(h.spec("a").Held).To(HaveLen(1))
		h.report("b", kubenestv1.AppRunning)
		Eventually(h.spec).WithArguments("a").Should(HaveField("Held", BeEmpty()))
		h.report("a", kubenestv1.AppRunning)
		Eventually(h.phase).Should(Equal(kubenestv1.AppRunning))

		By("it goes away again")
		h.connected("b", metav1.ConditionFalse, time.Now().Add(-time.Hour))
		Eventually(h.phase).Should(Equal(kubenestv1.AppUnknown))
		Expect(h.spec("a").Held).To(BeEmpty())
		Expect(h.component("web").Phase).To(Equal(kubenestv1.AppRunning))
		Expect(h.component("db").Reason).To(Equal(kubenestv1.ReasonClusterDisconnected))
	})

	It("moves a workload only when it runs in its new place", func() {
		h.create(workload("web", ""), addon("db", ""))
		h.report("a", kubenestv1.AppRunning)
		Eventually(h.phase).Should(Equal(kubenestv1.AppRunning))
		h.edit(func(app *kubenestv1.App) { app.Spec.Components[0].ClusterID = "b" })
		Eventually(h.listed).WithArguments("b").Should(Equal([]string{"web"}))
		Expect(h.listed("a")).To(ConsistOf("db", "web"))
		h.report("b", kubenestv1.AppDeploying)
		Eventually(func() string { return h.component("web").Reason }).Should(Equal(kubenestv1.ReasonMoving))
		Expect(h.listed("a")).To(ConsistOf("db", "web"))
		h.report("b", kubenestv1.AppRunning)
		Eventually(h.listed).WithArguments("a").Should(Equal([]string{"db"}))
		Eventually(h.reasons).Should(ContainElement(kubenestv1.EventMoved))
		h.report("a", kubenestv1.AppRunning)
		Eventually(h.phase).Should(Equal(kubenestv1.AppRunning))

		By("and back, to where something of it is being removed")
		h.edit(func(app *kubenestv1.App) {
			app.Annotations = map[string]string{kubenestv1.AllowAddonMoveAnnotation: "db"}
			app.Spec.Components[1].ClusterID = "b"
		})
		Eventually(func() *metav1.Time { return h.stack("a").DeletionTimestamp }).ShouldNot(BeNil())
		h.edit(func(app *kubenestv1.App) { app.Spec.Components[0].ClusterID = "" })
		Eventually(func() string { return h.component("web").Message }).Should(ContainSubstring("being removed first"))
		Expect(h.listed("b")).To(ConsistOf("web", "db"))
		h.removed("a")
		Eventually(h.listed).WithArguments("a").Should(Equal([]string{"web"}))
		h.report("a", kubenestv1.AppRunning)
		Eventually(h.listed).WithArguments("b").Should(Equal([]string{"db"}))
	})

	It("moves an addon only where that is allowed", func() {
		h.create(addon("db", ""))
		h.report("a", kubenestv1.AppRunning)
		h.edit(func(app *kubenestv1.App) { app.Spec.Components[0].ClusterID = "b" })
		Eventually(h.accepted).Should(Equal(kubenestv1.ReasonAddonMoveRefused))
		Expect(h.listed("a")).To(Equal([]string{"db"}))
		Expect(h.stack("b")).To(BeNil())
		h.edit(func(app *kubenestv1.App) {
			app.Annotations = map[string]string{kubenestv1.AllowAddonMoveAnnotation: "db"}
		})
		Eventually(h.listed).WithArguments("b").Should(Equal([]string{"db"}))
		Eventually(func() *metav1.Time { return h.stack("a").DeletionTimestamp }).ShouldNot(BeNil())
	})

	It("keeps ten revisions and goes back to one", func() {
		h.create(workload("web", ""))
		Eventually(func() int64 { return h.status().LatestRevision }).Should(Equal(int64(1)))
		for n := 2; n <= 11; n++ {
			h.edit(func(app *kubenestv1.App) {
				app.Spec.Components[0].WorkloadSpec.Image = fmt.Sprintf("example/web:v%d", n)
			})
			Eventually(func() int64 { return h.status().LatestRevision }).Should(Equal(int64(n)))
		}
		Eventually(h.revisions).Should(ConsistOf(2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
		h.edit(func(app *kubenestv1.App) { app.Spec.RollbackTo = 2 })
		Eventually(h.image).WithArguments("a", "web").Should(Equal("example/web:v2"))
		Eventually(h.status).Should(And(HaveField("Revision", int64(2)), HaveField("LatestRevision", int64(11))))

		By("which is kept while it is pinned")
		h.edit(func(app *kubenestv1.App) { app.Spec.Components[0].WorkloadSpec.Image = "example/web:v12" })
		Eventually(h.revisions).Should(ConsistOf(2, 4, 5, 6, 7, 8, 9, 10, 11, 12))
		Expect(h.image("a", "web")).To(Equal("example/web:v2"))

		By("one that is not kept")
		h.edit(func(app *kubenestv1.App) { app.Spec.RollbackTo = 3 })
		Eventually(h.accepted).Should(Equal(kubenestv1.ReasonRevisionNotFound))
		Expect(h.status().Message).To(ContainSubstring("Kept are: 2, 4, 5, 6, 7, 8, 9, 10, 11, 12"))
		Expect(h.image("a", "web")).To(Equal("example/web:v2"))

		By("and forward again")
		h.edit(func(app *kubenestv1.App) { app.Spec.RollbackTo = 0 })
		Eventually(h.image).WithArguments("a", "web").Should(Equal("example/web:v12"))
		Eventually(h.status).Should(And(HaveField("Revision", int64(12)), HaveField("LatestRevision", int64(12))))

		By("numbers do not come again when somebody deletes them all")
		Expect(api.DeleteAllOf(h.ctx, &appsv1.ControllerRevision{}, client.InNamespace(h.namespace))).To(Succeed())
		Eventually(h.revisions).Should(ConsistOf(13))
	})

	It("waits while it is paused", func() {
		h.create(workload("web", ""))
		h.report("a", kubenestv1.AppRunning)
		h.edit(func(app *kubenestv1.App) { app.Spec.Paused = true })
		Eventually(h.spec).WithArguments("a").Should(HaveField("Paused", true))
		h.report("a", kubenestv1.AppRunning)
		patch := []byte(`[{"op": "add", "path": "/spec/components/0/workloadSpec/replicas", "value": 3},
			{"op": "add", "path": "/spec/components/-", "value": {"name": "more", "type": "workload", "clusterID": "b", "workloadSpec": {"image": "x"}}}]`)
		Expect(api.Patch(h.ctx, h.app(), client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
		Eventually(h.phase).Should(Equal(kubenestv1.AppPaused))
		Expect(h.component("more").Phase).To(Equal(kubenestv1.AppPaused))
		Consistently(func(g Gomega) {
			g.Expect(h.spec("a").Components[0].WorkloadSpec.Replicas).To(BeNil())
			g.Expect(h.stack("b")).To(BeNil())
		}).Should(Succeed())
		h.edit(func(app *kubenestv1.App) { app.Spec.Paused = false })
		Eventually(h.spec).WithArguments("a").Should(And(HaveField("Paused", false), HaveField("Components", ConsistOf(HaveField("WorkloadSpec.Replicas", HaveValue(Equal(int32(3))))))))
		Eventually(h.listed).WithArguments("b").Should(Equal([]string{"more"}))
	})

	It("ends at the last of fifty edits", func() {
		h.create(workload("web", ""), workload("api", "b"))
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := range 50 {
			patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/components/0/workloadSpec/image", "value": "example/web:e%d"},
				{"op": "replace", "path": "/spec/components/1/workloadSpec/image", "value": "example/api:e%d"}]`, n, n)
			Expect(api.Patch(h.ctx, h.newApp(), client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
			<-tick.C
		}
		Eventually(h.image).WithArguments("a", "web").WithTimeout(3 * time.Second).Should(Equal("example/web:e49"))
		Eventually(h.image).WithArguments("b", "api").WithTimeout(3 * time.Second).Should(Equal("example/api:e49"))
		Eventually(h.accepted).Should(Equal(kubenestv1.ReasonAccepted))
		h.report("a", kubenestv1.AppRunning)
		h.report("b", kubenestv1.AppRunning)
		Eventually(h.phase).Should(Equal(kubenestv1.AppRunning))
		Eventually(func() int { return len(h.revisions()) }).Should(BeNumerically("<=", keptRevisions))
	})

	It("is taken up where a hub left it", func() {
		h.stop()
		h.create(workload("web", ""), workload("api", "b"))
		h.edit(func(app *kubenestv1.App) { app.Finalizers = []string{kubenestv1.RemovalFinalizer} })
		h.start() // as if it had been killed after its first write
		Eventually(h.listed).WithArguments("a").Should(Equal([]string{"web"}))
		Eventually(h.listed).WithArguments("b").Should(Equal([]string{"api"}))
	})

	It("puts right what somebody else did to a StackDeploy", func() {
		h.create(workload("web", ""))
		Eventually(h.listed).WithArguments("a").Should(Equal([]string{"web"}))
		Eventually(func() error {
			s := h.stack("a")
			s.Spec.Removed, s.Spec.Components[0].WorkloadSpec.Image = true, "evil/web:v1"
			return api.Update(h.ctx, s)
		}).Should(Succeed())
		Eventually(h.spec).WithArguments("a").Should(HaveField("Removed", false))
		Eventually(h.image).WithArguments("a", "web").Should(Equal("example/web:v1"))
	})

	It("goes when its clusters have removed it, and does not wait for one that was given up", func() {
		h.create(workload("web", ""), workload("api", "b"))
		h.report("a", kubenestv1.AppRunning)
		h.report("b", kubenestv1.AppRunning)
		Eventually(h.phase).Should(Equal(kubenestv1.AppRunning))
		h.connected("b", metav1.ConditionFalse, time.Now().Add(-time.Hour))
		Expect(api.Delete(h.ctx, h.app())).To(Succeed())
		Eventually(h.status).Should(HaveField("Message", And(
			ContainSubstring("cluster a to remove it"),
			ContainSubstring("cluster b, which has been disconnected since"), ContainSubstring("set spec.abandoned on ManagedCluster b"))))
		h.removed("a")
		Eventually(h.status).Should(HaveField("Message", Not(ContainSubstring("cluster a"))))
		h.editCluster("b", func(c *kubenestv1.ManagedCluster) { c.Spec.Abandoned = true })
		Eventually(h.status).Should(HaveField("Message", ContainSubstring("which was given up")))
		h.removed("b") // the delivery controller releases it then
		Eventually(func() bool {
			return apierrors.IsNotFound(api.Get(context.Background(), client.ObjectKey{Namespace: h.namespace, Name: "app"}, &kubenestv1.App{}))
		}).Should(BeTrue())
	})

	It("leaves no StackDeploy when somebody tore its finalizer off", func() {
		h.create(workload("web", ""))
		Eventually(h.listed).WithArguments("a").Should(Equal([]string{"web"}))
		h.stop()
		h.edit(func(app *kubenestv1.App) { app.Finalizers = nil })
		Expect(api.Delete(h.ctx, h.app())).To(Succeed())

		By("waiting for the App, which a restore may bring after its StackDeploys")
		h.start()
		Consistently(func() *metav1.Time { return h.stack("a").DeletionTimestamp }).WithTimeout(time.Second).Should(BeNil())
		h.stop()
		h.later = 2 * orphanGrace
		h.start()
		Eventually(func() *metav1.Time { return h.stack("a").DeletionTimestamp }).ShouldNot(BeNil())
	})
})

// revisions are the numbers of those that are kept.
func (h *hub) revisions() []int {
	var list appsv1.ControllerRevisionList
	Expect(api.List(h.ctx, &list, client.InNamespace(h.namespace))).To(Succeed())
	numbers := make([]int, 0, len(list.Items))
	for _, o := range list.Items {
		numbers = append(numbers, int(o.Revision))
	}
	return numbers
}
