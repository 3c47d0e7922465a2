// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/gitops"
)

var _ = Describe("Argo CD", func() {
	It("is given a project that holds the App in its namespace, an Application, and the credential", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"))
		Expect(f.publish(ctx, p).Problem).NotTo(HaveOccurred())

		app := application(ctx, p)
		Expect(app).NotTo(BeNil())
		project, _, _ := unstructured.NestedString(app.Object, "spec", "project")
		spec := app.Object["spec"].(map[string]any)
		Expect(spec["source"]).To(Equal(map[string]any{
			"repoURL": p.GitOps.RepoURL, "targetRevision": "main", "path": "clusters/prod/team/" + f.namespace + "/web",
		}))
		Expect(spec["destination"]).To(Equal(map[string]any{"server": "https://kubernetes.default.svc", "namespace": f.namespace}))
		Expect(app.GetFinalizers()).To(BeEmpty(), "who deletes the Application must not delete what runs")

		limits := argo("AppProject", project)
		Expect(api.Get(ctx, client.ObjectKeyFromObject(limits), limits)).To(Succeed())
		Expect(limits.Object["spec"]).To(HaveKeyWithValue("clusterResourceWhitelist", BeEmpty()))
		Expect(limits.Object["spec"]).To(HaveKeyWithValue("sourceRepos", ConsistOf(p.GitOps.RepoURL)))
		Expect(limits.Object["spec"]).To(HaveKeyWithValue("destinations", ConsistOf(
			map[string]any{"server": "https://kubernetes.default.svc", "namespace": f.namespace})))

		secret := &corev1.Secret{}
		Expect(api.Get(ctx, client.ObjectKey{Namespace: "argocd", Name: project}, secret)).To(Succeed())
		Expect(secret.Labels).To(HaveKeyWithValue("argocd.argoproj.io/secret-type", "repository"))
		Expect(string(secret.Data["project"])).To(Equal(project), "nobody else's Applications may use it")
		Expect(string(secret.Data["password"])).To(Equal(string(p.Credential["password"])))

		By("writing nothing while nothing changes")
		f.publish(ctx, p)
		again := application(ctx, p)
		f.publish(ctx, p)
		Expect(application(ctx, p).GetResourceVersion()).To(Equal(again.GetResourceVersion()))

		By("following the owner's grant, both ways")
		p.Target.Grants.ClusterScoped = true
		f.publish(ctx, p)
		Expect(api.Get(ctx, client.ObjectKeyFromObject(limits), limits)).To(Succeed())
		Expect(limits.Object["spec"]).To(HaveKeyWithValue("clusterResourceWhitelist", HaveLen(1)))
		p.Target.Grants.ClusterScoped = false
		f.publish(ctx, p)
		Expect(api.Get(ctx, client.ObjectKeyFromObject(limits), limits)).To(Succeed())
		Expect(limits.Object["spec"]).To(HaveKeyWithValue("clusterResourceWhitelist", BeEmpty()))

		By("taking the password away when a key takes its place")
		p.GitOps.RepoURL, p.Credential = server.SSHURL(f.repository), server.SSHCredential()
		Expect(f.publish(ctx, p).Problem).NotTo(HaveOccurred())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		Expect(secret.Data).To(And(HaveKey("sshPrivateKey"), Not(HaveKey("password"))))
	})

	It("has changes of its project put right", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"))
		f.publish(ctx, p)
		project, _, _ := unstructured.NestedString(application(ctx, p).Object, "spec", "project")
		limits := argo("AppProject", project)
		Expect(api.Get(ctx, client.ObjectKeyFromObject(limits), limits)).To(Succeed())
		Expect(unstructured.SetNestedSlice(limits.Object, []any{map[string]any{"server": "*", "namespace": "*"}}, "spec", "destinations")).To(Succeed())
		Expect(api.Update(ctx, limits)).To(Succeed())
		f.publish(ctx, p)
		Expect(api.Get(ctx, client.ObjectKeyFromObject(limits), limits)).To(Succeed())
		Expect(limits.Object["spec"]).To(HaveKeyWithValue("destinations", ConsistOf(HaveKeyWithValue("namespace", f.namespace))))
	})

	It("keeps an Application of that name that is not ours, and nothing is committed", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"))
		f.publish(ctx, p)
		theirs := application(ctx, p)
		theirs.SetAnnotations(map[string]string{"is": "theirs"})
		Expect(api.Update(ctx, theirs)).To(Succeed())
		p.Objects = f.publication("web", configMap("a", "2")).Objects
		s := f.publish(ctx, p)
		Expect(s.Problem.Reason).To(Equal(kubenestv1.ReasonObjectNotOurs))
		Expect(s.Problem.Message).To(ContainSubstring("Application argocd/" + theirs.GetName()))
		Expect(f.log(ctx, "main")).To(HaveLen(1))
		Expect(f.publisher.Remove(ctx, p)).To(BeEmpty())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
	})

	It("is asked for, where it is not installed", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		f.publisher = gitops.New(bare{api}, gitops.Options{})
		s := f.publish(ctx, f.publication("web", configMap("a", "1")))
		Expect(s.Problem.Message).To(ContainSubstring("Argo CD is not installed on this cluster"))
		Expect(s.Commit).To(BeEmpty())
	})
})

