// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// Names of the cache's indexes.
const (
	indexID      = "kubenest.io/cluster-id"
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

// recordOf is the record that a cluster id belongs to, nil if there is none.
func recordOf(ctx context.Context, c client.Reader, id string) (*kubenestv1.ManagedCluster, error) {
	var list kubenestv1.ManagedClusterList
	if err := c.List(ctx, &list, client.MatchingFields{indexID: id}); err != nil {
		return nil, fmt.Errorf("look cluster %s up: %w", id, err)
	}
	return oldest(list.Items), nil
}

// oldest decides which of several records with one id is the one that counts:
// the oldest, so that nobody can take a cluster over by naming its id.
func oldest(records []kubenestv1.ManagedCluster) *kubenestv1.ManagedCluster {
	var first *kubenestv1.ManagedCluster
	for i := range records {
		r := &records[i]
		switch {
		case first == nil:
			first = r
		case r.CreationTimestamp.Equal(&first.CreationTimestamp):
			if r.UID < first.UID {
				first = r
			}
		case r.CreationTimestamp.Before(&first.CreationTimestamp):
			first = r
		}
	}
	return first
}
