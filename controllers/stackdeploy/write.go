// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	kubenestv1ac "github.com/kubenest/kubenest/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// write writes a status if it is another, and not too often for one StackDeploy: an
// operator whose reports change all the time costs a write a second. written is
// false, with the time to wait, while it has to wait.
func (r *DeliveryReconciler) write(ctx context.Context, t *task, desired *kubenestv1.StackDeployStatus) (wait time.Duration, written bool, err error) {
	if equality.Semantic.DeepEqual(&t.stack.Status, desired) {
		return 0, true, nil
	}
	if !r.Mailbox.mayWrite(&t.info, t.key) {
		return writeEvery, false, nil
	}
	if err := writeStatus(ctx, r.Client, t.stack, desired); err != nil {
		return 0, false, err
	}
	r.announce(t.stack, desired)
	return 0, true, nil
}

// announce says in an Event that a delivery can't be made, once for each cause.
func (r *DeliveryReconciler) announce(stack *kubenestv1.StackDeploy, desired *kubenestv1.StackDeployStatus) {
	before := meta.FindStatusCondition(stack.Status.Conditions, kubenestv1.ConditionDelivered)
	after := meta.FindStatusCondition(desired.Conditions, kubenestv1.ConditionDelivered)
	if after == nil || before != nil && before.Reason == after.Reason {
		return
	}
	switch after.Reason {
	case kubenestv1.ReasonOperatorTooOld, kubenestv1.ReasonDeliveryRefused, kubenestv1.ReasonTooLarge, kubenestv1.ReasonInputMissing:
		r.Events.Eventf(stack, nil, corev1.EventTypeWarning, after.Reason, "Deliver", "%s", note(after.Message))
	}
}

// writeStatus is the only way to write a StackDeploy's status: all of it each time,
// since server-side apply removes what is left out, and fenced by resourceVersion. A
// conflict needs no retry by the caller: the newer object is on its way.
func writeStatus(ctx context.Context, c client.Client, stack *kubenestv1.StackDeploy, desired *kubenestv1.StackDeployStatus) error {
	if equality.Semantic.DeepEqual(&stack.Status, desired) {
		return nil
	}
	fields, err := json.Marshal(desired)
	if err != nil {
		return fmt.Errorf("encode status of StackDeploy %s: %w", stackOf(stack), err)
	}
	apply := kubenestv1ac.StackDeployStatus()
	if err := json.Unmarshal(fields, apply); err != nil {
		return fmt.Errorf("encode status of StackDeploy %s: %w", stackOf(stack), err)
	}
	err = c.Status().Apply(ctx,
		kubenestv1ac.StackDeploy(stack.Name, stack.Namespace).WithUID(stack.UID).WithResourceVersion(stack.ResourceVersion).WithStatus(apply),
		client.FieldOwner(kubenestv1.FieldManagerDelivery), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write status of StackDeploy %s: %w", stackOf(stack), err)
	}
	return nil
}
