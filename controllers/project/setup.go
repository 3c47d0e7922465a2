// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// Names of the cache's indexes.
const (
	// indexCluster finds Projects by their clusterRef, <namespace>/<name>.
	indexCluster = "kubenest.io/project-cluster"
	// indexNamespace finds Projects by their namespace on the clusters.
	indexNamespace = "kubenest.io/project-namespace"
	// indexApps finds Apps by their projectRef.
	indexApps = "kubenest.io/project-apps"
	// indexStacks finds StackDeploys by their Project, <namespace>/<name>.
	indexStacks = "kubenest.io/project-stacks"
	// indexClaims finds StackDeploys of Projects' namespaces, <cluster id>/<namespace>.
	indexClaims = "kubenest.io/project-claims"
	// indexStackCluster finds StackDeploys by the cluster's id.
	indexStackCluster = "kubenest.io/project-stack-cluster"
)

// Index adds the indexes that this package looks objects up by. It needs the CRDs
// of Projects, Apps and StackDeploys.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object client.Object
		name   string
		value  func(client.Object) string
	}{
		{&kubenestv1.Project{}, indexCluster, func(o client.Object) string {
			p := o.(*kubenestv1.Project)
			return p.ClusterNamespace() + "/" + p.Spec.ClusterRef.Name
		}},
		{&kubenestv1.Project{}, indexNamespace, func(o client.Object) string { return o.(*kubenestv1.Project).TargetNamespace() }},
		{&kubenestv1.App{}, indexApps, func(o client.Object) string { return o.(*kubenestv1.App).Spec.ProjectRef.Name }},
		{&kubenestv1.StackDeploy{}, indexStacks, func(o client.Object) string { return projectOf(o.(*kubenestv1.StackDeploy)) }},
		{&kubenestv1.StackDeploy{}, indexStackCluster, func(o client.Object) string { return o.(*kubenestv1.StackDeploy).Spec.ClusterID }},
		{&kubenestv1.StackDeploy{}, indexClaims, func(o client.Object) string {
			s := o.(*kubenestv1.StackDeploy)
			if s.Spec.NamespaceSettings == nil || projectOf(s) == "" {
				return ""
			}
			return claimKey(s.Spec.ClusterID, s.Spec.Namespace)
		}},
	} {
		values := func(o client.Object) []string {
			if value := index.value(o); value != "" {
				return []string{value}
			}
			return nil
		}
		if err := indexer.IndexField(ctx, index.object, index.name, values); err != nil {
			return fmt.Errorf("add index %s: %w", index.name, err)
		}
	}
	return nil
}

// projectOf is the key of a StackDeploy's Project, empty if it says one of another
// namespace than its own: those are not the hub's.
func projectOf(s *kubenestv1.StackDeploy) string {
	if s.Spec.Project.Namespace != s.Namespace {
		return ""
	}
	return s.Namespace + "/" + s.Spec.Project.Name
}

// SetupWithManager adds the controller to the leader's manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.claimed, r.held = map[string]claimant{}, map[types.NamespacedName]bool{}
	err := builder.ControllerManagedBy(mgr).
		Named("project").
		For(&kubenestv1.Project{}).
		Watches(&kubenestv1.Project{}, handler.EnqueueRequestsFromMapFunc(r.rivals), builder.WithPredicates(deletions())).
		Watches(&kubenestv1.App{}, handler.EnqueueRequestsFromMapFunc(ofApp), builder.WithPredicates(deletions())).
		Watches(&kubenestv1.StackDeploy{}, handler.EnqueueRequestsFromMapFunc(r.ofStack),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: stackWorthy})).
		Watches(&kubenestv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})). // deletion counts, too
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set project up: %w", err)
	}
	return nil
}

func deletions() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// stackWorthy leaves out what Apps report, until they are removed.
func stackWorthy(e event.UpdateEvent) bool {
	s := e.ObjectNew.(*kubenestv1.StackDeploy)
	return s.Spec.NamespaceSettings != nil || !s.DeletionTimestamp.IsZero()
}

// rivals names the Projects that may want the namespace of one that is gone.
func (r *Reconciler) rivals(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{indexNamespace: o.(*kubenestv1.Project).TargetNamespace()})
}

func ofApp(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: o.GetNamespace(), Name: o.(*kubenestv1.App).Spec.ProjectRef.Name,
	}}}
}

// ofStack names a StackDeploy's Project; and if it was a namespace's and is being
// deleted, those that may want the namespace.
func (r *Reconciler) ofStack(ctx context.Context, o client.Object) []reconcile.Request {
	s := o.(*kubenestv1.StackDeploy)
	if projectOf(s) == "" {
		return nil
	}
	requests := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.Project.Name}}}
	if s.Spec.NamespaceSettings != nil && !s.DeletionTimestamp.IsZero() {
		requests = append(requests, r.requests(ctx, client.MatchingFields{indexNamespace: s.Spec.Namespace})...)
	}
	return requests
}

// ofCluster names the Projects that name a cluster, and those that are on it.
func (r *Reconciler) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	record := o.(*kubenestv1.ManagedCluster)
	requests := r.requests(ctx, client.MatchingFields{indexCluster: record.Namespace + "/" + record.Name})
	var stacks kubenestv1.StackDeployList
	err := r.Client.List(ctx, &stacks, client.MatchingFields{indexStackCluster: record.ID()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "List StackDeploys of a cluster that changed", "cluster", record.ID())
		return requests
	}
	for i := range stacks.Items {
		s := &stacks.Items[i]
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.Project.Name}})
	}
	return requests
}

func (r *Reconciler) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(o.GetName()))
}

func (r *Reconciler) requests(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	var list kubenestv1.ProjectList
	if err := r.Client.List(ctx, &list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "List Projects to look at again")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
