// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/version"
	"github.com/kubenest/kubenest/controllers"
	"github.com/kubenest/kubenest/controllers/managedcluster"
	"github.com/kubenest/kubenest/controllers/stackdeploy"
	"github.com/kubenest/kubenest/hub/replica"
	"github.com/kubenest/kubenest/hub/serving"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/token/store"
)

// Scheme knows every kind that the hub works with.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kubenestv1.AddToScheme(scheme))
	return scheme
}

// hub is one replica, in the order in which its parts depend on each other.
type hub struct {
	options  *Options
	log      logr.Logger
	config   *rest.Config
	direct   client.WithWatch // not cached
	keys     *store.Store
	tls      *serving.Source // nil with PlainHTTP
	manager  ctrl.Manager    // of what runs on every replica
	id       replica.ID
	keeper   *replica.Keeper
	replicas *replica.Watcher
	sessions *session.Server
	deps     controllers.Dependencies
	leaving  atomic.Bool
}

// Run runs a hub replica until ctx ends, then asks its sessions to move and
// stops. It waits for an API server that is not there yet.
func Run(ctx context.Context, o *Options, log logr.Logger) error {
	if err := o.Validate(); err != nil {
		return err
	}
	h := &hub{options: o, log: log, id: replica.New(o.Cluster.ReplicaName)}
	log.Info("Starting", "version", version.String(), "replica", h.id.String())
	for _, step := range []func(context.Context) error{
		h.connect, h.prepare, h.openKeys, h.openTLS, h.newManager, h.newReplica, h.newSessions, h.newControllers,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return h.run(ctx)
}

// connect makes the client of the management cluster.
func (h *hub) connect(context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", h.options.Cluster.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig of the management cluster: %w", err)
	}
	config.QPS, config.Burst = float32(h.options.Cluster.QPS), h.options.Cluster.Burst
	config.UserAgent = "kubenest-hub/" + version.String()
	h.config = config
	h.direct, err = client.NewWithWatch(config, client.Options{Scheme: Scheme()})
	if err != nil {
		return fmt.Errorf("make client of the management cluster: %w", err)
	}
	return nil
}

// newManager makes the manager of what runs on every replica.
func (h *hub) newManager(ctx context.Context) error {
	manager, err := ctrl.NewManager(h.config, ctrl.Options{
		Scheme:                 Scheme(),
		Logger:                 h.log,
		Cache:                  cacheOptions(),
		Metrics:                metricsserver.Options{BindAddress: h.options.Probes.MetricsAddress},
		HealthProbeBindAddress: h.options.Probes.HealthAddress,
	})
	if err != nil {
		return fmt.Errorf("make manager: %w", err)
	}
	h.manager = manager
	return controllers.Index(ctx, manager.GetFieldIndexer())
}

// newReplica makes this replica known, and the others to it.
func (h *hub) newReplica(context.Context) error {
	log := h.log.WithName("replica")
	h.keeper = replica.NewKeeper(h.direct, h.options.Cluster.Namespace, h.id, log)
	h.replicas = replica.NewWatcher(h.direct, h.options.Cluster.Namespace, h.id, log)
	return nil
}

// newSessions makes the session server.
func (h *hub) newSessions(context.Context) error {
	proxies, err := h.options.Server.trustedProxies()
	if err != nil {
		return err
	}
	events := h.manager.GetEventRecorder("kubenest-hub")
	authority := managedcluster.NewAuthority(managedcluster.AuthorityOptions{
		Client:   h.manager.GetClient(),
		Live:     h.manager.GetAPIReader(),
		Events:   events,
		Keys:     h.keys,
		Replicas: h.replicas,
		Replica:  h.id.String(),
		Clock:    clock.RealClock{},
	})
	mailbox, err := stackdeploy.NewMailbox(clock.RealClock{}, metrics.Registry)
	if err != nil {
		return fmt.Errorf("make mailbox of deployments: %w", err)
	}
	h.sessions, err = session.New(session.Options{
		Authority:      authority,
		Deployments:    mailbox,
		Replica:        h.id.String(),
		HubVersion:     version.String(),
		Timing:         h.options.Session.Timing,
		Logger:         h.log.WithName("session"),
		Metrics:        metrics.Registry,
		TrustedProxies: proxies,
		RenewAt:        h.renewAt,
	})
	if err != nil {
		return fmt.Errorf("make session server: %w", err)
	}
	h.sessions.SetAccepting(false, "the hub is starting")
	h.sessions.SetTrust(h.bundle())
	if h.tls != nil {
		h.tls.OnBundleChange(h.sessions.SetTrust)
	}
	h.deps = controllers.Dependencies{
		Authority: authority,
		Sessions:  h.sessions.Registry(),
		Mailbox:   mailbox,
		Timing:    h.options.Session.Timing,
		Events:    events,
		Keys:      h.keys,
		HubURL:    h.options.Server.ExternalURL,
		CABundle:  h.bundle,
		Changed:   h.onChanged(),
		Clock:     clock.RealClock{},
	}
	return nil
}

// renewAt renews tokens in time, and all of them when another key signs: only then
// can the old one be removed without locking anybody out.
func (h *hub) renewAt(id session.Identity) time.Time {
	if id.KeyID != h.keys.Keyset().SigningKeyID() {
		return id.IssuedAt
	}
	return session.TwoThirds(id)
}

// newControllers adds what runs on every replica to the first manager.
func (h *hub) newControllers(context.Context) error {
	if err := controllers.AddEverywhere(h.manager, &h.deps); err != nil {
		return err
	}
	return h.addProbes()
}

// run runs all parts until ctx ends, then stops taking sessions, moves those
// there are, and stops the rest.
func (h *hub) run(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, running := errgroup.WithContext(running)
	parts := []func(context.Context) error{
		h.manager.Start, h.keys.Run, h.keeper.Run, h.replicas.Run, h.lead, h.serve,
	}
	if h.tls != nil {
		parts = append(parts, h.tls.Run)
	}
	for _, part := range parts {
		group.Go(func() error { return part(running) })
	}
	group.Go(func() error {
		select {
		case <-running.Done():
		case <-ctx.Done():
			h.leave(running)
		}
		stop()
		return nil
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	h.log.Info("Stopped")
	return nil
}

// leave asks the sessions to move, if there is a replica to move to, and ends
// those that remain as planned.
func (h *hub) leave(ctx context.Context) {
	h.leaving.Store(true)
	h.sessions.SetAccepting(false, "this hub replica is stopping")
	if h.replicas.PeerReady() && h.options.Session.DrainTimeout > 0 {
		h.log.Info("Asking sessions to move to other replicas", "sessions", h.sessions.Registry().Len())
		draining, done := context.WithTimeout(ctx, h.options.Session.DrainTimeout)
		h.sessions.Drain(draining, h.options.Session.DrainTimeout/2, "this hub replica is stopping")
		done()
	}
	closing, done := context.WithTimeout(ctx, 5*time.Second)
	defer done()
	if err := h.sessions.Close(closing); err != nil {
		h.log.Error(err, "Close sessions")
	}
}
