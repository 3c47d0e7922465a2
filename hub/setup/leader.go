// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kubenest/kubenest/controllers"
)

// leaderLease names the Lease of the leader election.
const leaderLease = "kubenest-hub-leader"

// pruneEvery is how often Leases of replicas long gone are looked for.
const pruneEvery = 10 * time.Minute

// lead stands for election, again and again: a manager that loses its leadership
// ends, and the sessions that this replica holds must not end with it.
func (h *hub) lead(ctx context.Context) error {
	for ctx.Err() == nil {
		manager, err := h.newLeaderManager()
		if err != nil {
			return err
		}
		if err := manager.Start(ctx); err != nil {
			h.log.Info("Leadership lost, standing again", "reason", err.Error())
		}
	}
	return nil
}

func (h *hub) newLeaderManager() (ctrl.Manager, error) {
	manager, err := ctrl.NewManager(h.config, ctrl.Options{
		Scheme:                        h.manager.GetScheme(),
		Logger:                        h.log.WithName("leader"),
		LeaderElection:                true,
		LeaderElectionID:              leaderLease,
		LeaderElectionNamespace:       h.options.Cluster.Namespace,
		LeaderElectionReleaseOnCancel: true,
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) {
			return &borrowed{Cache: h.manager.GetCache()}, nil
		},
		NewClient: func(*rest.Config, client.Options) (client.Client, error) {
			return h.manager.GetClient(), nil
		},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		// The next leader's controllers bear the same names.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("make leader's manager: %w", err)
	}
	if err := controllers.AddLeader(manager, &h.deps); err != nil {
		return nil, err
	}
	if err := manager.Add(ctrlmanager.RunnableFunc(h.pruneLeases)); err != nil {
		return nil, fmt.Errorf("add pruning of Leases: %w", err)
	}
	return manager, nil
}

// pruneLeases removes the Leases that replicas left behind: a Deployment's pods
// have new names at each rollout.
func (h *hub) pruneLeases(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := h.replicas.Prune(ctx); err != nil {
			h.log.Error(err, "Prune Leases of replicas that are gone")
		}
	}, pruneEvery)
	return nil
}
