// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package argocdtest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/argocdtest"
	"github.com/kubenest/kubenest/hack/cluster"
	"github.com/kubenest/kubenest/hack/ports"
	"github.com/kubenest/kubenest/hack/process"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/gitops"
	"github.com/kubenest/kubenest/operator/gitops/gittest"
	"github.com/kubenest/kubenest/operator/stack"
)

func TestArgoCD(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(3 * time.Minute)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	RunSpecs(t, "Argo CD")
}

const clusterID = "11111111-2222-3333-4444-555555555555"

var (
	api       client.Client
	server    *gittest.Server
	publisher *gitops.Publisher
)

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	book, err := ports.Open(filepath.Join(dir, "ports.json"))
	Expect(err).NotTo(HaveOccurred())
	group := process.NewGroup(nil)
	DeferCleanup(group.Stop)
	c, err := cluster.New(cluster.Options{
		Name: "test", Dir: dir, LogDir: filepath.Join(dir, "logs"), Assets: assets("KUBEBUILDER_ASSETS", "k8s"),
		Kubeconfig: filepath.Join(dir, "test.kubeconfig"),
		Env:        []string{"HOME=" + dir}, Workloads: true, Ports: book, Group: group,
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(c.Start(ctx)).To(Succeed())
	config, err := c.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	api, err = client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.AddNode(ctx, api, "node-1", "here")).To(Succeed())

	repositories := filepath.Join(dir, "repositories")
	Expect(os.Mkdir(repositories, 0o700)).To(Succeed())
	server, err = gittest.New(repositories)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	argocd, err := argocdtest.Start(ctx, argocdtest.Options{
		Cluster: c, Dir: filepath.Join(dir, "argocd"), LogDir: filepath.Join(dir, "logs"), Assets: assets("KUBENEST_ARGOCD", "argocd"),
		Trust: map[string][]byte{"127.0.0.1": server.CA}, KnownHosts: server.KnownHosts, Ports: book, Group: group,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		AddReportEntry("controller", argocd.Controller.Tail(40), ReportEntryVisibilityFailureOrVerbose)
		AddReportEntry("repo server", argocd.RepoServer.Tail(40), ReportEntryVisibilityFailureOrVerbose)
	})
	publisher = gitops.New(api, gitops.Options{Fresh: time.Second})
}, NodeTimeout(5*time.Minute))

func assets(variable, folder string) string {
	GinkgoHelper()
	dir := os.Getenv(variable)
	if dir == "" {
		dir = filepath.Join("..", "..", "bin", folder)
	}
	dir, err := filepath.Abs(dir)
	Expect(err).NotTo(HaveOccurred())
	Expect(dir).To(BeADirectory(), "run 'make control-plane argocd' first")
	return dir
}

// project is a Project's namespace, and a repository for it.
type project struct{ name, repository string }

var projects int

func newProject(ctx context.Context) *project {
	GinkgoHelper()
	projects++
	p := &project{name: fmt.Sprintf("shop-%d", projects), repository: fmt.Sprintf("r%d.git", projects)}
	Expect(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.name}})).To(Succeed())
	Expect(server.Create(ctx, p.repository)).To(Succeed())
	return p
}

func (p *project) publication(app string, generation int64, objects ...any) *delivery.Publication {
	GinkgoHelper()
	source := kubenestv1.StackSource{Namespace: "team", Name: kubenestv1.StackName("app", app, clusterID), Generation: generation}
	pub := &delivery.Publication{
		Stack: types.NamespacedName{Namespace: "kubenest-system", Name: kubenestv1.LocalName(&source)},
		Target: stack.Target{
			Owner: kubenestv1.Owner(clusterID, &source), Namespace: p.name, App: app,
			Project: kubenestv1.ProjectKey{Namespace: "team", Name: p.name},
		},
		Source:     source,
		GitOps:     kubenestv1.GitOps{RepoURL: server.URL(p.repository), Branch: "main", Path: "clusters/test"},
		Credential: server.Credential(),
	}
	for _, o := range objects {
		content, err := yaml.Marshal(o)
		Expect(err).NotTo(HaveOccurred())
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(content, &object.Object)).To(Succeed())
		object.SetNamespace(p.name)
		pub.Target.Mark(object, "web")
		pub.Objects = append(pub.Objects, object)
	}
	return pub
}

