// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
)

// Names of the cache's indexes.
const (
	indexID      = clusters.IndexID
	indexReplica = "kubenest.io/session-replica"
)

// Index adds the indexes that this package looks records up by.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	byID := func(o client.Object) []string {
		return []string{o.(*kubenestv1.ManagedCluster).ID()}
	}
	if err := indexer.IndexField(ctx, &kubenestv1.ManagedCluster{}, indexID, byID); err != nil {
		return fmt.Errorf("index clusters by id: %w", err)
	}
	byReplica := func(o client.Object) []string {
		if s := o.(*kubenestv1.ManagedCluster).Status.Session; s != nil && s.Replica != "" {
			return []string{s.Replica}
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &kubenestv1.ManagedCluster{}, indexReplica, byReplica); err != nil {
		return fmt.Errorf("index clusters by replica: %w", err)
	}
	return nil
}

// deleted reports whether a record is as good as gone. One that the guard holds is
// not: what is on its cluster can be removed over the session only.
func deleted(record *kubenestv1.ManagedCluster) bool {
	return !record.DeletionTimestamp.IsZero() && !slices.Contains(record.Finalizers, kubenestv1.InUseFinalizer)
}
