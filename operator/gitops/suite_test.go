// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/gitops"
	"github.com/kubenest/kubenest/operator/gitops/gittest"
	"github.com/kubenest/kubenest/operator/stack"
)

func TestGitOps(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, "GitOps")
}

const clusterID = "11111111-2222-3333-4444-555555555555"

var (
	config *rest.Config
	api    client.Client
	server *gittest.Server
)

var _ = BeforeSuite(func(ctx SpecContext) {
	env := &envtest.Environment{CRDs: []*apiextensionsv1.CustomResourceDefinition{
		argoCRD("Application", "applications"), argoCRD("AppProject", "appprojects"),
	}}
	var err error
	config, err = env.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)
	api, err = client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	Expect(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "argocd"}})).To(Succeed())
	server, err = gittest.New(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
}, NodeTimeout(2*time.Minute))

// argoCRD is the least of a kind of Argo CD.
func argoCRD(kind, plural string) *apiextensionsv1.CustomResourceDefinition {
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".argoproj.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "argoproj.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural, Singular: strings.ToLower(kind), ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": open, "status": open},
				}},
			}},
		},
	}
}

var unique = struct {
	sync.Mutex
	n int
}{}

// fixture is a repository, and a Project that is committed to it.
type fixture struct {
	repository, namespace string
	publisher             *gitops.Publisher
	left                  []string
}

func newFixture(ctx context.Context, o gitops.Options) *fixture {
	GinkgoHelper()
	unique.Lock()
	unique.n++
	f := &fixture{repository: fmt.Sprintf("r%d.git", unique.n), namespace: fmt.Sprintf("shop-%d", unique.n)}
	unique.Unlock()
	Expect(server.Create(ctx, f.repository)).To(Succeed())
	o.Left = func(_ *delivery.Publication, what string) { f.left = append(f.left, what) }
	f.publisher = gitops.New(api, o)
	return f
}

func (f *fixture) publication(app string, objects ...*unstructured.Unstructured) *delivery.Publication {
	source := kubenestv1.StackSource{Namespace: "team", Name: kubenestv1.StackName("app", app, clusterID), Generation: 1}
	target := stack.Target{
		Owner: kubenestv1.Owner(clusterID, &source), Namespace: f.namespace, App: app,
		Project: kubenestv1.ProjectKey{Namespace: "team", Name: f.namespace},
	}
	for _, o := range objects {
		o.SetNamespace(f.namespace)
		target.Mark(o, "web")
	}
	return &delivery.Publication{
		Stack: types.NamespacedName{Namespace: "kubenest-system", Name: kubenestv1.LocalName(&source)}, Target: target, Source: source,
		GitOps:     kubenestv1.GitOps{RepoURL: server.URL(f.repository), Branch: "main", Path: "clusters/prod"},
		Credential: server.Credential(), Objects: objects,
	}
}

func (f *fixture) publish(ctx context.Context, p *delivery.Publication) *delivery.Sync {
	GinkgoHelper()
	s, err := f.publisher.Publish(ctx, p)
	Expect(err).NotTo(HaveOccurred())
	return s
}

func (f *fixture) log(ctx context.Context, branch string) []string {
	GinkgoHelper()
	log, err := server.Log(ctx, f.repository, branch)
	Expect(err).NotTo(HaveOccurred())
	return log
}

func (f *fixture) files(ctx context.Context, branch string) []string {
	GinkgoHelper()
	files, err := server.Files(ctx, f.repository, branch)
	Expect(err).NotTo(HaveOccurred())
	return files
}

func configMap(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "creationTimestamp": nil},
		"data": map[string]any{"value": value}, "status": map[string]any{"never": "committed"},
	}}
}

func argo(kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: kind})
	o.SetNamespace("argocd")
	o.SetName(name)
	return o
}

// application of a publication, found by the StackDeploy that it names.
func application(ctx context.Context, p *delivery.Publication) *unstructured.Unstructured {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(argo("Application", "").GroupVersionKind())
	Expect(api.List(ctx, list, client.InNamespace("argocd"))).To(Succeed())
	for i := range list.Items {
		if list.Items[i].GetAnnotations()[kubenestv1.OwnerAnnotation] == p.Target.Owner && list.Items[i].GetAnnotations()[gitops.StackAnnotation] == p.Stack.Name &&
			destination(&list.Items[i]) == p.Target.Namespace {
			return &list.Items[i]
		}
	}
	return nil
}

