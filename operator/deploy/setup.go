// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

const (
	// namespaceIndex and appIndex find StackDeploys by what they target.
	namespaceIndex = "spec.namespace"
	appIndex       = "spec.namespace/app"

	// settle gathers the events of a rollout: one pass sees them all.
	settle = 300 * time.Millisecond

	// Retries of what failed for a reason that may pass.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 2 * time.Minute
)

// appKinds are cached and watched where they have AppLabel.
func appKinds() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &batchv1.Job{}, &corev1.Pod{}, &corev1.Service{},
		&networkingv1.Ingress{}, &autoscalingv2.HorizontalPodAutoscaler{},
	}
}

// CacheOptions of the manager that a Reconciler runs in. namespace is the operator's
// own. What is not kubenest's is not cached, and Secrets are not at all.
func CacheOptions(namespace string) cache.Options {
	having := func(label string) labels.Selector {
		r, err := labels.NewRequirement(label, selection.Exists, nil)
		if err != nil {
			return labels.Nothing() // the labels are constants
		}
		return labels.NewSelector().Add(*r)
	}
	byObject := map[client.Object]cache.ByObject{
		&kubenestv1.StackDeploy{}: {Namespaces: map[string]cache.Config{namespace: {}}},
		&corev1.Namespace{}:       {Label: having(kubenestv1.ProjectLabel)},
	}
	for _, kind := range appKinds() {
		byObject[kind] = cache.ByObject{Label: having(kubenestv1.AppLabel)}
	}
	return cache.Options{ByObject: byObject, DefaultTransform: cache.TransformStripManagedFields()}
}

// SetupWithManager has the manager run the controller. A process may do so again with a
// new Reconciler and a new manager, each time that it becomes the one that acts.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	indexer := mgr.GetFieldIndexer()
	err := indexer.IndexField(ctx, &kubenestv1.StackDeploy{}, namespaceIndex, func(o client.Object) []string {
		s, ok := o.(*kubenestv1.StackDeploy)
		if !ok {
			return nil
		}
		return []string{s.Spec.Namespace}
	})
	if err != nil {
		return fmt.Errorf("index StackDeploys by namespace: %w", err)
	}
	err = indexer.IndexField(ctx, &kubenestv1.StackDeploy{}, appIndex, func(o client.Object) []string {
		s, ok := o.(*kubenestv1.StackDeploy)
		if !ok || s.Spec.App == "" {
			return nil
		}
		return []string{s.Spec.Namespace + "/" + kubenestv1.LabelValue(s.Spec.App)}
	})
	if err != nil {
		return fmt.Errorf("index StackDeploys by App: %w", err)
	}
	again := true
	b := ctrl.NewControllerManagedBy(mgr).
		Named("deploy").
		For(&kubenestv1.StackDeploy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&kubenestv1.StackDeploy{}, r.later(r.neighbours), builder.WithPredicates(settled())).
		Watches(&corev1.Namespace{}, r.later(r.inNamespace)).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.queue.Store(&requests{q})
			return nil
		})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.o.Workers,
			SkipNameValidation:      &again,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	for _, kind := range appKinds() {
		b = b.Watches(kind, r.later(r.ofApp))
	}
	for _, from := range r.o.Sources {
		b = b.WatchesRawSource(from)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the deploy controller: %w", err)
	}
	return nil
}

// ofApp finds the StackDeploys that an object's labels name.
func (r *Reconciler) ofApp(ctx context.Context, o client.Object) []types.NamespacedName {
	return r.find(ctx, client.MatchingFields{appIndex: o.GetNamespace() + "/" + o.GetLabels()[kubenestv1.AppLabel]})
}

// inNamespace finds the StackDeploys that target a namespace.
func (r *Reconciler) inNamespace(ctx context.Context, o client.Object) []types.NamespacedName {
	return r.find(ctx, client.MatchingFields{namespaceIndex: o.GetName()})
}

// neighbours finds those that wait for another StackDeploy of their namespace: Apps for
// their Project's, when that is ready, and the Project's for its Apps, when they go.
func (r *Reconciler) neighbours(ctx context.Context, o client.Object) []types.NamespacedName {
	s, ok := o.(*kubenestv1.StackDeploy)
	if !ok {
		return nil
	}
	return r.find(ctx, client.MatchingFields{namespaceIndex: s.Spec.Namespace})
}

// settled passes on that a Project's namespace became ready or otherwise, and that a
// StackDeploy is gone.
func settled() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*kubenestv1.StackDeploy)
			after, ok2 := e.ObjectNew.(*kubenestv1.StackDeploy)
			return ok1 && ok2 && after.Spec.NamespaceSettings != nil && before.Status.Phase != after.Status.Phase
		},
	}
}

func (r *Reconciler) find(ctx context.Context, by client.MatchingFields) []types.NamespacedName {
	var list kubenestv1.StackDeployList
	if err := r.o.Client.List(ctx, &list, client.InNamespace(r.o.Namespace), by, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has ended, and with it the queue
	}
	names := make([]types.NamespacedName, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, client.ObjectKeyFromObject(&list.Items[i]))
	}
	return names
}

// later has what find finds looked at in a moment, with what else happens until then.
func (r *Reconciler) later(find func(context.Context, client.Object) []types.NamespacedName) handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, o client.Object, q queue) {
		for _, name := range find(ctx, o) {
			q.AddAfter(reconcile.Request{NamespacedName: name}, settle)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() { // and not a resync
				add(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { add(ctx, e.Object, q) },
	}
}
