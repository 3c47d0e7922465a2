// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/kubenest/kubenest/api/wire"
)

// reachTimeout is how long the API server may take for the cheapest call.
const reachTimeout = 5 * time.Second

// Collector collects the facts of one cluster. Run must be running.
type Collector struct {
	// Static.
	version discovery.ServerVersionInterfaceWithContext
	metrics metricsclient.NodeMetricsInterface
	nodes   *watched
	pods    *watched
	log     logr.Logger

	needPods     chan struct{} // closed when metrics did not work for the first time
	needPodsOnce sync.Once

	mu          sync.Mutex
	lastVersion string
	lostSince   time.Time // zero while the API server answers
}

// NewCollector makes a collector.
func NewCollector(client kubernetes.Interface, metrics metricsclient.NodeMetricsesGetter, log logr.Logger) (*Collector, error) {
	nodes, err := watchNodes(client)
	if err != nil {
		return nil, err
	}
	pods, err := watchPods(client)
	if err != nil {
		return nil, err
	}
	return &Collector{
		version: discovery.ToServerVersionInterfaceWithContext(client.Discovery()), metrics: metrics.NodeMetricses(),
		nodes: nodes, pods: pods, log: log, needPods: make(chan struct{}),
	}, nil
}

// Run watches the cluster until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { c.nodes.informer.RunWithContext(ctx) })
	select {
	case <-ctx.Done():
	case <-c.needPods:
		group.Go(func() { c.pods.informer.RunWithContext(ctx) })
	}
	return nil
}

// Collect is what is known now. It asks the API server, so it takes as long as that
// takes, or until ctx ends.
func (c *Collector) Collect(ctx context.Context) wire.Facts {
	version, err := c.reach(ctx)
	if err != nil {
		return c.unreachable(err)
	}
	c.reached(version)
	f := wire.Facts{KubernetesVersion: version}
	var complaints []string
	complain := func(err error) {
		if err != nil {
			complaints = append(complaints, err.Error())
		}
	}
	complain(c.addNodes(ctx, &f))
	complain(c.addUsage(ctx, &f))
	f.Error = strings.Join(complaints, "; ")
	return f
}

// reach makes the cheapest call there is.
func (c *Collector) reach(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	info, err := c.version.ServerVersionWithContext(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return "", nil // it is there, and does not tell
	case err != nil:
		return "", err
	}
	return wire.Shorten(info.GitVersion, wire.MaxName), nil
}

func (c *Collector) reached(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lostSince.IsZero() {
		c.log.Info("The API server answers again", "after", time.Since(c.lostSince).Round(time.Second).String())
	}
	c.lostSince, c.lastVersion = time.Time{}, version
}

func (c *Collector) unreachable(err error) wire.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lostSince.IsZero() {
		c.lostSince = time.Now()
		c.log.Error(err, "The API server of this cluster does not answer; the session with the hub goes on")
	}
	return wire.Facts{
		KubernetesVersion: c.lastVersion,
		Unreachable: fmt.Sprintf("the operator can not reach the API server of its cluster since %s: %s",
			c.lostSince.UTC().Format(time.RFC3339), cause(err)),
	}
}

// cause is an error without what differs between two attempts, such as ports: the
// same trouble is to read the same, or each heartbeat would be news.
func cause(err error) string {
	var operation *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %v", reachTimeout)
	case errors.As(err, &operation):
		return operation.Op + ": " + operation.Err.Error()
	default:
		return err.Error()
	}
}

// mayNot explains a missing permission.
func mayNot(what string, err error) error {
	return fmt.Errorf("the operator may not %s: run \"helm upgrade\" of its chart, which grants that, or have somebody grant it who may (%w)", what, err)
}
