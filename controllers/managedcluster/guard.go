// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	kubenestv1ac "github.com/kubenest/kubenest/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/controllers/finalizer"
	"github.com/kubenest/kubenest/controllers/status"
)

// guardEvery is how often a record whose deletion waits is looked at again without
// a cause.
const guardEvery = 30 * time.Second

// GuardReconciler holds the records of clusters that Projects or Apps use, with
// InUseFinalizer, and says in condition InUse what a deletion waits for. It runs on
// the leader. While the hub is down, the finalizer holds what the admission policy
// lets pass.
//
// No deletion waits for another in a circle, even when everything of an
// organization is deleted at once. A record waits for its users, as long as they
// can be removed over the session. Its users wait for the record only where they
// can not: once the cluster is away and each of them is being deleted, the record
// goes first, and they are let go because it is gone.
type GuardReconciler struct {
	// Client reads from the cache, with the indexes of Index and IndexUsers.
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock
}

// SetupWithManager adds the controller to the leader's manager.
func (r *GuardReconciler) SetupWithManager(mgr ctrl.Manager) error {
	specChanged := builder.WithPredicates(predicate.GenerationChangedPredicate{}) // deletion counts, too
	err := builder.ControllerManagedBy(mgr).
		Named("cluster-guard").
		For(&kubenestv1.ManagedCluster{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: guardWorthy})).
		Watches(&kubenestv1.Project{}, handler.EnqueueRequestsFromMapFunc(r.ofProject), specChanged).
		Watches(&kubenestv1.StackDeploy{}, handler.EnqueueRequestsFromMapFunc(r.ofStack), specChanged).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set cluster-guard up: %w", err)
	}
	return nil
}

// guardWorthy leaves the many status writes out.
func guardWorthy(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || !e.ObjectNew.GetDeletionTimestamp().IsZero() ||
		!slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
}

// Reconcile holds one record, or lets it go.
func (r *GuardReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var record kubenestv1.ManagedCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &record); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	users, err := r.usersOf(ctx, &record)
	if err != nil {
		return ctrl.Result{}, err
	}
	wait, err := r.guard(ctx, &record, users)
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

func (r *GuardReconciler) guard(ctx context.Context, record *kubenestv1.ManagedCluster, users clusterUsers) (wait time.Duration, err error) {
	held := slices.Contains(record.Finalizers, kubenestv1.InUseFinalizer)
	deleting := !record.DeletionTimestamp.IsZero()
	switch {
	case len(users) == 0 || record.Spec.Abandoned:
		return 0, r.release(ctx, record, users)
	case !deleting && held:
		return 0, r.write(ctx, record, nil)
	case !deleting:
		return 0, r.hold(ctx, record)
	case !held:
		return 0, nil // nothing can hold it any more
	}
	wait = guardEvery
	if users.leaving() {
		away, left := unreachable(record, r.Clock.Now())
		if away {
			return 0, r.release(ctx, record, users)
		}
		wait = min(wait, left)
	}
	return wait, r.write(ctx, record, &metav1.Condition{
		Type: kubenestv1.ConditionInUse, Status: metav1.ConditionTrue, Reason: kubenestv1.ReasonClusterInUse, Message: users.waitMessage(),
	})
}

// unreachable reports whether nothing can be removed from a cluster, and if not
// how long until that is so at the earliest. One whose operator was never there has
// nothing to remove.
func unreachable(record *kubenestv1.ManagedCluster, now time.Time) (away bool, left time.Duration) {
	c := meta.FindStatusCondition(record.Status.Conditions, kubenestv1.ConditionConnected)
	if c == nil || c.Reason == kubenestv1.ReasonNeverConnected {
		return true, 0
	}
	connected, since := clusters.Connected(record)
	if connected {
		return false, clusters.AwayAfter
	}
	left = clusters.AwayAfter - now.Sub(since)
	return left <= 0, max(left, 0)
}

// hold puts the finalizer on.
func (r *GuardReconciler) hold(ctx context.Context, record *kubenestv1.ManagedCluster) error {
	apply := kubenestv1ac.ManagedCluster(record.Name, record.Namespace).
		WithUID(record.UID).
		WithResourceVersion(record.ResourceVersion).
		WithFinalizers(kubenestv1.InUseFinalizer)
	if err := r.Client.Apply(ctx, apply, client.FieldOwner(kubenestv1.FieldManagerGuard), client.ForceOwnership); err != nil {
		return fmt.Errorf("hold %s/%s: %w", record.Namespace, record.Name, err)
	}
	return nil
}

// release takes the finalizer off, whoever else may have put it there, and says
// what stays behind.
func (r *GuardReconciler) release(ctx context.Context, record *kubenestv1.ManagedCluster, users clusterUsers) error {
	if !slices.Contains(record.Finalizers, kubenestv1.InUseFinalizer) {
		return r.write(ctx, record, nil)
	}
	if err := finalizer.Remove(ctx, r.Client, record, kubenestv1.InUseFinalizer, kubenestv1.FieldManagerGuard); err != nil {
		return err
	}
	if len(users) > 0 {
		r.Events.Eventf(record, nil, corev1.EventTypeWarning, kubenestv1.EventLeftBehind, "Release", "%s", note(users.leftMessage()))
	}
	return nil
}

// write applies the condition of FieldManagerGuard, or takes it away, if that
// changes anything, and tells of it when it is new.
func (r *GuardReconciler) write(ctx context.Context, record *kubenestv1.ManagedCluster, condition *metav1.Condition) error {
	before := meta.FindStatusCondition(record.Status.Conditions, kubenestv1.ConditionInUse)
	desired := record.Status.DeepCopy()
	if condition == nil {
		meta.RemoveStatusCondition(&desired.Conditions, kubenestv1.ConditionInUse)
	} else {
		status.Set(&desired.Conditions, *condition, record.Generation, metav1.NewTime(r.Clock.Now()).Rfc3339Copy())
	}
	if equality.Semantic.DeepEqual(&record.Status, desired) {
		return nil
	}
	apply := kubenestv1ac.ManagedCluster(record.Name, record.Namespace).
		WithUID(record.UID).
		WithResourceVersion(record.ResourceVersion).
		WithStatus(kubenestv1ac.ManagedClusterStatus().
			WithConditions(status.Apply(desired.Conditions, kubenestv1.ConditionInUse)...))
	err := r.Client.Status().Apply(ctx, apply, client.FieldOwner(kubenestv1.FieldManagerGuard), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write what %s/%s is used by: %w", record.Namespace, record.Name, err)
	}
	if before == nil && condition != nil {
		r.Events.Eventf(record, nil, corev1.EventTypeWarning, condition.Reason, "Delete", "%s", note(condition.Message))
	}
	return nil
}
