// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubenest/kubenest/api/socket"
	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hack/cluster"
	"github.com/kubenest/kubenest/hack/ports"
	"github.com/kubenest/kubenest/hack/process"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
	podlogs "github.com/kubenest/kubenest/operator/logs"
	"github.com/kubenest/kubenest/operator/streams"
)

const (
	namespace = "shop"
	clusterID = agenttest.ClusterID
)

var timing = wire.Timing{Heartbeat: time.Second, DeadAfter: 10 * time.Second}

// fixture is a cluster with an operator, and a hub.
type fixture struct {
	Gomega
	t        *testing.T
	dir      string // of the logs
	began    time.Time
	cluster  *cluster.Cluster
	client   client.Client
	registry *session.Registry
	metrics  *prometheus.Registry
}

// of is the same for another test.
func (f *fixture) of(t *testing.T) *fixture {
	t.Helper()
	g := *f
	g.t, g.Gomega = t, NewWithT(t)
	return &g
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		Gomega: NewWithT(t), t: t, dir: t.TempDir(), metrics: prometheus.NewRegistry(),
		began: time.Now().UTC().Truncate(time.Second).Add(-time.Minute),
	}
	f.startCluster()
	f.makeProject()
	f.startHub()
	return f
}

func (f *fixture) startCluster() {
	dir := f.t.TempDir()
	book, err := ports.Open(filepath.Join(dir, "ports.json"))
	f.Expect(err).NotTo(HaveOccurred())
	group := process.NewGroup(nil)
	f.t.Cleanup(func() { group.Stop(withoutCancel(f.t)) })
	f.cluster, err = cluster.New(cluster.Options{
		Name: "logs", Dir: dir, LogDir: filepath.Join(dir, "logs"), Assets: assets(f.t), Kubeconfig: filepath.Join(dir, "kubeconfig"),
		Env: []string{"HOME=" + dir}, Workloads: true, Ports: book, Group: group, KwokConfig: []string{f.kwokConfig()},
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.cluster.Start(f.t.Context())).To(Succeed())
	config, err := f.cluster.RESTConfig()
	f.Expect(err).NotTo(HaveOccurred())
	f.client, err = client.New(config, client.Options{})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(cluster.AddNode(f.t.Context(), f.client, "node-1", "here")).To(Succeed())
}

// kwokConfig gives each pod a log.
func (f *fixture) kwokConfig() string {
	previous := filepath.Join(f.dir, "previous.log")
	line := f.began.Add(-time.Hour).Format("2006-01-02T15:04:05.000000000Z07:00") + " stdout F before\n"
	f.Expect(os.WriteFile(previous, []byte(line), 0o600)).To(Succeed())
	text := ""
	for _, pod := range []string{"web-1", "web-2", "web-3"} {
		text += fmt.Sprintf("---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: Logs\nmetadata: {name: %s, namespace: %s}\n"+
			"spec: {logs: [{containers: [app], logsFile: %q, previousLogsFile: %q, follow: true}]}\n", pod, namespace, f.file(pod), previous)
	}
	path := filepath.Join(f.dir, "kwok.yaml")
	f.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return path
}

// makeProject makes what an operator makes for a Project.
func (f *fixture) makeProject() {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: kubenestv1.ProjectServiceAccount}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{kubenestv1.ProjectLabel: "shop"},
			Annotations: map[string]string{kubenestv1.OwnerAnnotation: clusterID + "/acme/project-shop"},
		}},
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: meta.Name}},
		},
	} {
		f.Expect(f.client.Create(f.t.Context(), o)).To(Succeed())
	}
}

// startHub starts a hub and the cluster's operator.
func (f *fixture) startHub() {
	authority := &sessiontest.Authority{OnAuthenticate: func(context.Context, string) (session.Identity, error) {
		return session.Identity{ClusterID: clusterID, Generation: 1}, nil
	}}
	server, err := session.New(session.Options{Authority: authority, Timing: timing, Metrics: f.metrics, Logger: logr.Discard()})
	f.Expect(err).NotTo(HaveOccurred())
	f.registry = server.Registry()
	mux := http.NewServeMux()
	mux.Handle(wire.Path, server)
	hub := httptest.NewUnstartedServer(mux)
	hub.Config.ErrorLog = log.New(io.Discard, "", 0)
	hub.StartTLS()
	f.t.Cleanup(func() {
		_ = server.Close(withoutCancel(f.t))
		hub.Close()
	})

	config, err := f.cluster.RESTConfig()
	f.Expect(err).NotTo(HaveOccurred())
	served, err := podlogs.New(config, logr.Discard())
	f.Expect(err).NotTo(HaveOccurred())
	kinds := streams.NewMux(logr.Discard(), map[string]streams.Handler{wire.StreamLogs: served})
	operator, err := agent.New(agent.Options{
		Credentials: credentials.NewMemory(credentials.Given{
			HubURL: hub.URL, Token: agenttest.Token(f.t, agenttest.Claims{Generation: 1}),
			CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hub.Certificate().Raw})),
		}),
		ClusterUID: "kube-system-uid", Metrics: agent.NewMetrics(f.metrics), Log: logr.Discard(),
		Streams: func(ctx context.Context, s *socket.Stream) { kinds.Serve(ctx, s) },
	})
	f.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(withoutCancel(f.t))
	done := make(chan error, 1)
	go func() { done <- operator.Run(ctx) }()
	f.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			f.t.Errorf("run operator: %v", err)
		}
	})
	f.Eventually(f.registry.Len).WithTimeout(time.Minute).Should(Equal(1))
}

// pod runs one, and waits until it does.
func (f *fixture) pod(name string) {
	f.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			kubenestv1.AppLabel: "shop", kubenestv1.ComponentLabel: "web",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/app:1"}}},
	}
	f.Eventually(func() error { return f.client.Create(f.t.Context(), pod) }).WithTimeout(time.Minute).Should(Succeed())
	f.Eventually(func() (corev1.PodPhase, error) {
		err := f.client.Get(f.t.Context(), client.ObjectKeyFromObject(pod), pod)
		return pod.Status.Phase, err
	}).WithTimeout(time.Minute).Should(Equal(corev1.PodRunning))
}

func (f *fixture) delete(name string) {
	f.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	f.Expect(f.client.Delete(f.t.Context(), pod)).To(Succeed())
}

// gauge is a metric's value.
func (f *fixture) gauge(name string) float64 {
	families, err := f.metrics.Gather()
	f.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
