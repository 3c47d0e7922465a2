// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubenest/kubenest/hack/cluster"
	"github.com/kubenest/kubenest/hack/ports"
	"github.com/kubenest/kubenest/hack/process"
)

func TestKilledClusterKeepsItsStateAndAddress(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	dir := filepath.Join(t.TempDir(), `it's "a place", ærlig`)
	g.Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	book, err := ports.Open(filepath.Join(dir, "ports.json"))
	g.Expect(err).NotTo(HaveOccurred())
	group := process.NewGroup(nil)
	defer func() { group.Stop(context.Background()) }()
	c, err := cluster.New(cluster.Options{
		Name: "test", Dir: dir, LogDir: filepath.Join(dir, "logs"), Assets: assets(t),
		Kubeconfig: filepath.Join(dir, "test.kubeconfig"),
		Env:        []string{"HOME=" + dir}, Workloads: true, Ports: book, Group: group,
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Start(ctx)).To(Succeed())

	config, err := c.RESTConfig()
	g.Expect(err).NotTo(HaveOccurred())
	api, err := client.New(config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cluster.AddNode(ctx, api, "node-1", "here")).To(Succeed())
	web := deployment()
	g.Expect(api.Create(ctx, web)).To(Succeed())
	ready := func() (int32, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(web), web)
		return web.Status.ReadyReplicas, err
	}
	g.Eventually(ready).WithTimeout(time.Minute).WithPolling(200 * time.Millisecond).Should(Equal(int32(2)))

	url := c.URL()
	for _, p := range []*process.Process{c.Etcd(), c.APIServer()} {
		starts := p.Starts()
		p.Kill()
		g.Eventually(p.Starts).WithTimeout(10 * time.Second).Should(Equal(starts + 1))
		g.Expect(c.APIServer().AwaitReady(ctx)).To(Succeed())
	}
	g.Eventually(ready).WithTimeout(time.Minute).WithPolling(200 * time.Millisecond).Should(Equal(int32(2)))
	g.Expect(c.URL()).To(Equal(url))

	start := time.Now()
	group.Stop(ctx)
	t.Logf("stopped in %v", time.Since(start))
	for _, p := range group.Processes() {
		g.Expect(p.PID()).To(BeZero(), p.Name())
	}
}

func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
}

func assets(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin", "k8s")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
		t.Fatalf("%s has no kube-apiserver: run 'make control-plane' first", dir)
	}
	return dir
}