func destination(o *unstructured.Unstructured) string {
	namespace, _, _ := unstructured.NestedString(o.Object, "spec", "destination", "namespace")
	return namespace
}

// report writes an Application's status as Argo CD does.
func report(ctx context.Context, o *unstructured.Unstructured, status map[string]any) {
	GinkgoHelper()
	o = o.DeepCopy()
	o.Object["status"] = status
	annotations := o.GetAnnotations()
	delete(annotations, "argocd.argoproj.io/refresh")
	o.SetAnnotations(annotations)
	Expect(api.Update(ctx, o)).To(Succeed())
}

// compared is the status of an Application at a revision.
func compared(o *unstructured.Unstructured, revision, sync, health string) map[string]any {
	source, _, _ := unstructured.NestedMap(o.Object, "spec", "source")
	return map[string]any{
		"sync":   map[string]any{"status": sync, "revision": revision, "comparedTo": map[string]any{"source": source}},
		"health": map[string]any{"status": health},
	}
}

var _ = Describe("A repository", func() {
	It("gets one commit a change, and none without one", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"), configMap("b", "1"))
		first := f.publish(ctx, p)
		Expect(first.Problem).NotTo(HaveOccurred())
		Expect(first.Synced).To(BeFalse())
		folder := "clusters/prod/team/" + f.namespace + "/web/"
		Expect(f.files(ctx, "main")).To(ConsistOf(folder+".kubenest", folder+"web-configmap-a.yaml", folder+"web-configmap-b.yaml"))
		Expect(f.log(ctx, "main")).To(Equal([]string{"team/web: generation 1"}))
		author, err := server.Git(ctx, "-C", f.repository, "log", "-1", "--format=%an %H", "main")
		Expect(err).NotTo(HaveOccurred())
		Expect(author).To(Equal("kubenest-operator " + first.Commit))
		content, err := server.Show(ctx, f.repository, "main", folder+"web-configmap-a.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(content).To(HavePrefix("apiVersion: v1\ndata:\n  value: \"1\"\nkind: ConfigMap\nmetadata:\n  annotations:\n    kubenest.io/owner: "))
		Expect(content).NotTo(Or(ContainSubstring("status"), ContainSubstring("creationTimestamp")))

		By("the same in another order, of another generation: nothing is asked and nothing committed")
		asked := server.Asked()
		p.Source.Generation = 2
		p.Objects[0], p.Objects[1] = p.Objects[1], p.Objects[0]
		Expect(f.publish(ctx, p).Commit).To(Equal(first.Commit))
		Expect(server.Asked()).To(Equal(asked))

		By("an object goes and one changes: one commit")
		p.Source.Generation = 3
		p.Objects = f.publication("web", configMap("b", "2")).Objects
		second := f.publish(ctx, p)
		Expect(second.Commit).NotTo(Equal(first.Commit))
		Expect(f.files(ctx, "main")).To(ConsistOf(folder+".kubenest", folder+"web-configmap-b.yaml"))
		Expect(f.log(ctx, "main")).To(Equal([]string{"team/web: generation 3", "team/web: generation 1"}))

		By("an operator that starts anew finds it there")
		f.publisher = gitops.New(api, gitops.Options{})
		Expect(f.publish(ctx, p).Commit).To(Equal(second.Commit))
		Expect(f.log(ctx, "main")).To(HaveLen(2))
	})

	It("keeps what others put beside, and loses what they put inside", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{Fresh: time.Nanosecond})
		Expect(server.Commit(ctx, f.repository, "main", "README.md", "theirs")).To(Succeed())
		p := f.publication("web", configMap("a", "1"))
		f.publish(ctx, p)
		folder := "clusters/prod/team/" + f.namespace + "/web/"
		Expect(server.Commit(ctx, f.repository, "main", folder+"stray.yaml", "kind: ClusterRole")).To(Succeed())
		Expect(f.publish(ctx, p).Problem).NotTo(HaveOccurred())
		Expect(f.files(ctx, "main")).To(ConsistOf("README.md", folder+".kubenest", folder+"web-configmap-a.yaml"))
	})

	It("takes a new branch from the default one, and says so", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		Expect(server.Commit(ctx, f.repository, "main", "README.md", "theirs")).To(Succeed())
		p := f.publication("web", configMap("a", "1"))
		p.GitOps.Branch = "clusters/prod"
		Expect(f.publish(ctx, p).Problem).NotTo(HaveOccurred())
		Expect(f.files(ctx, "clusters/prod")).To(ContainElement("README.md"))
		Expect(f.log(ctx, "clusters/prod")).To(HaveLen(2))
		body, err := server.Git(ctx, "-C", f.repository, "log", "-1", "--format=%b", "clusters/prod")
		Expect(err).NotTo(HaveOccurred())
		Expect(body).To(ContainSubstring("Branch clusters/prod begins here, from main."))
	})

	It("is written on top of who was faster", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		Expect(server.Commit(ctx, f.repository, "main", "README.md", "theirs")).To(Succeed())
		var rival sync.Once
		server.Before(func(service string) {
			if service == "git-receive-pack" {
				rival.Do(func() { _ = server.Commit(ctx, f.repository, "main", "rival", "faster") })
			}
		})
		defer server.Before(nil)
		s := f.publish(ctx, f.publication("web", configMap("a", "1")))
		Expect(s.Problem).NotTo(HaveOccurred())
		Expect(f.log(ctx, "main")).To(Equal([]string{"team/web: generation 1", "somebody's rival", "somebody's README.md"}))
	})

	It("does not try for ever against somebody who always is faster", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		n := 0
		server.Before(func(service string) {
			if service == "git-receive-pack" {
				n++
				_ = server.Commit(ctx, f.repository, "main", fmt.Sprintf("rival-%d", n), "faster")
			}
		})
		defer server.Before(nil)
		s := f.publish(ctx, f.publication("web", configMap("a", "1")))
		Expect(s.Problem).To(HaveOccurred())
		Expect(s.Problem.Waiting).To(BeTrue())
		Expect(s.Problem.Message).To(ContainSubstring("somebody else pushed to branch main"))
		Expect(n).To(Equal(8))
	}, SpecTimeout(time.Minute))

	It("takes 20 Apps at once", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		var group sync.WaitGroup
		failed := make(chan error, 20)
		for i := range 20 {
			group.Go(func() {
				s, err := f.publisher.Publish(ctx, f.publication(fmt.Sprintf("app-%d", i), configMap(fmt.Sprintf("c-%d", i), "1")))
				if err == nil && s.Problem != nil {
					err = s.Problem
				}
				failed <- err
			})
		}
		group.Wait()
		close(failed)
		for err := range failed {
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(f.log(ctx, "main")).To(HaveLen(20))
		Expect(f.files(ctx, "main")).To(HaveLen(40))
	}, SpecTimeout(time.Minute))

	It("is reached by ssh, with the host's key", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"))
		p.GitOps.RepoURL, p.Credential = server.SSHURL(f.repository), server.SSHCredential()
		s := f.publish(ctx, p)
		Expect(s.Problem).NotTo(HaveOccurred())
		p.Objects = f.publication("web", configMap("a", "2")).Objects
		Expect(f.publish(ctx, p).Problem).NotTo(HaveOccurred())
		Expect(f.log(ctx, "main")).To(HaveLen(2))

		By("not without it, and not with another")
		delete(p.Credential, "knownHosts")
		p.Objects = f.publication("web", configMap("a", "3")).Objects
		Expect(f.publish(ctx, p).Problem.Message).To(ContainSubstring("has no knownHosts"))
		p.Credential["knownHosts"] = []byte("other.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n")
		Expect(f.publish(ctx, p).Problem.Message).To(ContainSubstring("knownHosts of the git credential does not have"))
		Expect(f.log(ctx, "main")).To(HaveLen(2))
	})

	It("is not a place for Secrets, nor for what leaves its folder", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		secret := configMap("s", "1")
		secret.SetKind("Secret")
		Expect(f.publish(ctx, f.publication("web", secret)).Problem.Message).To(ContainSubstring("Secrets never are"))
		list := configMap("l", "1")
		list.SetKind("SecretList")
		list.Object["items"] = []any{}
		Expect(f.publish(ctx, f.publication("web", list)).Problem).To(HaveOccurred())
		for _, path := range []string{"../other", "a/../../b", "a/.git", ".GIT/hooks", "a\\..\\b"} {
			p := f.publication("web", configMap("a", "1"))
			p.GitOps.Path = path
			Expect(f.publish(ctx, p).Problem).To(HaveOccurred(), path)
		}
		Expect(f.log(ctx, "--all")).To(BeEmpty())
	})

	It("never lets its credential be seen", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"))
		p.GitOps.RepoURL = strings.Replace(p.GitOps.RepoURL, "https://", "https://kubenest:hunter2@", 1)
		said := f.publish(ctx, p).Problem.Message
		Expect(said).To(ContainSubstring("no credentials in it"))
		Expect(said).NotTo(ContainSubstring("hunter2"))

		p = f.publication("web", configMap("a", "1"))
		p.Credential["password"] = []byte("wrong-but-secret")
		s := f.publish(ctx, p)
		Expect(s.Problem.Reason).To(Equal(kubenestv1.ReasonGitFailed))
		Expect(s.Problem.Message).To(ContainSubstring("check the Secret of spec.gitops.secretRef"))
		Expect(s.Problem.Message).NotTo(ContainSubstring("wrong-but-secret"))

		By("a certificate that nobody vouches for")
		p = f.publication("web", configMap("a", "1"))
		delete(p.Credential, "caCert")
		Expect(f.publish(ctx, p).Problem.Message).To(ContainSubstring("put its authority into caCert"))
	})

	It("says what is wrong with it", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		p := f.publication("web", configMap("a", "1"))
		p.GitOps.RepoURL = server.URL("no-such.git")
		Expect(f.publish(ctx, p).Problem.Message).To(ContainSubstring("there is no such repository"))
		for _, address := range []string{"http://example.com/r.git", "file:///etc", "git://example.com/r", "relative", "https://", "ssh://-oProxyCommand=x/r"} {
			p.GitOps.RepoURL = address
			Expect(f.publish(ctx, p).Problem.Message).To(ContainSubstring("spec.gitops.repoURL"), address)
		}

		By("a branch that nobody may push to")
		Expect(os.WriteFile(filepath.Join(server.Dir, f.repository, "hooks", "update"), []byte("#!/bin/sh\nexit 1\n"), 0o700)).To(Succeed())
		p = f.publication("web", configMap("a", "1"))
		Expect(f.publish(ctx, p).Problem.Message).To(ContainSubstring("the branch is protected"))
	})

	It("is not read without bounds", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{MaxFetch: 1 << 20})
		// A tree that is large by itself, so that leaving out files does not help.
		_, err := server.Git(ctx, "-C", f.repository, "config", "uploadpack.allowFilter", "false")
		Expect(err).NotTo(HaveOccurred())
		Expect(server.Commit(ctx, f.repository, "main", "large", strings.Repeat("0123456789abcdef", 1<<17))).To(Succeed())
		Expect(f.publish(ctx, f.publication("web", configMap("a", "1"))).Problem.Message).To(ContainSubstring("too large"))
	})

	It("gives up a server that says nothing", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{Timeout: 300 * time.Millisecond})
		Expect(server.Commit(ctx, f.repository, "main", "README.md", "theirs")).To(Succeed())
		release := make(chan struct{})
		server.Before(func(string) { <-release })
		defer server.Before(nil)
		defer close(release)
		Expect(f.publish(ctx, f.publication("web", configMap("a", "1"))).Problem.Message).To(ContainSubstring("did not answer within"))
	}, SpecTimeout(20*time.Second))

	It("is not shared by two clusters in one folder", func(ctx SpecContext) {
		f := newFixture(ctx, gitops.Options{})
		f.publish(ctx, f.publication("web", configMap("a", "1")))
		p := f.publication("web", configMap("a", "2"))
		p.Target.Owner = strings.Replace(p.Target.Owner, "1111", "9999", 1)
		other := gitops.New(elsewhere{api}, gitops.Options{})
		s, err := other.Publish(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Problem.Reason).To(Equal(kubenestv1.ReasonObjectNotOurs))
		Expect(s.Problem.Message).To(ContainSubstring("choose another spec.gitops.path"))
		Expect(f.log(ctx, "main")).To(HaveLen(1))
	})
})

// elsewhere is a cluster on which nothing is there.
type elsewhere struct{ client.Client }

func (elsewhere) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: o.GetObjectKind().GroupVersionKind().Kind}, key.Name)
}
