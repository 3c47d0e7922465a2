// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/finalizer"
)

// remove has the operator remove what a deleted StackDeploy made, once a session:
// the operator answers at once if it knows of none. The answer ends the waiting.
func (r *DeliveryReconciler) remove(ctx context.Context, t *task) (again time.Duration, err error) {
	switch {
	case !controllerutil.ContainsFinalizer(t.stack, kubenestv1.RemovalFinalizer):
		return 0, nil
	case t.view.removed:
		return 0, release(ctx, r.Client, t.stack)
	case !t.view.asked:
		if !r.Mailbox.ask(&t.info, t.key) {
			return paced, nil
		}
		if err := r.Sessions.Send(t.info.ClusterID, t.info.SessionID, wire.TypeRemove, wire.Remove{Stack: t.key}); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Removal not asked for", "cluster", t.info.ClusterID, "reason", err.Error())
			return 0, nil // its next session derives it again
		}
		return quiet, nil // most are answered before, and cost no write
	}
	want, _, err := r.Mailbox.delivery(t.stack)
	if err != nil {
		return 0, err
	}
	m := moment{
		stack: t.stack, record: t.record, want: want, held: t.view.held, report: t.view.report,
		outcome: undelivered(kubenestv1.ReasonRemoving, fmt.Sprintf("Cluster %s removes it.", t.cluster())),
		now:     metav1.NewTime(r.Clock.Now()).Rfc3339Copy(),
	}
	desired, used := observe(&m)
	again, written, err := r.write(ctx, t, &desired)
	if written && used && err == nil {
		r.Mailbox.worked(&t.info, t.key, t.view.report, nil)
	}
	return again, err
}

// release lets go of a StackDeploy of which nothing is left, or which is given up.
func release(ctx context.Context, c client.Client, stack *kubenestv1.StackDeploy) error {
	return client.IgnoreNotFound(finalizer.Remove(ctx, c, stack, kubenestv1.RemovalFinalizer, kubenestv1.FieldManagerDelivery))
}
