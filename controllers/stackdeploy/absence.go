// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
)

// AbsenceReconciler speaks for the StackDeploys of clusters that nobody holds, and
// lets go of those that are deleted on clusters that were given up or whose record
// is gone. It runs on the leader.
type AbsenceReconciler struct {
	// Client reads from the cache, which has the indexes of Index and of clusters.
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock
}

// SetupWithManager adds the controller to the leader's manager.
func (r *AbsenceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := builder.ControllerManagedBy(mgr).
		Named("stack-absence").
		For(&kubenestv1.StackDeploy{}).
		Watches(&kubenestv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster(r.Client)), builder.WithPredicates(clusterMoved)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set stack-absence up: %w", err)
	}
	return nil
}

// Reconcile brings the status of a StackDeploy up to date whose cluster nobody holds.
func (r *AbsenceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var stack kubenestv1.StackDeploy
	if err := r.Client.Get(ctx, req.NamespacedName, &stack); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	record, err := clusters.ByID(ctx, r.Client, stack.Spec.ClusterID)
	if err != nil {
		return ctrl.Result{}, err
	}
	var again time.Duration
	switch {
	case !stack.DeletionTimestamp.IsZero() && (record == nil || record.Spec.Abandoned):
		err = r.leave(ctx, &stack, record)
	case record != nil && sessionID(record) != "": // its holder speaks
	default:
		again, err = r.away(ctx, &stack, record)
	}
	if apierrors.IsConflict(err) { // what was written meanwhile is on its way
		return ctrl.Result{RequeueAfter: paced}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// away says that a cluster is away, and comes back when that is for long.
func (r *AbsenceReconciler) away(ctx context.Context, stack *kubenestv1.StackDeploy, record *kubenestv1.ManagedCluster) (again time.Duration, err error) {
	now := r.Clock.Now()
	a := &absence{stack: stack, record: record, since: awaySince(record), now: metav1.NewTime(now).Rfc3339Copy()}
	left := clusters.AwayAfter - now.Sub(a.since)
	a.long = record == nil || record.Spec.Abandoned || left <= 0
	desired := absent(a)
	if err := writeStatus(ctx, r.Client, stack, &desired); err != nil {
		return 0, err
	}
	if a.long {
		return 0, nil
	}
	return left, nil
}

// leave lets go of a deleted StackDeploy whose cluster nobody can reach any more, and
// says what stays there.
func (r *AbsenceReconciler) leave(ctx context.Context, stack *kubenestv1.StackDeploy, record *kubenestv1.ManagedCluster) error {
	if !controllerutil.ContainsFinalizer(stack, kubenestv1.RemovalFinalizer) {
		return nil
	}
	if err := release(ctx, r.Client, stack); err != nil {
		return err
	}
	if record != nil && neverConnected(record) {
		return nil // nothing ever got there
	}
	local := kubenestv1.LocalName(&kubenestv1.StackSource{Namespace: stack.Namespace, Name: stack.Name})
	byHand := fmt.Sprintf(`kubectl -n kubenest-system patch stackdeploy %s --type=merge -p '{"spec":{"removed":true}}'`, local)
	if record == nil {
		r.Events.Eventf(stack, nil, corev1.EventTypeWarning, kubenestv1.EventLeftBehind, "Release", "%s", note(fmt.Sprintf(
			"The record of cluster %s is gone, and what this made stays there in namespace %s. To remove it, run there: %s",
			stack.Spec.ClusterID, stack.Spec.Namespace, byHand)))
		return nil
	}
	r.Events.Eventf(record, stack, corev1.EventTypeWarning, kubenestv1.EventLeftBehind, "Release", "%s", note(fmt.Sprintf(
		"The cluster was given up, and what StackDeploy %s made stays there in namespace %s. To remove it, run there: %s",
		stackOf(stack), stack.Spec.Namespace, byHand)))
	return nil
}
