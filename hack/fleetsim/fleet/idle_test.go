// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/environment"
	"github.com/kubenest/kubenest/hack/fleetsim/fleet"
	"github.com/kubenest/kubenest/hack/fleetsim/requests"
)

// TestMain has controller-runtime, of which the environment has a client, be quiet.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	m.Run()
}

const (
	idleClusters = 1000
	// idleApps run there, each on another cluster.
	idleApps = 100
	// idleMoving is the share whose usage moves a little at each heartbeat, which is
	// no reason to write either.
	idleMoving = 0.2
	idleFor    = 2 * time.Minute
	// quietFor is how long nothing may have been written before the fleet counts as
	// idle.
	quietFor = 10 * time.Second
)

// TestIdleFleetWritesNothing is the design's fourth rule on a real API server: a
// connected, quiet cluster causes no write to the management API. What is written
// are the Leases of the hub's replica and of its leader election, and the API
// server's own, however many clusters there are.
func TestIdleFleetWritesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	e := start(ctx, t)
	auditLog := audit(ctx, t, e)
	c := e.Client()
	config, err := e.Management().RESTConfig()
	g.Expect(err).NotTo(HaveOccurred())

	began := time.Now()
	records := &fleet.Records{Client: c, Namespace: environment.Organization, Prefix: "idle", Clusters: idleClusters}
	g.Expect(records.Register(ctx)).To(Succeed())
	all, err := records.Members(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	registering := time.Since(began)
	t.Logf("%d clusters registered in %v", len(all), registering)
	began = time.Now()
	// Connecting takes fewer writes than registering, so that at this pace it keeps up
	// on any machine; how it goes in a rush is not what this is about.
	f := run(t, fleet.Options{Members: all, Moving: idleMoving, Ramp: registering})
	_, err = f.Await(ctx, began)
	g.Expect(err).NotTo(HaveOccurred())
	stats, err := f.Stats()
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("all connected in %v: %v", time.Since(began), stats)
	began = time.Now()
	deployAll(ctx, g, c, records)
	t.Logf("%d Apps deployed in %v", idleApps, time.Since(began))
	settling, done := context.WithTimeout(ctx, 2*time.Minute)
	defer done()
	g.Expect(requests.AwaitQuiet(settling, config, quietFor)).To(Succeed())

	objects, idle := versions(ctx, g, c), time.Now()
	stats, err = f.Stats()
	g.Expect(err).NotTo(HaveOccurred())
	endings := stats.Endings
	before, err := requests.Scrape(ctx, config)
	g.Expect(err).NotTo(HaveOccurred())
	sleep(ctx, idleFor)
	after, err := requests.Scrape(ctx, config)
	g.Expect(err).NotTo(HaveOccurred())
	ended := time.Now()

	stats, err = f.Stats()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stats.Connected).To(Equal(idleClusters), "%v", stats)
	g.Expect(stats.Endings).To(Equal(endings), "no session ended")
	written := after.Since(before).Only(requests.Kind.Write)
	reads, err := audited(auditLog, idle, ended, (*auditEvent).read)
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("in %v: writes: %v; reads:\n%s", idleFor, written, strings.Join(reads, "\n"))
	others, err := audited(auditLog, idle, ended, func(e *auditEvent) bool { return !e.read() })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(written.Only(notLeases)).To(BeEmpty(), "only Leases are renewed; the audit log has:\n%s", strings.Join(others, "\n"))
	g.Expect(others).To(BeEmpty())
	g.Expect(written).To(HaveKey(HaveField("Resource", "leases")), "the hub's Lease is renewed, so writes are counted at all")
	g.Expect(versions(ctx, g, c)).To(Equal(objects), "records, Secrets and Events are the ones of before")
}