// bare is a cluster without Argo CD.
type bare struct{ client.Client }

func (bare) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

func (bare) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return &meta.NoKindMatchError{GroupKind: o.GetObjectKind().GroupVersionKind().GroupKind()}
}

func (bare) List(_ context.Context, o client.ObjectList, _ ...client.ListOption) error {
	return &meta.NoKindMatchError{GroupKind: o.GetObjectKind().GroupVersionKind().GroupKind()}
}

var _ = Describe("What Argo CD says", func() {
	It("counts from the commit on that has the objects", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{Fresh: time.Nanosecond})
		p := f.publication("web", configMap("a", "1"))
		first := f.publish(ctx, p)
		Expect(first.Message).To(ContainSubstring("not looked at the Application yet"))
		app := application(ctx, p)
		report(ctx, app, compared(app, first.Commit, "Synced", "Healthy"))
		s := f.publish(ctx, p)
		Expect(s.Synced && s.Healthy).To(BeTrue(), s.Message)
		Expect(s.Problem).NotTo(HaveOccurred())

		By("a new commit: the old one's state says nothing, and Argo CD is told to look")
		p.Objects = f.publication("web", configMap("a", "2")).Objects
		second := f.publish(ctx, p)
		Expect(second.Synced || second.Healthy).To(BeFalse())
		app = application(ctx, p)
		Expect(app.GetAnnotations()).To(HaveKeyWithValue("argocd.argoproj.io/refresh", "normal"))
		report(ctx, app, compared(app, second.Commit, "OutOfSync", "Healthy"))
		Expect(f.publish(ctx, p).Synced).To(BeFalse())
		report(ctx, application(ctx, p), compared(app, second.Commit, "Synced", "Degraded"))
		s = f.publish(ctx, p)
		Expect(s.Synced).To(BeTrue())
		Expect(s.Healthy).To(BeFalse())
		Expect(s.Message).To(ContainSubstring("degraded"))

		By("a commit of somebody else on top: the state stays what it was, and so does a newer one")
		Expect(server.Commit(ctx, f.repository, "main", "README.md", "theirs")).To(Succeed())
		Expect(f.publish(ctx, p).Synced).To(BeTrue())
		head, err := server.Git(ctx, "-C", f.repository, "rev-parse", "main")
		Expect(err).NotTo(HaveOccurred())
		report(ctx, application(ctx, p), compared(app, head, "Synced", "Healthy"))
		s = f.publish(ctx, p)
		Expect(s.Synced && s.Healthy).To(BeTrue(), s.Message)
		Expect(s.Commit).To(Equal(second.Commit))

		By("an operator that starts anew: the next look of Argo CD counts")
		f.publisher = gitops.New(api, gitops.Options{Fresh: time.Nanosecond})
		report(ctx, application(ctx, p), compared(app, second.Commit, "Synced", "Healthy"))
		Expect(f.publish(ctx, p).Synced).To(BeFalse())
		Expect(application(ctx, p).GetAnnotations()).To(HaveKey("argocd.argoproj.io/refresh"))
		report(ctx, application(ctx, p), compared(app, head, "Synced", "Healthy"))
		Expect(f.publish(ctx, p).Synced).To(BeTrue())

		By("a comparison with another folder says nothing")
		other := compared(app, head, "Synced", "Healthy")
		Expect(unstructured.SetNestedField(other, "elsewhere", "sync", "comparedTo", "source", "path")).To(Succeed())
		report(ctx, application(ctx, p), other)
		Expect(f.publish(ctx, p).Synced).To(BeFalse())
	})

	It("does not count a commit at which somebody had changed the folder", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{Fresh: time.Nanosecond})
		p := f.publication("web", configMap("a", "1"))
		first := f.publish(ctx, p)
		app := application(ctx, p)
		Expect(server.Commit(ctx, f.repository, "main", "clusters/prod/team/"+f.namespace+"/web/stray.yaml", "kind: ClusterRole")).To(Succeed())
		stray, err := server.Git(ctx, "-C", f.repository, "rev-parse", "main")
		Expect(err).NotTo(HaveOccurred())
		report(ctx, app, compared(app, stray, "Synced", "Healthy"))
		second := f.publish(ctx, p)
		Expect(second.Commit).NotTo(Or(Equal(first.Commit), Equal(stray)))
		Expect(second.Synced).To(BeFalse())
		Expect(application(ctx, p).GetAnnotations()).To(HaveKey("argocd.argoproj.io/refresh"))
		report(ctx, application(ctx, p), compared(app, first.Commit, "Synced", "Healthy"))
		Expect(f.publish(ctx, p).Synced).To(BeFalse())
		report(ctx, application(ctx, p), compared(app, second.Commit, "Synced", "Healthy"))
		Expect(f.publish(ctx, p).Synced).To(BeTrue())
	})

	It("is told in words when it fails", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"))
		s := f.publish(ctx, p)
		app := application(ctx, p)
		status := compared(app, s.Commit, "OutOfSync", "Missing")
		status["operationState"] = map[string]any{
			"phase": "Failed", "message": "one or more synchronization tasks are not valid",
			"syncResult": map[string]any{"revision": s.Commit, "resources": []any{
				map[string]any{"kind": "ConfigMap", "namespace": "kube-system", "name": "x", "status": "SyncFailed", "message": "namespace kube-system is not permitted in project"},
			}},
		}
		report(ctx, app, status)
		s = f.publish(ctx, p)
		Expect(s.Problem.Reason).To(Equal(kubenestv1.ReasonSyncFailed))
		Expect(s.Problem.Message).To(ContainSubstring("ConfigMap kube-system/x: namespace kube-system is not permitted"))

		By("one of an older commit is old news")
		Expect(unstructured.SetNestedField(status, strings.Repeat("a", 40), "operationState", "syncResult", "revision")).To(Succeed())
		report(ctx, application(ctx, p), status)
		Expect(f.publish(ctx, p).Problem).NotTo(HaveOccurred())

		By("a repository that Argo CD can not read, with what to do")
		report(ctx, application(ctx, p), map[string]any{"conditions": []any{
			map[string]any{"type": "ComparisonError", "message": "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		}})
		Expect(f.publish(ctx, p).Problem.Message).To(And(ContainSubstring("unknown authority"), ContainSubstring("argocd cert add-tls")))
	})

	It("makes its StackDeploy due, and not each time that it looks", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"))
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		watching, stop := context.WithCancel(ctx)
		defer stop()
		defer queue.ShutDown()
		Expect(gitops.Applications(config, api.RESTMapper(), "argocd", "kubenest-system").Start(watching, queue)).To(Succeed())
		s := f.publish(ctx, p)
		due := func() bool {
			for queue.Len() > 0 {
				request, _ := queue.Get()
				queue.Done(request)
				if request.NamespacedName == p.Stack {
					return true
				}
			}
			return false
		}
		Eventually(due).Should(BeTrue())
		app := application(ctx, p)
		status := compared(app, s.Commit, "Synced", "Healthy")
		report(ctx, app, status)
		Eventually(due).Should(BeTrue())
		status["reconciledAt"] = "2026-01-01T00:00:00Z"
		report(ctx, application(ctx, p), status)
		Consistently(due).WithTimeout(time.Second).Should(BeFalse())
		Expect(api.Delete(ctx, application(ctx, p))).To(Succeed())
		Eventually(due).Should(BeTrue())
	})
})

