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
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/kubenest/kubenest/api/version"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/credentials"
	"github.com/kubenest/kubenest/operator/election"
	"github.com/kubenest/kubenest/operator/facts"
)

// leaseTimeout bounds a request about the Lease, so that one that hangs is not the
// last.
const leaseTimeout = 5 * time.Second

// operator is one process.
type operator struct {
	// Static.
	o           *Options
	log         logr.Logger
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
		return serve(ctx, o.Probes.MetricsAddress, promhttp.HandlerFor(op.registry, promhttp.HandlerOpts{}))
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
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &operator{
		o: o, log: log, client: client, leases: leases, collector: collector,
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

// lead runs a new agent, with a process id of its own.
func (op *operator) lead(ctx context.Context, uid string, record func(agent.State)) {
	process := uuid.NewString()
	a, err := agent.New(agent.Options{
		Credentials: op.credentials, ClusterUID: uid, Process: process,
		OperatorVersion: version.String(), Facts: op.collector.Collect,
		Dialing: agent.Dialing{
			InsecurePlainHTTP: op.o.Hub.InsecurePlainHTTP,
			UserAgent:         component + "/" + version.String(),
		},
		Watchdog: op.o.Hub.Watchdog, OnState: record, Metrics: op.metrics,
		Log: op.log.WithName("agent").WithValues("process", process),
	})
	if err != nil {
		op.log.Error(err, "Can not start an agent")
		return
	}
	op.active.set(a)
	defer op.active.set(nil)
	if err := a.Run(ctx); err != nil {
		op.log.Error(err, "The agent failed")
	}
}