// deployAll makes a Project and its Apps, and waits until all of them run.
func deployAll(ctx context.Context, g *WithT, c client.Client, records *fleet.Records) {
	g.Expect(c.Create(ctx, &kubenestv1.Project{
		ObjectMeta: metav1.ObjectMeta{Namespace: records.Namespace, Name: "idle"},
		Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: records.Name(0)}},
	})).To(Succeed())
	for i := range idleApps {
		g.Expect(c.Create(ctx, &kubenestv1.App{
			ObjectMeta: metav1.ObjectMeta{Namespace: records.Namespace, Name: fmt.Sprintf("idle-%03d", i)},
			Spec: kubenestv1.AppSpec{
				ProjectRef: kubenestv1.LocalReference{Name: "idle"},
				Components: []kubenestv1.Component{{
					Name: "web", Type: kubenestv1.ComponentWorkload, ClusterID: records.Name(i),
					WorkloadSpec: &kubenestv1.WorkloadSpec{Image: "registry.example.com/web:1"},
				}},
			},
		})).To(Succeed())
	}
	g.Eventually(ctx, func(ctx context.Context) (running int, err error) {
		var list kubenestv1.AppList
		err = c.List(ctx, &list)
		for i := range list.Items {
			if list.Items[i].Status.Phase == kubenestv1.AppRunning {
				running++
			}
		}
		return running, err
	}).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(Equal(idleApps))
}

func notLeases(k requests.Kind) bool { return !k.Lease() }

// start runs a management cluster with a hub.
func start(ctx context.Context, t *testing.T) *environment.Environment {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(root, "bin", "k8s")
	}
	dir := t.TempDir()
	e, err := environment.Start(ctx, environment.Options{
		Dir: dir, Programs: filepath.Join(root, "bin"), Assets: assets, Config: filepath.Join(root, "config"), Out: t.Output(),
	})
	if err != nil {
		t.Fatalf("start the environment: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		if t.Failed() {
			t.Logf("the hub's log ends:\n%s", e.Hub().Process().Tail(20))
		}
		e.Stop(ctx)
	})
	return e
}

// audit has the API server write an audit log, and returns its path.
func audit(ctx context.Context, t *testing.T, e *environment.Environment) string {
	t.Helper()
	file, server := filepath.Join(e.Dir(), "audit.log"), e.Management().APIServer()
	args, err := auditArgs(filepath.Join(e.Dir(), "audit.yaml"), file)
	if err != nil {
		t.Fatalf("write audit policy: %v", err)
	}
	server.SetArgs(append(server.Args(), args...)...)
	server.Stop(ctx)
	if err := server.Start(ctx); err != nil {
		t.Fatalf("start the API server with an audit log: %v", err)
	}
	if err := e.Hub().Process().AwaitReady(ctx); err != nil {
		t.Fatalf("wait for the hub: %v", err)
	}
	return file
}

// versions are the resourceVersions of all records, Secrets and Events.
func versions(ctx context.Context, g *WithT, c client.Client) map[string]string {
	all := map[string]string{}
	for kind, list := range map[string]client.ObjectList{
		"ManagedCluster": &kubenestv1.ManagedClusterList{}, "Secret": &corev1.SecretList{}, "Event": &corev1.EventList{},
		"App": &kubenestv1.AppList{}, "StackDeploy": &kubenestv1.StackDeployList{},
	} {
		g.Expect(c.List(ctx, list)).To(Succeed())
		switch l := list.(type) {
		case *kubenestv1.ManagedClusterList:
			g.Expect(l.Items).To(HaveLen(idleClusters))
			for i := range l.Items {
				g.Expect(l.Items[i].Status.Phase).To(Equal(kubenestv1.PhaseConnected), l.Items[i].Name)
				all[kind+" "+l.Items[i].Name] = l.Items[i].ResourceVersion
			}
		case *corev1.SecretList:
			for i := range l.Items {
				all[kind+" "+l.Items[i].Namespace+"/"+l.Items[i].Name] = l.Items[i].ResourceVersion
			}
		case *kubenestv1.AppList:
			for i := range l.Items {
				all[kind+" "+l.Items[i].Namespace+"/"+l.Items[i].Name] = l.Items[i].ResourceVersion
			}
		case *kubenestv1.StackDeployList:
			g.Expect(l.Items).To(HaveLen(2*idleApps), "one of each App, and one of the Project's namespace beside it")
			for i := range l.Items {
				all[kind+" "+l.Items[i].Namespace+"/"+l.Items[i].Name] = l.Items[i].ResourceVersion
			}
		case *corev1.EventList:
			for i := range l.Items {
				all[kind+" "+l.Items[i].Namespace+"/"+l.Items[i].Name] = l.Items[i].ResourceVersion
			}
		}
	}
	return all
}

// sleep waits: idling can only be watched.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
