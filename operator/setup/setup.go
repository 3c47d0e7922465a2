// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package setup wires the operator together: what main runs, and what the
// development environment and the tests start.
package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kubenest/kubenest/api/socket"
	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/version"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/credentials"
	"github.com/kubenest/kubenest/operator/election"
	"github.com/kubenest/kubenest/operator/facts"
	"github.com/kubenest/kubenest/operator/logs"
	"github.com/kubenest/kubenest/operator/streams"
)

// leaseTimeout bounds a request about the Lease, so that one that hangs is not the
// last.
const leaseTimeout = 5 * time.Second

// actAgain is when the active operator begins again after it failed.
const actAgain = 5 * time.Second

// operator is one process.
type operator struct {
	// Static.
	o           *Options
	log         logr.Logger
	config      *rest.Config
	client      kubernetes.Interface
	leases      kubernetes.Interface
	credentials *credentials.Mounted
	collector   *facts.Collector
	metrics     *agent.Metrics
	registry    *prometheus.Registry
	active      *active
}

// Run runs an operator until ctx ends, with the logger in ctx. It fails when the
// options can't work, or an address is taken; whatever goes wrong with the hub or
// the API server, it tries on.
func Run(ctx context.Context, o *Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	op, err := newOperator(o, logr.FromContextOrDiscard(ctx))
	if err != nil {
		return err
	}
	op.log.Info("Starting the operator", "version", version.String(), "namespace", o.Cluster.Namespace, "pod", o.Cluster.PodName)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx, o.Probes.HealthAddress, probes(op.active)) })
	group.Go(func() error {
		return serve(ctx, o.Probes.MetricsAddress, promhttp.HandlerFor(prometheus.Gatherers{op.registry, ctrlmetrics.Registry}, promhttp.HandlerOpts{}))
	})
	group.Go(func() error { return op.credentials.Run(ctx) })
	group.Go(func() error { return op.collector.Run(ctx) })
	group.Go(func() error { return op.elect(ctx) })
	return group.Wait()
}

func newOperator(o *Options, log logr.Logger) (*operator, error) {
	config, err := o.Cluster.config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(asProtobuf(config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	bounded := asProtobuf(config)
	bounded.Timeout = leaseTimeout
	leases, err := kubernetes.NewForConfig(bounded)
	if err != nil {
		return nil, fmt.Errorf("make a client for the Lease: %w", err)
	}
	metrics, err := metricsclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for metrics: %w", err)
	}
	collector, err := facts.NewCollector(client, metrics, log.WithName("facts"))
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	return &operator{
		o: o, log: log, config: config, client: client, leases: leases, collector: collector,
		credentials: credentials.NewMounted(o.Hub.ConnectionDirectory, client.CoreV1(), o.Cluster.Namespace, log.WithName("credentials")),
		registry:    registry, metrics: agent.NewMetrics(registry), active: &active{started: time.Now()},
	}, nil
}

// config reaches this cluster's API server.
func (o *ClusterOptions) config() (*rest.Config, error) {
	var (
		config *rest.Config
		err    error
	)
	switch {
	case o.Config != nil:
		config = rest.CopyConfig(o.Config)
	case o.Kubeconfig != "":
		config, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	default:
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			err = errors.New("the operator does not run in a pod: give --kubeconfig")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server of this cluster: %w", err)
	}
	config.QPS, config.Burst = float32(o.QPS), o.Burst
	config.UserAgent = component + "/" + version.String()
	return config, nil
}

// asProtobuf is for the built-in kinds, for which it costs least.
func asProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	return config
}

// elect has an agent run while this process holds the Lease.
func (op *operator) elect(ctx context.Context) error {
	uid, err := facts.ClusterUID(ctx, op.client.CoreV1(), op.log)
	if err != nil {
		return nil //nolint:nilerr // it fails only when ctx has ended, and stopping is no failure
	}
	record, err := recorder(ctx, op.client, &op.o.Cluster)
	if err != nil {
		return fmt.Errorf("set up Events: %w", err)
	}
	e := election.Election{
		Leases: op.leases.CoordinationV1(), Namespace: op.o.Cluster.Namespace, Identity: op.o.Cluster.PodName,
		OnHolder: op.active.setHolder, Log: op.log.WithName("election"),
	}
	return e.Run(ctx, func(ctx context.Context) { op.lead(ctx, uid, record) })
}

// lead is what the active operator does, until ctx ends.
func (op *operator) lead(ctx context.Context, uid string, record func(agent.State)) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := op.act(ctx, uid, record); err != nil && ctx.Err() == nil {
			op.log.Error(err, "The operator failed, beginning again", "in", actAgain.String())
		}
	}, actAgain)
}

// act runs a new agent, with a process id of its own, and what deploys. It returns
// when one of them has failed, and nothing of either is left.
func (op *operator) act(ctx context.Context, uid string, record func(agent.State)) error {
	process := uuid.NewString()
	gate := newGate()
	mux, err := op.newStreams()
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Options{
		Credentials: op.credentials, ClusterUID: uid, Process: process,
		OperatorVersion: version.String(), Facts: op.collector.Collect,
		Schema: kubenestv1.StackDeploySchema, Deployments: gate,
		Streams: func(ctx context.Context, s *socket.Stream) { mux.Serve(ctx, s) },
		Dialing: agent.Dialing{
			InsecurePlainHTTP: op.o.Hub.InsecurePlainHTTP,
			UserAgent:         component + "/" + version.String(),
		},
		Watchdog: op.o.Hub.Watchdog, OnState: record, Metrics: op.metrics,
		Log: op.log.WithName("agent").WithValues("process", process),
	})
	if err != nil {
		return err
	}
	op.active.set(a)
	defer op.active.set(nil)
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return op.deploy(ctx, gate) })
	both.Go(func() error { return a.Run(ctx) })
	return both.Wait()
}

// newStreams makes what serves the streams that the hub opens.
func (op *operator) newStreams() (*streams.Mux, error) {
	server, err := logs.New(op.config, op.log.WithName("logs"))
	if err != nil {
		return nil, err
	}
	return streams.NewMux(op.log.WithName("streams"), map[string]streams.Handler{wire.StreamLogs: server}), nil
}
