// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// phases are exported as one series a cluster, by the leader. The only label
// beside the phase is the cluster's id: names are their users' choice.
var phaseDesc = prometheus.NewDesc("kubenest_cluster_phase",
	"The phase of each cluster: 1 for the phase it is in.", []string{"cluster_id", "phase"}, nil)

// ExportPhases exports the phase of every cluster for as long as this replica
// leads.
func ExportPhases(mgr ctrl.Manager) error {
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		c := &phaseCollector{ctx: ctx, client: mgr.GetClient()}
		if err := metrics.Registry.Register(c); err != nil {
			return fmt.Errorf("export phases of clusters: %w", err)
		}
		<-ctx.Done()
		metrics.Registry.Unregister(c)
		return nil
	}))
	if err != nil {
		return fmt.Errorf("export phases of clusters: %w", err)
	}
	return nil
}

// phaseCollector reads the cache when it is scraped, and keeps nothing.
type phaseCollector struct {
	ctx    context.Context //nolint:containedctx // a collector is called without one
	client client.Reader
}

// Describe implements prometheus.Collector.
func (c *phaseCollector) Describe(ch chan<- *prometheus.Desc) { ch <- phaseDesc }

// Collect implements prometheus.Collector.
func (c *phaseCollector) Collect(ch chan<- prometheus.Metric) {
	var list kubenestv1.ManagedClusterList
	if err := c.client.List(c.ctx, &list); err != nil {
		ch <- prometheus.NewInvalidMetric(phaseDesc, err)
		return
	}
	seen := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		record := &list.Items[i]
		// Of two records with one id only the one that counts has a series.
		if id := record.Status.ClusterID; id != "" && record.Status.Phase != "" && !seen[id] && !clusterIDTaken(record) {
			seen[id] = true
			ch <- prometheus.MustNewConstMetric(phaseDesc, prometheus.GaugeValue, 1, id, string(record.Status.Phase))
		}
	}
}
