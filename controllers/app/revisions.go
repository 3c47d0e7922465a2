// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

const (
	// keptRevisions of an App, the one that it pins included.
	keptRevisions = 10
	// revisionAnnotation on a ControllerRevision is its number: metadata only is cached.
	revisionAnnotation = "kubenest.io/revision"
)

// revision is a set of components that an App had.
type revision struct {
	number int64
	// name of the ControllerRevision, empty while there is none.
	name string
	hash string
}

// revisionData is the content of a ControllerRevision.
type revisionData struct {
	Components []kubenestv1.Component `json:"components"`
}

// readRevisions finds out which components are to run.
func (r *Reconciler) readRevisions(ctx context.Context, v *view) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(revisionKind.GroupVersion().WithKind(revisionKind.Kind + "List"))
	err := r.inputs.List(ctx, list, client.InNamespace(v.app.Namespace),
		client.MatchingLabels{kubenestv1.AppLabel: kubenestv1.LabelValue(v.app.Name)})
	if err != nil {
		return fmt.Errorf("list revisions of App %s: %w", v.app.Name, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		number, err := strconv.ParseInt(o.Annotations[revisionAnnotation], 10, 64)
		if err != nil || !ownedBy(o, v.app) {
			continue // not one that this controller made for this App
		}
		v.history = append(v.history, revision{number, o.Name, o.Labels[appsv1.ControllerRevisionHashLabelKey]})
	}
	slices.SortFunc(v.history, func(a, b revision) int { return cmp.Compare(a.number, b.number) })
	v.components = v.app.Spec.Components
	if v.latest, err = v.latestRevision(); err != nil {
		return err
	}
	if err := r.skipNumbers(ctx, v); err != nil {
		return err
	}
	pin := v.app.Spec.RollbackTo
	if pin == 0 {
		v.wanted = v.latest
		return nil
	}
	for _, kept := range v.history {
		if kept.number == pin {
			return r.pin(ctx, v, kept)
		}
	}
	return nil
}

// pin has the components of a revision run.
func (r *Reconciler) pin(ctx context.Context, v *view, kept revision) error {
	var o appsv1.ControllerRevision
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: v.app.Namespace, Name: kept.name}, &o); err != nil {
		return fmt.Errorf("read revision %s: %w", kept.name, err)
	}
	var data revisionData
	if err := json.Unmarshal(o.Data.Raw, &data); err != nil {
		return fmt.Errorf("read revision %s: %w", kept.name, err)
	}
	if len(data.Components) == 0 {
		return fmt.Errorf("read revision %s: %w", kept.name, errors.New("it has no components"))
	}
	v.wanted, v.components = kept, data.Components
	return nil
}

// latestRevision is that of the components in the spec: the last one that is kept if
// it is the same, otherwise one that is to be made.
func (v *view) latestRevision() (revision, error) {
	canonical, err := canonicalJSON(v.app.Spec.Components)
	if err != nil {
		return revision{}, fmt.Errorf("encode components: %w", err)
	}
	next := revision{number: 1, hash: digest(canonical)}
	if len(v.history) > 0 {
		last := v.history[len(v.history)-1]
		if last.hash == next.hash {
			return last, nil
		}
		next.number = last.number + 1
	}
	return next, nil
}

// skipNumbers keeps numbers from coming again when somebody has deleted the last
// revisions.
func (r *Reconciler) skipNumbers(ctx context.Context, v *view) error {
	last := v.app.Status.LatestRevision
	if v.latest.name != "" || v.latest.number > last {
		return nil
	}
	name := revisionName(v.app, last)
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: v.app.Namespace, Name: name}, metadata(revisionKind))
	switch {
	case apierrors.IsNotFound(err):
		v.latest.number = last + 1
		return nil
	case err != nil:
		return fmt.Errorf("read revision %s: %w", name, err)
	}
	return conflict("ControllerRevision", name)
}

// revisionName has the uid in it, since those of an earlier App of the same name may
// be there still.
func revisionName(app *kubenestv1.App, number int64) string {
	return fmt.Sprintf("%s-%s-%d", app.Name, digest([]byte(app.UID))[:8], number)
}

// keepRevision makes the spec's revision if there is none, and prunes old ones.
func (r *Reconciler) keepRevision(ctx context.Context, v *view) error {
	if v.latest.name == "" {
		if err := r.createRevision(ctx, v); err != nil {
			return err
		}
	}
	for _, old := range excess(v.history, v.app.Spec.RollbackTo) {
		o := metadata(revisionKind)
		o.SetNamespace(v.app.Namespace)
		o.SetName(old.name)
		err := r.Client.Delete(ctx, o)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("prune revision %s: %w", old.name, err)
		}
	}
	return nil
}

func (r *Reconciler) createRevision(ctx context.Context, v *view) error {
	raw, err := json.Marshal(revisionData{v.app.Spec.Components})
	if err != nil {
		return fmt.Errorf("encode components: %w", err)
	}
	number := strconv.FormatInt(v.latest.number, 10)
	o := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v.app.Namespace,
			Name:      revisionName(v.app, v.latest.number),
			Labels: map[string]string{
				kubenestv1.AppLabel:                   kubenestv1.LabelValue(v.app.Name),
				appsv1.ControllerRevisionHashLabelKey: v.latest.hash,
			},
			Annotations:     map[string]string{revisionAnnotation: number},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(v.app, kubenestv1.GroupVersion.WithKind("App"))},
		},
		Data:     runtime.RawExtension{Raw: raw},
		Revision: v.latest.number,
	}
	if err := r.Client.Create(ctx, o, client.FieldOwner(kubenestv1.FieldManagerApp)); err != nil {
		return conflictIfExists(err, fmt.Sprintf("create revision %s", o.Name))
	}
	v.latest.name = o.Name
	if v.app.Spec.RollbackTo == 0 {
		v.wanted = v.latest
	}
	v.history = append(v.history, v.latest)
	r.Events.Eventf(v.app, nil, corev1.EventTypeNormal, kubenestv1.EventRevisionCreated, "Deploy",
		"Revision %d of the components was recorded", v.latest.number)
	return nil
}

// excess are the revisions to prune: the oldest, but never the pinned one.
func excess(history []revision, pinned int64) []revision {
	var old []revision
	for _, h := range history {
		if len(history)-len(old) <= keptRevisions {
			break
		}
		if h.number != pinned {
			old = append(old, h)
		}
	}
	return old
}
