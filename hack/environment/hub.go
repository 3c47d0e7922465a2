// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubenest/kubenest/hack/process"
	"github.com/kubenest/kubenest/hack/tcpproxy"
)

// Hub is the hub's replicas, behind one address if there are several.
type Hub struct {
	env      *Environment
	address  string // that operators dial, host:port
	replicas []*Replica
	balancer *tcpproxy.Proxy // nil with one replica
}

// Replica is one hub process.
type Replica struct {
	*process.Process
	address, probes string
}

func newHub(e *Environment) (*Hub, error) {
	h := &Hub{env: e}
	if err := e.management.WriteServiceAccountKubeconfig(h.kubeconfig(), hubNamespace, "kubenest-hub"); err != nil {
		return nil, err
	}
	for i := range e.options.HubReplicas {
		if err := h.add("hub-" + strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	h.address = h.replicas[0].address
	if len(h.replicas) > 1 {
		var err error
		if h.address, err = e.ports.Address("hub"); err != nil {
			return nil, err
		}
	}
	for _, r := range h.replicas {
		r.SetArgs(append(r.Args(), "--external-url="+h.URL())...)
	}
	return h, nil
}

// kubeconfig has the rights of the hub's ServiceAccount and no others.
func (h *Hub) kubeconfig() string {
	return h.env.folder.path("clusters", h.env.management.Name(), "hub", "hub.kubeconfig")
}

func (h *Hub) add(name string) error {
	e := h.env
	address, err := e.ports.Address(name)
	if err != nil {
		return err
	}
	probes, err := e.ports.Address(name + "-probes")
	if err != nil {
		return err
	}
	metrics, err := e.ports.Address(name + "-metrics")
	if err != nil {
		return err
	}
	h.replicas = append(h.replicas, &Replica{
		address: address, probes: probes,
		Process: e.group.New(process.Spec{
			Name: name,
			Path: filepath.Join(e.options.Programs, "kubenest-hub"),
			Args: append([]string{
				"--kubeconfig=" + h.kubeconfig(),
				"--namespace=" + hubNamespace, "--replica-name=kubenest-" + name,
				"--listen-address=" + address,
				"--health-probe-bind-address=" + probes, "--metrics-bind-address=" + metrics,
			}, e.options.HubArgs...),
			Env:     e.env(),
			LogFile: e.folder.path("logs", name+".log"),
			Ready:   answers("http://" + probes + "/readyz"),
			Stage:   stageHub,
			Grace:   10 * time.Second, // it lets its sessions move
		}),
	})
	return nil
}

// URL that operators dial.
func (h *Hub) URL() string { return "https://" + h.address }

// Address of URL, host:port.
func (h *Hub) Address() string { return h.address }

// Replicas are the hub's processes.
func (h *Hub) Replicas() []*Replica { return h.replicas }

// Process is the hub's process, the first of several.
func (h *Hub) Process() *process.Process { return h.replicas[0].Process }

// Start starts what does not run, and waits until all replicas are ready.
func (h *Hub) Start(ctx context.Context) error {
	if len(h.replicas) > 1 && h.balancer == nil {
		upstreams := make([]string, 0, len(h.replicas))
		for _, r := range h.replicas {
			upstreams = append(upstreams, r.address)
		}
		var err error
		if h.balancer, err = tcpproxy.Listen(ctx, h.address, upstreams...); err != nil {
			return fmt.Errorf("balance hub replicas: %w", err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range h.replicas {
		group.Go(func() error { return r.Process.Start(ctx) })
	}
	return group.Wait()
}

// Stop stops all replicas in order and keeps them down.
func (h *Hub) Stop(ctx context.Context) {
	for _, r := range h.replicas {
		r.Process.Stop(ctx)
	}
}

func (h *Hub) close() {
	if h.balancer != nil {
		_ = h.balancer.Close() // everything ends
	}
}

// answers probes a URL for 200.
func answers(url string) func(context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}
