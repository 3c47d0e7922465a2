// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kubenest/kubenest/controllers"
)

const (
	// leaderLease names the Lease of the leader election.
	leaderLease = "kubenest-hub-leader"

	// The election's times are those of controller-runtime and of Kubernetes' own
	// controllers.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second

	// pruneEvery is how often Leases of replicas long gone are looked for.
	pruneEvery = 10 * time.Minute
)

// lead stands for election, again and again: who loses it stops leading, and the
// sessions held here must not end with that. A replica stands under the same
// identity each time, so that after an outage it need not wait for its own Lease
// to lapse.
func (h *hub) lead(ctx context.Context) error {
	leases, err := coordinationv1.NewForConfig(h.config)
	if err != nil {
		return fmt.Errorf("make client of the leader election: %w", err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: h.options.Cluster.Namespace, Name: leaderLease},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: h.id.String()},
	}
	for ctx.Err() == nil {
		if err := h.leadOnce(ctx, lock); err != nil {
			return err
		}
	}
	return nil
}

// leadOnce waits to be elected, leads, and returns when that is over and nothing
// of it runs any more.
func (h *hub) leadOnce(ctx context.Context, lock resourcelock.Interface) error {
	standing, resign := context.WithCancel(klog.NewContext(ctx, h.log.WithName("election")))
	defer resign()
	elected, ended := make(chan struct{}), make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: leaderLease,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(elected)
				ended <- h.runLeader(ctx)
				resign() // one that cannot run must not keep others from leading
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("make leader election: %w", err)
	}
	elector.Run(standing)
	select {
	case <-elected:
		return <-ended
	default:
		// Stopped before it was elected, or before it had begun to lead: then
		// runLeader finds ctx at its end.
		return nil
	}
}

// runLeader runs the leader's controllers until ctx ends, as it does when the
// Lease is lost.
func (h *hub) runLeader(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	h.log.Info("Leading")
	defer h.log.Info("No longer leading")
	manager, err := h.newLeaderManager()
	if err != nil {
		return err
	}
	if err := manager.Start(ctx); err != nil {
		return fmt.Errorf("run the leader's controllers: %w", err)
	}
	return nil
}

func (h *hub) newLeaderManager() (ctrl.Manager, error) {
	manager, err := ctrl.NewManager(h.config, ctrl.Options{
		Scheme: h.manager.GetScheme(),
		Logger: h.log.WithName("leader"),
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
