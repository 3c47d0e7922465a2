// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// What the suite sets up once.
var (
	restConfig *rest.Config
	admin      client.WithWatch
	kubeconfig string
	scheme     = runtime.NewScheme()
)

// organization is a namespace in which the users hold the ready-made roles.
const organization = "platform"

func TestConfig(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not say where a kube-apiserver is")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Config")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	Expect(kubenestv1.AddToScheme(scheme)).To(Succeed())
	environment := &envtest.Environment{}
	var err error
	restConfig, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	admin = clientAs("")
	user, err := environment.AddUser(envtest.User{Name: "root", Groups: []string{"system:masters"}}, nil)
	Expect(err).NotTo(HaveOccurred())
	data, err := user.KubeConfig()
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, data, 0o600)).To(Succeed())

	for _, folder := range []string{"default", "rbac/operator"} {
		out, err := kubectl(ctx, "apply", "--server-side", "-k", folder)
		Expect(err).NotTo(HaveOccurred(), out)
	}
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: organization, Labels: map[string]string{kubenestv1.OrganizationLabel: "true"},
	}})).To(Succeed())
	for _, role := range []string{"admin", "member", "viewer"} {
		Expect(admin.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: organization, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kubenest-organization-" + role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
		})).To(Succeed())
	}
})

// clientAs makes a client of a user with no rights but those bound to its name.
func clientAs(user string) client.WithWatch {
	GinkgoHelper()
	own := rest.CopyConfig(restConfig)
	own.QPS = -1
	if user != "" {
		own.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	c, err := client.NewWithWatch(own, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// kubectl runs it as a cluster administrator, in this folder.
func kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"),
		append([]string{"--kubeconfig", kubeconfig}, args...)...)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
