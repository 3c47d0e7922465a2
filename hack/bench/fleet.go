// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubenest/kubenest/hack/fleetsim/fleet"
)

const (
	// applyParallel is how many objects are applied at once, as a GitOps tool does.
	applyParallel = 16
	// fleetTimeout bounds a rollout to all clusters.
	fleetTimeout = 5 * time.Minute
)

// measureFleet applies an App for each of many simulated clusters, all at once, and
// waits until each cluster has its own. The floor is applying as many Deployments
// to the management API server, and nothing else.
func (b *bench) measureFleet(ctx context.Context, h *hub, arrivals <-chan fleet.Delivered) error {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	clusters := min(b.paces.fleet, b.clusters)
	if err := applyProject(ctx, h.Client(), h.records.Name(0)); err != nil {
		return err
	}
	b.say("hub: applying %d Deployments to the management API server", clusters)
	namespace := &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: benchProject},
	}
	if err := apply(ctx, h.Client(), namespace); err != nil {
		return err
	}
	floor, _, err := applyAll(ctx, clusters, func(ctx context.Context, i int) error {
		return apply(ctx, h.Client(), benchDeployment(fmt.Sprintf("floor-%03d", i)))
	})
	if err != nil {
		return err
	}
	b.say("hub: applying %d Apps, each for another simulated cluster", clusters)
	began := time.Now()
	_, applied, err := applyAll(ctx, clusters, func(ctx context.Context, i int) error {
		return apply(ctx, h.Client(), benchApp(fmt.Sprintf("fleet-%03d", i), benchProject, h.records.Name(i)))
	})
	if err != nil {
		return err
	}
	came, err := await(ctx, clusters, arrivals)
	if err != nil {
		return err
	}
	var took []time.Duration
	last := began
	for i := range clusters {
		at := came[h.records.Name(i)]
		took = append(took, at.Sub(applied[i]))
		if at.After(last) {
			last = at
		}
	}
	b.rows = append(b.rows, compared(fmt.Sprintf("%d Apps applied at once until each of %[1]d clusters has its own", clusters),
		floor.Seconds(), last.Sub(began).Seconds(), seconds))
	for _, p := range []int{50, 99} {
		b.rows = append(b.rows, alone(fmt.Sprintf("… one of them, from its apply, p%d", p), seconds(percentile(took, p).Seconds())))
	}
	b.note("The simulated clusters have the real agent and keep what they get in memory; each App also brings its Project's namespace to its cluster. All is applied %d at a time. The floor applies as many Deployments to the management API server in the same way, and waits for nothing.", applyParallel)
	return nil
}

// applyAll applies n objects. It returns how long that took, and when each was begun.
func applyAll(ctx context.Context, n int, one func(context.Context, int) error) (time.Duration, []time.Time, error) {
	began, begun := time.Now(), make([]time.Time, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(applyParallel)
	for i := range n {
		group.Go(func() error {
			begun[i] = time.Now()
			return one(ctx, i)
		})
	}
	err := group.Wait()
	return time.Since(began), begun, err
}

// await waits until n clusters have got an App, and returns when each did first.
func await(ctx context.Context, n int, arrivals <-chan fleet.Delivered) (map[string]time.Time, error) {
	came := make(map[string]time.Time, n)
	for len(came) < n {
		select {
		case d := <-arrivals:
			if _, known := came[d.Cluster]; d.App != "" && !known {
				came[d.Cluster] = d.At
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d clusters have got their App: %w", len(came), n, ctx.Err())
		}
	}
	return came, nil
}
