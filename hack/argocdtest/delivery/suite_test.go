// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/argocdtest"
	"github.com/kubenest/kubenest/hack/environment"
	"github.com/kubenest/kubenest/hack/ports"
	"github.com/kubenest/kubenest/hack/process"
	"github.com/kubenest/kubenest/operator/gitops/gittest"
)

const (
	// repository that the cluster's App are committed to, on branch main.
	repository = "fleet.git"
	// folder of the cluster in it.
	folder = "clusters/dev"
	// deployed is how long a rollout may take on a machine that is busy.
	deployed = 2 * time.Minute
)

var (
	env *environment.Environment
	dev *environment.Workload
	git *gittest.Server
)

func TestDelivery(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	RunSpecs(t, "direct and argocd")
}

func built(variable, folder string) string {
	GinkgoHelper()
	dir := os.Getenv(variable)
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "bin", folder)
	}
	dir, err := filepath.Abs(dir)
	Expect(err).NotTo(HaveOccurred())
	Expect(dir).To(BeADirectory(), "run 'make control-plane build argocd' first")
	return dir
}

var _ = BeforeSuite(func(ctx SpecContext) {
	logf.SetLogger(logr.Discard())
	dir := GinkgoT().TempDir()
	var err error
	env, err = environment.Start(ctx, environment.Options{
		Dir: filepath.Join(dir, "environment"), Programs: built("KUBENEST_PROGRAMS", ""), Assets: built("KUBEBUILDER_ASSETS", "k8s"),
		Config: filepath.Join("..", "..", "..", "config"), Clusters: environment.DefaultClusters(1), Out: GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { env.Stop(ctx) }, NodeTimeout(time.Minute))
	dev = env.Cluster("dev")

	repositories := filepath.Join(dir, "repositories")
	Expect(os.Mkdir(repositories, 0o700)).To(Succeed())
	git, err = gittest.New(repositories)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(git.Close)
	Expect(git.Create(ctx, repository)).To(Succeed())
	startArgoCD(ctx, filepath.Join(dir, "argocd"))
	useRepository(ctx)
}, NodeTimeout(6*time.Minute))

// startArgoCD runs it beside the cluster, and gives the operator the rights that go
// with it.
func startArgoCD(ctx context.Context, dir string) {
	GinkgoHelper()
	Expect(os.Mkdir(dir, 0o700)).To(Succeed())
	book, err := ports.Open(filepath.Join(dir, "ports.json"))
	Expect(err).NotTo(HaveOccurred())
	group := process.NewGroup(nil)
	DeferCleanup(group.Stop)
	argocd, err := argocdtest.Start(ctx, argocdtest.Options{
		Cluster: dev.Cluster, Dir: dir, LogDir: filepath.Join(dir, "logs"), Assets: built("KUBENEST_ARGOCD", "argocd"),
		Trust: map[string][]byte{"127.0.0.1": git.CA}, KnownHosts: git.KnownHosts, Ports: book, Group: group,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		for _, p := range []*process.Process{env.Hub().Process(), dev.Operator().Process, argocd.Controller, argocd.RepoServer} {
			AddReportEntry(p.Name(), p.Tail(30), ReportEntryVisibilityFailureOrVerbose)
		}
	})
	_, err = dev.Kubectl(ctx, "", "apply", "-k", filepath.Join("..", "..", "..", "config", "rbac", "operator", "argocd"))
	Expect(err).NotTo(HaveOccurred())
}

// useRepository has the cluster's record say where its Apps are committed.
func useRepository(ctx context.Context) {
	GinkgoHelper()
	Expect(env.Client().Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: environment.Organization, Name: "fleet"},
		Type:       kubenestv1.SecretTypeGitCredential, Data: git.Credential(),
	})).To(Succeed())
	record, err := dev.Record(ctx)
	Expect(err).NotTo(HaveOccurred())
	patch := client.MergeFrom(record.DeepCopy())
	record.Spec.GitOps = &kubenestv1.GitOps{
		RepoURL: git.URL(repository), Branch: "main", Path: folder, SecretRef: &kubenestv1.LocalReference{Name: "fleet"},
	}
	Expect(env.Client().Patch(ctx, record, patch)).To(Succeed())
}
