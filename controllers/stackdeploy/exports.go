// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// keepExports writes the exports that came into Secrets. refused says of each
// component why its exports can't be kept; exported are those that are done with,
// because they are written or are not this cluster's to say.
func (r *DeliveryReconciler) keepExports(ctx context.Context, t *task) (refused map[string]string, exported map[string]*wire.Exports, err error) {
	exported = map[string]*wire.Exports{}
	if len(t.view.exports) == 0 {
		return nil, exported, nil
	}
	app, err := r.appOf(ctx, t.stack)
	if err != nil {
		return nil, nil, err
	}
	for _, component := range slices.Sorted(maps.Keys(t.view.exports)) {
		e := t.view.exports[component]
		problem := ""
		switch {
		case app == nil:
		case e.Data != nil && !listsAddon(t.stack, component):
			r.Mailbox.metrics.dropped(droppedUnknown)
		default:
			problem, err = r.keep(ctx, t, app, e)
			if apierrors.IsInvalid(err) { // names that a Secret can not have
				r.Mailbox.metrics.dropped(droppedInvalid)
				err = nil
			}
		}
		switch {
		case err != nil:
			return nil, nil, err
		case problem == "":
			exported[component] = e
		default:
			if refused == nil {
				refused = map[string]string{}
			}
			refused[component] = problem
		}
	}
	return refused, exported, nil
}

// appOf is the App that a StackDeploy is of, nil if it is gone or going.
func (r *DeliveryReconciler) appOf(ctx context.Context, stack *kubenestv1.StackDeploy) (*kubenestv1.App, error) {
	if stack.Spec.App == "" {
		return nil, nil //nolint:nilnil // a Project's namespace is of no App
	}
	var app kubenestv1.App
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: stack.Namespace, Name: stack.Spec.App}, &app)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // that there is none is an answer
	case err != nil:
		return nil, fmt.Errorf("read App %s/%s: %w", stack.Namespace, stack.Spec.App, err)
	case !app.DeletionTimestamp.IsZero():
		return nil, nil //nolint:nilnil // nothing is made for it any more
	}
	return &app, nil
}

// listsAddon reports whether a StackDeploy has an addon: the word of a cluster on
// which it does not run counts for nothing.
func listsAddon(stack *kubenestv1.StackDeploy, component string) bool {
	return slices.ContainsFunc(stack.Spec.Components, func(c kubenestv1.Component) bool {
		return c.Name == component && c.Type == kubenestv1.ComponentAddon
	})
}

// keep makes the Secret of an addon's exports what the operator says; without data
// it goes. problem says why that can not be.
func (r *DeliveryReconciler) keep(ctx context.Context, t *task, app *kubenestv1.App, e *wire.Exports) (problem string, err error) {
	key := client.ObjectKey{Namespace: app.Namespace, Name: kubenestv1.ExportsSecretName(app.Name, e.Component)}
	var present corev1.Secret
	err = r.Live.Get(ctx, key, &present)
	missing := apierrors.IsNotFound(err)
	switch {
	case err != nil && !missing:
		return "", fmt.Errorf("read exports %s: %w", key, err)
	case missing && e.Data == nil:
		return "", nil
	case missing:
		if err := r.Client.Create(ctx, exportsSecret(t, app, e), client.FieldOwner(kubenestv1.FieldManagerDelivery)); err != nil {
			return "", fmt.Errorf("write exports %s: %w", key, err)
		}
		return "", nil
	case present.Labels[kubenestv1.ExportsLabel] != "true" || !metav1.IsControlledBy(&present, app):
		if e.Data == nil {
			return "", nil // it is not ours to delete
		}
		return notOurs(key), nil
	case e.Data == nil && present.Labels[kubenestv1.ClusterLabel] != t.stack.Spec.ClusterID:
		return "", nil // the addon has moved, and these are its new cluster's
	case e.Data == nil:
		gone := client.Preconditions{UID: &present.UID, ResourceVersion: &present.ResourceVersion}
		err = r.Client.Delete(ctx, &present, gone)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("delete exports %s: %w", key, err)
		}
		return "", nil
	}
	wanted := exportsSecret(t, app, e)
	desired := present.DeepCopy()
	desired.Data = wanted.Data
	desired.Labels = merged(desired.Labels, wanted.Labels)
	desired.Annotations = merged(desired.Annotations, wanted.Annotations)
	if equality.Semantic.DeepEqual(&present, desired) {
		return "", nil
	}
	if err := r.Client.Update(ctx, desired, client.FieldOwner(kubenestv1.FieldManagerDelivery)); err != nil {
		return "", fmt.Errorf("write exports %s: %w", key, err)
	}
	return "", nil
}

// notOurs says that a Secret is in the way. It is how it is recognised, too: it
// contains nothing that changes.
func notOurs(key client.ObjectKey) string {
	return fmt.Sprintf("Secret %s exists and was not made by kubenest for this App, so that the exports can not be kept: rename or delete it.", key)
}

func exportsSecret(t *task, app *kubenestv1.App, e *wire.Exports) *corev1.Secret {
	controller := true
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: app.Namespace, Name: kubenestv1.ExportsSecretName(app.Name, e.Component),
			Labels: map[string]string{
				kubenestv1.ExportsLabel:   "true",
				kubenestv1.ManagedByLabel: kubenestv1.ManagedBy,
				kubenestv1.AppLabel:       kubenestv1.LabelValue(app.Name),
				kubenestv1.ComponentLabel: kubenestv1.LabelValue(e.Component),
				kubenestv1.ProjectLabel:   kubenestv1.LabelValue(t.stack.Spec.Project.Name),
				kubenestv1.ClusterLabel:   t.stack.Spec.ClusterID,
			},
			Annotations: map[string]string{kubenestv1.ExportsRevisionAnnotation: e.Revision},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: kubenestv1.GroupVersion.String(), Kind: "App", Name: app.Name, UID: app.UID, Controller: &controller,
			}},
		},
		Type: corev1.SecretTypeOpaque,
		Data: e.Data,
	}
}

func merged(present, wanted map[string]string) map[string]string {
	all := maps.Clone(present)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, wanted)
	return all
}
