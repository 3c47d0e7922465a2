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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// writeStatus applies an App's status if it changed, and says in an Event what did.
// Of what was decided by an older App than there is, nothing is written.
func (r *Reconciler) writeStatus(ctx context.Context, app *kubenestv1.App, desired *kubenestv1.AppStatus) error {
	if equality.Semantic.DeepEqual(&app.Status, desired) {
		return nil
	}
	content, err := toMap(desired)
	if err != nil {
		return fmt.Errorf("encode status of App %s: %w", app.Name, err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	o.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("App"))
	o.SetNamespace(app.Namespace)
	o.SetName(app.Name)
	o.SetUID(app.UID)
	o.SetResourceVersion(app.ResourceVersion)
	if err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(o),
		client.FieldOwner(kubenestv1.FieldManagerApp), client.ForceOwnership); err != nil {
		return fmt.Errorf("write status of App %s: %w", app.Name, err)
	}
	r.announce(app, desired)
	return nil
}

// announce says in an Event that an App was refused, or that its phase changed.
func (r *Reconciler) announce(app *kubenestv1.App, desired *kubenestv1.AppStatus) {
	before := meta.FindStatusCondition(app.Status.Conditions, kubenestv1.ConditionAccepted)
	after := meta.FindStatusCondition(desired.Conditions, kubenestv1.ConditionAccepted)
	if after != nil && after.Status == metav1.ConditionFalse {
		if before == nil || before.Status != after.Status || before.Reason != after.Reason {
			r.Events.Eventf(app, nil, corev1.EventTypeWarning, after.Reason, "Accept", "%s", wire.Shorten(after.Message, wire.MaxText))
		}
		return
	}
	if app.Status.Phase == desired.Phase || (app.Status.Phase == "" && desired.Phase == kubenestv1.AppPending) {
		return
	}
	kind := corev1.EventTypeNormal
	switch desired.Phase {
	case kubenestv1.AppFailed, kubenestv1.AppDegraded, kubenestv1.AppUnknown:
		kind = corev1.EventTypeWarning
	default:
	}
	reason, message := string(desired.Phase), desired.Message
	if ready := meta.FindStatusCondition(desired.Conditions, kubenestv1.ConditionReady); ready != nil {
		reason, message = ready.Reason, ready.Message
	}
	if message == "" {
		message = string(desired.Phase)
	}
	r.Events.Eventf(app, nil, kind, reason, "Deploy", "%s", wire.Shorten(message, wire.MaxText))
}

// announceMoves says in Events which workloads have moved.
func (r *Reconciler) announceMoves(v *view, p *plan) {
	for _, m := range p.moved {
		r.Events.Eventf(v.app, nil, corev1.EventTypeNormal, kubenestv1.EventMoved, "Deploy",
			"Component %s has moved from cluster %s to %s", m.component, m.from, m.to)
	}
}
