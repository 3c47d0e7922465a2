// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubenest/kubenest/hack/ports"
	"github.com/kubenest/kubenest/hack/process"
)

// Stages in which a group stops a cluster's processes; whatever uses the
// cluster stops before, at StageClients and above.
const (
	stageEtcd = iota
	stageAPIServer
	stageControllers
	// StageClients is the first stage for programs that use a cluster.
	StageClients
)

// Options of a cluster.
type Options struct {
	// Name is part of its processes' names.
	Name string
	// Dir holds keys and data, LogDir the logs.
	Dir, LogDir string
	// Kubeconfig is where an administrator's kubeconfig is written.
	Kubeconfig string
	// Assets is the folder of etcd, kube-apiserver and the others.
	Assets string
	// Env is the environment of all processes.
	Env []string
	// Workloads adds what runs Deployments: their controllers, kube-scheduler,
	// and kwok, which plays nodes and pods.
	Workloads bool
	// KwokConfig are files with more for kwok, such as the logs of some pods.
	KwokConfig []string
	// Ports remembers the addresses.
	Ports *ports.Book
	// Group keeps the processes.
	Group *process.Group
}

// Cluster is a control plane.
type Cluster struct {
	options   Options
	authority *authority
	// The addresses of the API server and of etcd.
	url, storeURL string
	// Where kwok plays the nodes' kubelets.
	kubeletAddress string

	etcd, apiServer                    *process.Process
	controllerManager, scheduler, kwok *process.Process
}

// New writes a cluster's keys and kubeconfig, and prepares its processes.
// Nothing runs yet.
func New(o Options) (*Cluster, error) {
	a, err := openAuthority(filepath.Join(o.Dir, "pki"))
	if err != nil {
		return nil, fmt.Errorf("keys of cluster %s: %w", o.Name, err)
	}
	c := &Cluster{options: o, authority: a}
	if err := errors.Join(c.newEtcd(), c.placeKubelet(), c.newAPIServer()); err != nil {
		return nil, fmt.Errorf("prepare cluster %s: %w", o.Name, err)
	}
	if err := c.WriteKubeconfig(c.Kubeconfig(), "admin", "system:masters"); err != nil {
		return nil, err
	}
	if err := c.newControllers(); err != nil {
		return nil, fmt.Errorf("prepare cluster %s: %w", o.Name, err)
	}
	return c, nil
}

// Name of the cluster.
func (c *Cluster) Name() string { return c.options.Name }

// URL of the API server.
func (c *Cluster) URL() string { return c.url }

// Kubeconfig is the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.options.Kubeconfig }

// Etcd is the cluster's store.
func (c *Cluster) Etcd() *process.Process { return c.etcd }

// APIServer is the cluster's kube-apiserver.
func (c *Cluster) APIServer() *process.Process { return c.apiServer }

// Kwok plays the cluster's nodes; nil without workloads.
func (c *Cluster) Kwok() *process.Process { return c.kwok }

// Start starts what does not run, and waits until the API server is ready.
func (c *Cluster) Start(ctx context.Context) error {
	store, ctx2 := errgroup.WithContext(ctx) // the API server waits for its store
	store.Go(func() error { return c.etcd.Start(ctx2) })
	store.Go(func() error { return c.apiServer.Start(ctx2) })
	if err := store.Wait(); err != nil {
		return fmt.Errorf("start cluster %s: %w", c.options.Name, err)
	}
	for _, p := range []*process.Process{c.controllerManager, c.scheduler, c.kwok} {
		if p == nil {
			continue
		}
		if err := p.Start(ctx); err != nil {
			return fmt.Errorf("start cluster %s: %w", c.options.Name, err)
		}
	}
	return nil
}

// Stop stops all processes of the cluster and keeps them down.
func (c *Cluster) Stop(ctx context.Context) {
	for _, p := range []*process.Process{c.kwok, c.scheduler, c.controllerManager, c.apiServer, c.etcd} {
		if p != nil {
			p.Stop(ctx)
		}
	}
}

// Wipe forgets everything that the stopped cluster stored. Its keys and address
// stay.
func (c *Cluster) Wipe() error {
	if c.etcd.PID() != 0 {
		return fmt.Errorf("cluster %s still runs", c.options.Name)
	}
	if err := os.RemoveAll(c.dataDir()); err != nil {
		return fmt.Errorf("wipe cluster %s: %w", c.options.Name, err)
	}
	return nil
}

// RESTConfig is an administrator's.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of cluster %s: %w", c.options.Name, err)
	}
	config.QPS, config.Burst = 200, 400
	return config, nil
}

func (c *Cluster) dataDir() string { return filepath.Join(c.options.Dir, "etcd") }

func (c *Cluster) process(program string, stage int, ready func(context.Context) error, args []string) *process.Process {
	name := c.options.Name + "-" + program
	return c.options.Group.New(process.Spec{
		Name:    name,
		Path:    filepath.Join(c.options.Assets, program),
		Args:    args,
		Env:     c.options.Env,
		LogFile: filepath.Join(c.options.LogDir, name+".log"),
		Ready:   ready,
		Stage:   stage,
	})
}
