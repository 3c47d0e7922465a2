// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
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
func (r *RegistrationReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := builder.ControllerManagedBy(mgr).
		Named("cluster-registration").
		For(&kubenestv1.ManagedCluster{}).
		Owns(&corev1.Secret{}).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&kubenestv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofSameID),
			builder.WithPredicates(predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false },
				UpdateFunc: func(e event.UpdateEvent) bool {
					return e.ObjectOld.(*kubenestv1.ManagedCluster).ID() != e.ObjectNew.(*kubenestv1.ManagedCluster).ID()
				},
				GenericFunc: func(event.GenericEvent) bool { return false },
			})).
		WatchesRawSource(source.Func(r.watchChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set cluster-registration up: %w", err)
	}
	return nil
}

// inNamespace names the records of a namespace whose labels changed.
func (r *RegistrationReconciler) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(o.GetName()))
}

// ofSameID names the records that share the cluster id of one that was deleted, or
// the one that another has got or given up.
func (r *RegistrationReconciler) ofSameID(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{indexID: o.(*kubenestv1.ManagedCluster).ID()})
}

// watchChanged has every record looked at again when what all their Secrets hold
// has changed.
func (r *RegistrationReconciler) watchChanged(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	cancel := r.Changed(func() {
		for _, request := range r.requests(ctx) {
			queue.Add(request)
		}
	})
	context.AfterFunc(ctx, cancel)
	return nil
}

func (r *RegistrationReconciler) requests(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	var list kubenestv1.ManagedClusterList
	if err := r.Client.List(ctx, &list, opts...); err != nil {
		log.FromContext(ctx).Error(err, "List clusters to register again")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