var _ = Describe("A removal", func() {
	It("waits for Argo CD, then takes the folder, and the project with the last Application", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		web, worker := f.publication("web", configMap("a", "1")), f.publication("worker", configMap("b", "1"))
		f.publish(ctx, web)
		f.publish(ctx, worker)
		app := application(ctx, web)
		project, _, _ := unstructured.NestedString(app.Object, "spec", "project")
		status := compared(app, "", "Synced", "Healthy")
		status["resources"] = []any{map[string]any{"kind": "ConfigMap", "namespace": f.namespace, "name": "a"}}
		report(ctx, app, status)

		for range 2 {
			waiting, err := f.publisher.Remove(ctx, web)
			Expect(err).NotTo(HaveOccurred())
			Expect(waiting).To(ConsistOf(ContainSubstring("Application argocd/"+app.GetName()), "ConfigMap "+f.namespace+"/a"))
		}
		app = application(ctx, web)
		Expect(app.GetFinalizers()).To(ConsistOf("resources-finalizer.argocd.argoproj.io"))
		Expect(f.files(ctx, "main")).To(HaveLen(4), "the folder stays until Argo CD is done")
		app.SetFinalizers(nil) // as Argo CD does
		Expect(api.Update(ctx, app)).To(Succeed())
		Expect(f.publisher.Remove(ctx, web)).To(BeEmpty())
		Expect(f.log(ctx, "main")[0]).To(Equal("team/web: removed"))
		Expect(f.files(ctx, "main")).To(HaveLen(2))
		limits := argo("AppProject", project)
		Expect(api.Get(ctx, client.ObjectKeyFromObject(limits), limits)).To(Succeed(), "worker needs it")

		By("again: nothing to do, and nothing committed")
		Expect(f.publisher.Remove(ctx, web)).To(BeEmpty())
		Expect(f.log(ctx, "main")).To(HaveLen(3))

		By("letting the last one go without what it made")
		Expect(f.publisher.Release(ctx, worker)).NotTo(BeEmpty())
		Expect(application(ctx, worker)).To(BeNil(), "nothing holds it")
		Expect(f.publisher.Release(ctx, worker)).To(BeEmpty())
		Expect(f.files(ctx, "main")).To(BeEmpty())
		Expect(apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(limits), limits))).To(BeTrue())
		Expect(apierrors.IsNotFound(api.Get(ctx, client.ObjectKey{Namespace: "argocd", Name: project}, &corev1.Secret{}))).To(BeTrue())
		Expect(f.left).To(BeEmpty())
	})

	It("ends when Argo CD or the repository is gone, and says what stays", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{RemovalWait: time.Nanosecond})
		p := f.publication("web", configMap("a", "1"))
		f.publish(ctx, p)
		Expect(f.publisher.Remove(ctx, p)).NotTo(BeEmpty())
		p.GitOps.RepoURL = server.URL("gone.git")
		Eventually(func() ([]string, error) { return f.publisher.Remove(ctx, p) }).Should(BeEmpty())
		Expect(application(ctx, p)).To(BeNil())
		Expect(f.left).To(ConsistOf(ContainSubstring("Argo CD did not remove Application"), ContainSubstring("stays on branch main")))
	})

	It("ends on a cluster that knows nothing of Argo CD any more", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"))
		f.publish(ctx, p)
		f.publisher = gitops.New(bare{api}, gitops.Options{})
		Expect(f.publisher.Remove(ctx, p)).To(BeEmpty())
		Expect(f.files(ctx, "main")).To(BeEmpty())
	})
})
