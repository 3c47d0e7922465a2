// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/hub/session"
)

// indexCluster is the name of the cache's index of StackDeploys by cluster id.
const indexCluster = "kubenest.io/stack-cluster-id"

// Index adds the index that this package looks StackDeploys up by. It also needs
// that of clusters by id.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	byCluster := func(o client.Object) []string {
		return []string{o.(*kubenestv1.StackDeploy).Spec.ClusterID}
	}
	if err := indexer.IndexField(ctx, &kubenestv1.StackDeploy{}, indexCluster, byCluster); err != nil {
		return fmt.Errorf("index StackDeploys by cluster: %w", err)
	}
	return nil
}

// ofCluster names the StackDeploys of a cluster's record.
func ofCluster(c client.Reader) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		id := o.(*kubenestv1.ManagedCluster).ID()
		var list kubenestv1.StackDeployList
		err := c.List(ctx, &list, client.MatchingFields{indexCluster: id}, client.UnsafeDisableDeepCopy)
		if err != nil {
			log.FromContext(ctx).Error(err, "List StackDeploys of a cluster", "cluster", id)
			return nil
		}
		requests := make([]reconcile.Request, len(list.Items))
		for i := range list.Items {
			requests[i] = requestFor(stackOf(&list.Items[i]))
		}
		return requests
	}
}

// clusterMoved lets those changes of a record through that decide who speaks for
// the cluster, and what is said: not its figures.
var clusterMoved = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*kubenestv1.ManagedCluster), e.ObjectNew.(*kubenestv1.ManagedCluster)
		return before.ID() != after.ID() || before.Spec.Abandoned != after.Spec.Abandoned ||
			sessionID(before) != sessionID(after) || connection(before) != connection(after)
	},
}

// connection is what clusters.Connected says, to be compared.
func connection(record *kubenestv1.ManagedCluster) string {
	ok, since := clusters.Connected(record)
	return fmt.Sprint(ok, since.Unix())
}

// sessionID is that of the session which a record names, empty if it names none.
func sessionID(record *kubenestv1.ManagedCluster) string {
	if s := record.Status.Session; s != nil && s.Replica != "" {
		return s.ID
	}
	return ""
}

// holds reports whether a session is the one that the cluster's record names.
func holds(record *kubenestv1.ManagedCluster, info *session.Info) bool {
	return record != nil && sessionID(record) == info.SessionID
}

// nameOf is how a cluster is called in the messages of a namespace's objects.
func nameOf(record *kubenestv1.ManagedCluster, namespace string) string {
	if record.Namespace == namespace {
		return record.Name
	}
	return record.Namespace + "/" + record.Name
}

func stackOf(s *kubenestv1.StackDeploy) wire.Stack {
	return wire.Stack{Namespace: s.Namespace, Name: s.Name}
}

func requestFor(s wire.Stack) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}}
}

// sourceOf puts a delivery into a status.
func sourceOf(s wire.Stack, d wire.Delivery) *kubenestv1.StackSource {
	return &kubenestv1.StackSource{Namespace: s.Namespace, Name: s.Name, UID: d.UID, Generation: d.Generation, Digest: d.Digest}
}
