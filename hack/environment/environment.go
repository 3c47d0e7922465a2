// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/cluster"
	"github.com/kubenest/kubenest/hack/ports"
	"github.com/kubenest/kubenest/hack/process"
)

// Stages in which the programs of kubenest stop, before their clusters do.
const (
	stageHub = cluster.StageClients + iota
	stageOperator
)

// Environment is everything that runs.
type Environment struct {
	options  Options
	folder   *folder
	ports    *ports.Book
	group    *process.Group
	progress *progress
	listing  listing

	management *cluster.Cluster
	client     client.WithWatch
	hub        *Hub
	workloads  []*Workload
}

// Start starts an environment and waits until every cluster is connected. What
// it started is stopped again when it fails.
func Start(ctx context.Context, o Options) (*Environment, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	folder, err := openFolder(ctx, &o)
	if err != nil {
		return nil, err
	}
	e := &Environment{options: o, folder: folder, progress: newProgress(o.Out), listing: listing{path: folder.path(listingFile)}}
	e.group = process.NewGroup(e.changed)
	if err := e.start(ctx); err != nil {
		e.Stop(context.WithoutCancel(ctx))
		if folder.resumed && ctx.Err() == nil {
			err = fmt.Errorf("%w\nif the state in %s is damaged: %w", err, o.Dir, ErrReset)
		}
		return nil, err
	}
	return e, nil
}

func (e *Environment) start(ctx context.Context) error {
	how := "new"
	if e.folder.resumed {
		how = "resuming what is there"
	}
	e.progress.say("state is in %s (%s)", e.options.Dir, how)
	if err := e.prepare(ctx); err != nil {
		return err
	}
	management := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := e.startManagement(ctx); err != nil {
			return err
		}
		close(management)
		return nil
	})
	// A control plane takes a processor for some seconds; all at once, none is ready in time.
	turns := make(chan struct{}, max(2, runtime.NumCPU()))
	for _, w := range e.workloads {
		group.Go(func() error {
			turns <- struct{}{}
			err := w.startCluster(ctx)
			<-turns
			if err != nil {
				return err
			}
			select {
			case <-management:
				return w.connect(ctx)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	return group.Wait()
}

// prepare makes everything that can be made before anything runs.
func (e *Environment) prepare(ctx context.Context) error {
	var err error
	if e.ports, err = ports.Open(e.folder.path("ports.json")); err != nil {
		return fmt.Errorf("%w: %w", err, ErrReset)
	}
	if err := os.MkdirAll(e.folder.path("home"), 0o700); err != nil {
		return fmt.Errorf("make home folder: %w", err)
	}
	if e.management, err = e.newCluster("management", "hub.kubeconfig", false); err != nil {
		return err
	}
	if e.client, err = newClient(e.management); err != nil {
		return err
	}
	if e.hub, err = newHub(e); err != nil {
		return err
	}
	for _, o := range e.options.Clusters {
		w, err := newWorkload(ctx, e, o)
		if err != nil {
			return err
		}
		e.workloads = append(e.workloads, w)
	}
	return nil
}

func (e *Environment) newCluster(name, kubeconfig string, workloads bool) (*cluster.Cluster, error) {
	return cluster.New(cluster.Options{
		Name:       name,
		Dir:        e.folder.path("clusters", name),
		LogDir:     e.folder.path("logs"),
		Kubeconfig: e.folder.path(kubeconfig),
		Assets:     e.options.Assets,
		Env:        e.env(),
		Workloads:  workloads,
		Ports:      e.ports,
		Group:      e.group,
	})
}

// env is the environment of all programs. Nothing of the caller's gets in, such
// as a proxy, another kubeconfig or a home that does not exist.
func (e *Environment) env() []string {
	home := e.folder.path("home")
	return []string{
		"HOME=" + home, "KWOK_WORKDIR=" + filepath.Join(home, ".kwok"), "TMPDIR=" + os.TempDir(),
		"PATH=" + e.options.Assets + ":/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
	}
}

// startManagement starts the management cluster and the hub.
func (e *Environment) startManagement(ctx context.Context) error {
	if err := e.progress.step("management cluster: start", func() error { return e.management.Start(ctx) }); err != nil {
		return err
	}
	if err := e.PrepareManagement(ctx); err != nil {
		return err
	}
	return e.progress.step("hub: start", func() error { return e.hub.Start(ctx) })
}

// PrepareManagement makes the namespaces and rights that the hub and its user
// need. Start does it; a test does it again for a management cluster that it wiped.
func (e *Environment) PrepareManagement(ctx context.Context) error {
	if err := makeNamespace(ctx, e.client, hubNamespace, nil); err != nil {
		return err
	}
	if err := makeNamespace(ctx, e.client, Organization, map[string]string{kubenestv1.OrganizationLabel: "true"}); err != nil {
		return err
	}
	for _, rights := range []string{"hub", "organization"} {
		if _, err := e.Kubectl(ctx, "", "apply", "-k", filepath.Join(e.options.Config, "rbac", rights)); err != nil {
			return err
		}
	}
	return e.makeAdmin(ctx)
}

func makeNamespace(ctx context.Context, c client.Client, name string, labels map[string]string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	return nil
}

// Stop stops everything and releases the state folder. The end of ctx hurries
// it.
func (e *Environment) Stop(ctx context.Context) {
	e.group.Stop(ctx)
	if e.hub != nil {
		e.hub.close()
	}
	for _, w := range e.workloads {
		w.close()
	}
	e.listing.remove()
	e.progress.close()
	e.folder.close()
}

// Hub is the hub, all replicas together.
func (e *Environment) Hub() *Hub { return e.hub }

// Management is the cluster with the records.
func (e *Environment) Management() *cluster.Cluster { return e.management }

// Clusters are the workload clusters.
func (e *Environment) Clusters() []*Workload { return e.workloads }

// Cluster is a workload cluster by its name; it must be one of the options'.
func (e *Environment) Cluster(name string) *Workload {
	for _, w := range e.workloads {
		if w.Name() == name {
			return w
		}
	}
	panic("no cluster is called " + name)
}

// Processes are all programs that were started or will be.
func (e *Environment) Processes() []*process.Process { return e.group.Processes() }

// Dir is the folder of the environment.
func (e *Environment) Dir() string { return e.options.Dir }

// Client is an administrator's client of the management cluster.
func (e *Environment) Client() client.WithWatch { return e.client }

func newClient(of *cluster.Cluster) (client.WithWatch, error) {
	config, err := of.RESTConfig()
	if err != nil {
		return nil, err
	}
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), kubenestv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client of cluster %s: %w", of.Name(), err)
	}
	return c, nil
}

// changed tells of processes that died and came back.
func (e *Environment) changed(c process.Change) {
	e.listing.update(e.group.Processes())
	name := c.Process.Name()
	switch {
	case c.Died != nil:
		e.progress.say("%s died (%s), starting it again in a moment; log: %s", name,
			strings.TrimPrefix(c.Died.Error(), "signal: "), c.Process.LogFile())
	case c.Process.Starts() > 1:
		e.progress.say("%s runs again, as process %d", name, c.Process.PID())
	}
}