// settled publishes until Argo CD has applied it and finds it healthy.
func settled(ctx context.Context, pub *delivery.Publication) *delivery.Sync {
	GinkgoHelper()
	var last *delivery.Sync
	Eventually(func(g Gomega) {
		s, err := publisher.Publish(ctx, pub)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.Problem).NotTo(HaveOccurred())
		g.Expect(s.Synced && s.Healthy).To(BeTrue(), s.Message)
		last = s
	}).WithContext(ctx).Should(Succeed())
	return last
}

func folder(p *project, app string) string { return "clusters/test/team/" + p.name + "/" + app + "/" }

func deployment(image string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas), Selector: &metav1.LabelSelector{MatchLabels: labels},
			ProgressDeadlineSeconds: new(int32(1)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
			},
		},
	}
}

func service() *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Data: map[string]string{"value": value},
	}
}

func absent(ctx context.Context, o client.Object) func() bool {
	return func() bool { return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(o), o)) }
}

var _ = Describe("An App delivered by Argo CD", func() {
	It("lives as it is committed, is pruned, healed, and removed", func(ctx SpecContext) {
		p := newProject(ctx)
		pub := p.publication("web", 1, deployment("web:1", 2), service(), configMap("settings", "1"))
		began := time.Now()
		settled(ctx, pub)
		AddReportEntry("published and healthy after", time.Since(began).String())
		live := &appsv1.Deployment{}
		key := client.ObjectKey{Namespace: p.name, Name: "web"}
		Expect(api.Get(ctx, key, live)).To(Succeed())
		Expect(live.Status.ReadyReplicas).To(Equal(int32(2)))
		Expect(live.Annotations).To(HaveKeyWithValue(kubenestv1.OwnerAnnotation, pub.Target.Owner))
		Expect(live.Labels).To(HaveKeyWithValue(kubenestv1.ComponentLabel, "web"))
		objects, err := argocdtest.Objects(ctx, api, p.name, kubenestv1.AppLabel)
		Expect(err).NotTo(HaveOccurred())
		Expect(objects).To(And(HaveLen(3), HaveKey("Deployment/web"), HaveKey("Service/web"), HaveKey("ConfigMap/settings")))

		By("a change: one commit, and what is gone is pruned")
		pub = p.publication("web", 2, deployment("web:2", 2), service())
		settled(ctx, pub)
		Expect(server.Log(ctx, p.repository, "main")).To(Equal([]string{"team/web: generation 2", "team/web: generation 1"}))
		Expect(api.Get(ctx, key, live)).To(Succeed())
		Expect(live.Spec.Template.Spec.Containers[0].Image).To(Equal("web:2"))
		Expect(absent(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "settings"}})()).To(BeTrue())

		By("somebody edits what is live: it is put right")
		live.Spec.Template.Spec.Containers[0].Image = "web:wrong"
		Expect(api.Update(ctx, live)).To(Succeed())
		Eventually(func() (string, error) {
			err := api.Get(ctx, key, live)
			return live.Spec.Template.Spec.Containers[0].Image, err
		}).Should(Equal("web:2"))

		By("removal takes everything")
		waited := false
		Eventually(func() ([]string, error) {
			waiting, err := publisher.Remove(ctx, pub)
			waited = waited || len(waiting) > 0
			return waiting, err
		}).Should(BeEmpty())
		Expect(waited).To(BeTrue())
		Expect(absent(ctx, live)()).To(BeTrue())
		Expect(server.Files(ctx, p.repository, "main")).To(BeEmpty())
		applications := &unstructured.UnstructuredList{}
		applications.SetAPIVersion("argoproj.io/v1alpha1")
		applications.SetKind("ApplicationList")
		Expect(api.List(ctx, applications)).To(Succeed())
		Expect(applications.Items).To(BeEmpty())
	}, SpecTimeout(6*time.Minute))

	It("survives another who pushes, and an operator that starts anew", func(ctx SpecContext) {
		p := newProject(ctx)
		settled(ctx, p.publication("web", 1, configMap("settings", "1")))
		server.Before(func(service string) {
			if service == "git-receive-pack" {
				server.Before(nil)
				_ = server.Commit(ctx, p.repository, "main", "README.md", "faster")
			}
		})
		pub := p.publication("web", 2, configMap("settings", "2"))
		settled(ctx, pub)
		Expect(server.Log(ctx, p.repository, "main")).To(HaveLen(3))
		Expect(server.Commit(ctx, p.repository, "main", "README.md", "once more")).To(Succeed())
		publisher = gitops.New(api, gitops.Options{Fresh: time.Second})
		settled(ctx, pub)
		Expect(server.Log(ctx, p.repository, "main")).To(HaveLen(4))
	}, SpecTimeout(5*time.Minute))

	It("is said to be unwell when it is", func(ctx SpecContext) {
		p := newProject(ctx)
		sick := deployment("web:1", 1)
		sick.Spec.Template.Spec.NodeSelector = map[string]string{"no": "such-node"}
		pub := p.publication("web", 1, sick)
		Eventually(func(g Gomega) {
			s, err := publisher.Publish(ctx, pub)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Synced).To(BeTrue(), s.Message)
			g.Expect(s.Healthy).To(BeFalse())
			g.Expect(s.Message).To(ContainSubstring("Deployment web is degraded"))
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(5*time.Minute))

	DescribeTable("is held in its namespace, whoever writes to the repository", func(ctx SpecContext, file, content, complaint string, never client.Object) {
		p := newProject(ctx)
		pub := p.publication("web", 1, configMap("settings", "1"))
		settled(ctx, pub)
		Expect(server.Commit(ctx, p.repository, "main", folder(p, "web")+file, content)).To(Succeed())
		application := refreshed(ctx, p)
		Eventually(func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(application), application)).To(Succeed())
			status, err := yaml.Marshal(application.Object["status"])
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(status)).To(ContainSubstring(complaint))
		}).WithContext(ctx).Should(Succeed())
		Expect(absent(ctx, never)()).To(BeTrue())

		By("the next look of the operator takes it out of the repository")
		settled(ctx, pub)
		Expect(server.Files(ctx, p.repository, "main")).To(HaveLen(2))
		Expect(absent(ctx, never)()).To(BeTrue())
	},
		Entry("another namespace", "evil.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: evil, namespace: kube-system}\n",
			"is not permitted in project", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "evil"}}, SpecTimeout(5*time.Minute)),
		Entry("a kind that belongs to the cluster", "evil.yaml", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: evil}\nrules: []\n",
			"is not permitted in project", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "evil"}}, SpecTimeout(5*time.Minute)),
	)

	It("is reached by ssh", func(ctx SpecContext) {
		p := newProject(ctx)
		pub := p.publication("web", 1, configMap("settings", "1"))
		pub.GitOps.RepoURL, pub.Credential = server.SSHURL(p.repository), server.SSHCredential()
		settled(ctx, pub)
	}, SpecTimeout(5*time.Minute))

	It("is one of 20 that come at once", func(ctx SpecContext) {
		p := newProject(ctx)
		var group sync.WaitGroup
		began := time.Now()
		for i := range 20 {
			group.Go(func() {
				defer GinkgoRecover()
				name := fmt.Sprintf("app-%02d", i)
				settled(ctx, p.publication(name, 1, configMap(name, "1")))
			})
		}
		group.Wait()
		AddReportEntry("20 Apps published and healthy after", time.Since(began).String())
		Expect(server.Log(ctx, p.repository, "main")).To(HaveLen(20))
		list := &corev1.ConfigMapList{}
		Expect(api.List(ctx, list, client.InNamespace(p.name), client.HasLabels{kubenestv1.AppLabel})).To(Succeed())
		Expect(list.Items).To(HaveLen(20))
	}, SpecTimeout(6*time.Minute))
})

// refreshed is a project's Application, which Argo CD is told to look at.
func refreshed(ctx context.Context, p *project) *unstructured.Unstructured {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("argoproj.io/v1alpha1")
	list.SetKind("ApplicationList")
	Expect(api.List(ctx, list, client.InNamespace(argocdtest.Namespace))).To(Succeed())
	for i := range list.Items {
		if namespace, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "destination", "namespace"); namespace != p.name {
			continue
		}
		patch := []byte(`{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`)
		Expect(api.Patch(ctx, &list.Items[i], client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		return &list.Items[i]
	}
	Fail("no Application in " + p.name)
	return nil
}
