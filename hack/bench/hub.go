// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/bench/server"
	"github.com/kubenest/kubenest/hack/environment"
	"github.com/kubenest/kubenest/hack/fleetsim/fleet"
	"github.com/kubenest/kubenest/hack/fleetsim/requests"
)

// lookEvery is how often the management cluster is looked at.
const lookEvery = time.Second

// hub is a real hub with its fleet.
type hub struct {
	*environment.Environment
	records *fleet.Records
	fleet   *fleet.Fleet
	config  *rest.Config
}

// measureHub measures a real hub on a real API server, with the operators' real
// agents.
func (b *bench) measureHub(ctx context.Context) (err error) {
	b.say("hub: starting etcd, kube-apiserver and kubenest-hub")
	e, err := environment.Start(ctx, environment.Options{
		Dir: filepath.Join(b.dir, "hub"), Programs: b.programs, Assets: b.assets, Config: b.config, HubReplicas: 1,
	})
	if err != nil {
		return fmt.Errorf("start a hub: %w", err)
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		e.Stop(stopping)
	}()
	h := &hub{Environment: e}
	members, err := b.register(ctx, h)
	if err != nil {
		return err
	}
	arrivals := make(chan fleet.Delivered, 4*len(members)) // a namespace and an App each, and what is sent twice
	if h.fleet, err = fleet.New(fleet.Options{Members: members, OnDelivered: func(d fleet.Delivered) {
		select {
		case arrivals <- d:
		default: // nobody measures it
		}
	}}); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- h.fleet.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	last, err := h.fleet.Await(ctx, began)
	if err != nil {
		return fmt.Errorf("connect the fleet: %w; the hub's log ends:\n%s", err, e.Hub().Process().Tail(5))
	}
	b.say("hub: %d clusters connected within %.1fs", b.clusters, last.Sub(began).Seconds())
	if slices.Contains(b.only, partIdle) {
		if err := b.measureIdle(ctx, h); err != nil {
			return err
		}
	}
	if slices.Contains(b.only, partFleet) {
		if err := b.measureFleet(ctx, h, arrivals); err != nil {
			return err
		}
	}
	if slices.Contains(b.only, partRestart) {
		return b.measureRestart(ctx, h)
	}
	return nil
}

func (b *bench) register(ctx context.Context, h *hub) ([]fleet.Member, error) {
	var err error
	if h.config, err = h.Management().RESTConfig(); err != nil {
		return nil, err
	}
	h.records = &fleet.Records{Client: h.Client(), Namespace: environment.Organization, Prefix: "bench", Clusters: b.clusters}
	began := time.Now()
	if err := h.records.Register(ctx); err != nil {
		return nil, err
	}
	members, err := h.records.Members(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("%w; the hub's log ends:\n%s", err, h.Hub().Process().Tail(5))
	}
	b.say("hub: %d records created and their tokens issued in %.1fs", b.clusters, time.Since(began).Seconds())
	return members, nil
}

// measureIdle counts what a connected and quiet fleet asks of the management API.
func (b *bench) measureIdle(ctx context.Context, h *hub) error {
	settling, done := context.WithTimeout(ctx, 3*time.Minute)
	defer done()
	if err := requests.AwaitQuiet(settling, h.config, b.paces.idle/6); err != nil {
		return err
	}
	b.say("hub: counting requests of the idle fleet for %v", b.paces.idle)
	before, err := requests.Scrape(ctx, h.config)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := pause(ctx, b.paces.idle); err != nil {
		return err
	}
	after, err := requests.Scrape(ctx, h.config)
	if err != nil {
		return err
	}
	minutes := time.Since(began).Minutes()
	counted := after.Since(before).Only(requests.Kind.About)
	writes := counted.Only(requests.Kind.Write)
	reads := counted.Only(func(k requests.Kind) bool { return !k.Write() })
	each := func(c requests.Counts) string { return perCluster(float64(c.Total()) / float64(b.clusters) / minutes) }
	b.rows = append(b.rows,
		alone(fmt.Sprintf("management-API reads a cluster a minute, %d idle", b.clusters), each(reads)),
		alone("management-API writes a cluster a minute", each(writes)))
	b.note("The management API server counted in %.0f s, of everybody and itself: writes: %v. Reads: %v.", minutes*60, writes, reads)
	return nil
}

// measureRestart kills the hub and waits until all clusters are connected again,
// and has a bare server take as many connections.
func (b *bench) measureRestart(ctx context.Context, h *hub) error {
	holder, err := h.holder(ctx, "")
	if err != nil {
		return err
	}
	b.say("hub: killing it (kill -9)")
	killed := time.Now()
	h.Hub().Process().Kill()
	last, err := h.fleet.Await(ctx, killed)
	if err != nil {
		return fmt.Errorf("connect the fleet again: %w; the hub's log ends:\n%s", err, h.Hub().Process().Tail(5))
	}
	if _, err := h.holder(ctx, holder); err != nil {
		return err
	}
	stats, err := h.fleet.Stats()
	if err != nil {
		return err
	}
	b.say("hub: all connected again after %.1fs; since the start of the fleet: %v", last.Sub(killed).Seconds(), stats)

	p, err := b.startPair(ctx, "restart", server.Bare)
	if err != nil {
		return err
	}
	defer p.stop(ctx)
	if _, err := p.warmUp(ctx); err != nil {
		return err
	}
	took, _, err := p.open(ctx, b.clusters)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, compared(fmt.Sprintf("%d clusters connected again after kill -9", b.clusters),
		took.Seconds(), last.Sub(killed).Seconds(), seconds))
	b.note("Again connected: the hub's process is dead, is started after a second as a kubelet would, reads its caches, and each operator comes back by its own backoff and is written down as Connected by the new process. The bare server only accepts as many TLS connections, as fast as it goes.")
	return nil
}

// holder waits until every record says that it is connected, and to one replica
// other than before, which it returns.
func (h *hub) holder(ctx context.Context, before string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		holders, connected, err := h.holders(ctx)
		if err != nil {
			return "", err
		}
		if connected == h.records.Clusters && len(holders) == 1 && holders[0] != before {
			return holders[0], nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return "", fmt.Errorf("%d of %d records are connected, to %d replicas: %w", connected, h.records.Clusters, len(holders), err)
		}
	}
}

func (h *hub) holders(ctx context.Context) (holders []string, connected int, err error) {
	var list kubenestv1.ManagedClusterList
	if err := h.records.Client.List(ctx, &list, client.InNamespace(h.records.Namespace)); err != nil {
		return nil, 0, fmt.Errorf("list records: %w", err)
	}
	for i := range list.Items {
		status := &list.Items[i].Status
		if status.Phase != kubenestv1.PhaseConnected || status.Session == nil {
			continue
		}
		connected++
		if !slices.Contains(holders, status.Session.Replica) {
			holders = append(holders, status.Session.Replica)
		}
	}
	return holders, connected, nil
}

// pause waits, or fails when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
