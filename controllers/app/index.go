// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// Names of the cache's indexes.
const (
	// Apps by Project, by what their components say for a cluster, and by chart.
	indexProject    = "kubenest.io/app-project"
	indexClusterRef = "kubenest.io/app-cluster-ref"
	indexChart      = "kubenest.io/app-chart"
	// StackDeploys by App and by cluster.
	indexStackApp     = "kubenest.io/app-of-stack"
	indexStackCluster = "kubenest.io/app-cluster-of-stack"
	// Projects by cluster, <namespace>/<name>.
	indexProjectCluster = "kubenest.io/app-cluster-of-project"
)

// Index adds the indexes that this package looks objects up by. It also needs that
// of clusters by id.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	indexes := []struct {
		object client.Object
		name   string
		values client.IndexerFunc
	}{
		{&kubenestv1.App{}, indexProject, func(o client.Object) []string {
			return []string{o.(*kubenestv1.App).Spec.ProjectRef.Name}
		}},
		{&kubenestv1.App{}, indexClusterRef, clusterRefs},
		{&kubenestv1.App{}, indexChart, func(o client.Object) []string {
			return chartNames(o.(*kubenestv1.App).Spec.Components)
		}},
		{&kubenestv1.StackDeploy{}, indexStackApp, func(o client.Object) []string {
			if app := o.(*kubenestv1.StackDeploy).Spec.App; app != "" {
				return []string{app}
			}
			return nil
		}},
		{&kubenestv1.StackDeploy{}, indexStackCluster, func(o client.Object) []string {
			if s := o.(*kubenestv1.StackDeploy); s.Spec.App != "" {
				return []string{s.Spec.ClusterID}
			}
			return nil
		}},
		{&kubenestv1.Project{}, indexProjectCluster, func(o client.Object) []string {
			p := o.(*kubenestv1.Project)
			return []string{p.ClusterNamespace() + "/" + p.Spec.ClusterRef.Name}
		}},
	}
	for _, i := range indexes {
		if err := indexer.IndexField(ctx, i.object, i.name, i.values); err != nil {
			return fmt.Errorf("index %s: %w", i.name, err)
		}
	}
	return nil
}

// clusterRefs are what an App's components say for a cluster.
func clusterRefs(o client.Object) []string {
	var refs []string
	for _, c := range o.(*kubenestv1.App).Spec.Components {
		if c.ClusterID != "" {
			refs = append(refs, c.ClusterID)
		}
	}
	return refs
}

// chartNames are the ConfigMaps that components take their charts from.
func chartNames(components []kubenestv1.Component) []string {
	var names []string
	for i := range components {
		if a := components[i].AddonSpec; a != nil && a.Chart.ConfigMapRef != nil {
			names = append(names, a.Chart.ConfigMapRef.Name)
		}
	}
	return names
}
