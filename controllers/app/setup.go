// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// SetupWithManager adds the controller to the leader's manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	cached, err := newInputs(mgr)
	if err != nil {
		return err
	}
	r.inputs, r.digests = cached, lru.New(keptDigests)
	err = builder.ControllerManagedBy(mgr).
		Named("app").
		For(&kubenestv1.App{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&kubenestv1.StackDeploy{}, handler.EnqueueRequestsFromMapFunc(ofStack)).
		Watches(&kubenestv1.Project{}, handler.EnqueueRequestsFromMapFunc(r.inProject), builder.WithPredicates(projectChanged)).
		Watches(&kubenestv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(r.onCluster), builder.WithPredicates(clusterChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Kind(cached.Cache, metadata(secretKind), handler.TypedEnqueueRequestsFromMapFunc(ofOwner))).
		WatchesRawSource(source.Kind(cached.Cache, metadata(revisionKind), handler.TypedEnqueueRequestsFromMapFunc(ofOwner))).
		WatchesRawSource(source.Kind(cached.Cache, metadata(configMapKind), handler.TypedEnqueueRequestsFromMapFunc(r.withChart))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set app up: %w", err)
	}
	return nil
}

// projectChanged lets through what an App's acceptance depends on.
var projectChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*kubenestv1.Project), e.ObjectNew.(*kubenestv1.Project)
		return before.Generation != after.Generation ||
			!equality.Semantic.DeepEqual(stalled(before.Status.Conditions), stalled(after.Status.Conditions)) ||
			!equality.Semantic.DeepEqual(before.Status.Clusters, after.Status.Clusters)
	},
}

// clusterChanged lets through what matters of a cluster to what runs on it, and not
// its figures.
var clusterChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*kubenestv1.ManagedCluster), e.ObjectNew.(*kubenestv1.ManagedCluster)
		return before.Generation != after.Generation ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			connection(before) != connection(after)
	},
}

func connection(record *kubenestv1.ManagedCluster) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(record.Status.Conditions, kubenestv1.ConditionConnected); c != nil {
		return c.Status
	}
	return ""
}

func stalled(conditions []metav1.Condition) *metav1.Condition {
	if c := meta.FindStatusCondition(conditions, kubenestv1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

// ofStack names the App of a StackDeploy.
func ofStack(_ context.Context, o client.Object) []reconcile.Request {
	s := o.(*kubenestv1.StackDeploy)
	if s.Spec.App == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.App}}}
}

// ofOwner names the App that an object is owned by.
func ofOwner(_ context.Context, o *metav1.PartialObjectMetadata) []reconcile.Request {
	var requests []reconcile.Request
	for _, owner := range o.OwnerReferences {
		if owner.Kind == "App" && owner.APIVersion == kubenestv1.GroupVersion.String() {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.Namespace, Name: owner.Name}})
		}
	}
	return requests
}

// inProject names the Apps of a Project.
func (r *Reconciler) inProject(ctx context.Context, o client.Object) []reconcile.Request {
	return r.apps(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexProject: o.GetName()})
}

// inNamespace names the Apps of a namespace whose labels changed.
func (r *Reconciler) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.apps(ctx, client.InNamespace(o.GetName()))
}

// withChart names the Apps that take a chart from a ConfigMap, or did so when they
// were deployed last.
func (r *Reconciler) withChart(ctx context.Context, o *metav1.PartialObjectMetadata) []reconcile.Request {
	requests := r.apps(ctx, client.InNamespace(o.Namespace), client.MatchingFields{indexChart: o.Name})
	return append(requests, r.ofStacks(ctx, func(s *kubenestv1.StackDeploy) bool {
		for _, in := range s.Spec.Inputs {
			if in.Kind == kubenestv1.InputChart && in.Name == o.Name {
				return true
			}
		}
		return false
	}, client.InNamespace(o.Namespace))...)
}

// onCluster names the Apps that have something on a cluster, or are to have.
func (r *Reconciler) onCluster(ctx context.Context, o client.Object) []reconcile.Request {
	record := o.(*kubenestv1.ManagedCluster)
	qualified := record.Namespace + "/" + record.Name
	requests := r.ofStacks(ctx, func(*kubenestv1.StackDeploy) bool { return true }, client.MatchingFields{indexStackCluster: record.ID()})
	for _, ref := range []string{record.ID(), record.Name, qualified} {
		requests = append(requests, r.apps(ctx, client.MatchingFields{indexClusterRef: ref})...)
	}
	var projects kubenestv1.ProjectList
	if err := r.Client.List(ctx, &projects, client.MatchingFields{indexProjectCluster: qualified}); err != nil {
		log.FromContext(ctx).Error(err, "List Projects of a cluster", "cluster", qualified)
		return requests
	}
	for i := range projects.Items {
		requests = append(requests, r.inProject(ctx, &projects.Items[i])...)
	}
	return requests
}

// ofStacks names the Apps of those StackDeploys that are wanted.
func (r *Reconciler) ofStacks(ctx context.Context, wanted func(*kubenestv1.StackDeploy) bool, opts ...client.ListOption) []reconcile.Request {
	var stacks kubenestv1.StackDeployList
	if err := r.Client.List(ctx, &stacks, opts...); err != nil {
		log.FromContext(ctx).Error(err, "List StackDeploys whose Apps to look at again")
		return nil
	}
	var requests []reconcile.Request
	for i := range stacks.Items {
		if wanted(&stacks.Items[i]) {
			requests = append(requests, ofStack(ctx, &stacks.Items[i])...)
		}
	}
	return requests
}

func (r *Reconciler) apps(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	var list kubenestv1.AppList
	if err := r.Client.List(ctx, &list, opts...); err != nil {
		log.FromContext(ctx).Error(err, "List Apps to look at again")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
