// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// hold puts the finalizer on an App, before anything is made for it.
func (r *Reconciler) hold(ctx context.Context, app *kubenestv1.App) error {
	before := app.DeepCopy()
	if !controllerutil.AddFinalizer(app, kubenestv1.RemovalFinalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, app, patch, client.FieldOwner(kubenestv1.FieldManagerApp)); err != nil {
		return fmt.Errorf("put finalizer on App %s: %w", app.Name, err)
	}
	return nil
}

// write applies the StackDeploys that differ, and deletes those that are not wanted
// any more. What was written is in the view afterwards.
func (r *Reconciler) write(ctx context.Context, v *view, p *plan) error {
	for _, id := range slices.Sorted(maps.Keys(p.specs)) {
		if err := r.writeStack(ctx, v, p.specs[id]); err != nil {
			return err
		}
	}
	if p.frozen {
		return nil
	}
	for i := range v.stacks {
		s := &v.stacks[i]
		if p.specs[s.Spec.ClusterID] != nil || !s.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.remove(ctx, s); err != nil {
			return err
		}
	}
	r.announceMoves(v, p)
	return nil
}

// remove deletes a StackDeploy, which its finalizer holds until its cluster has
// nothing of it any more.
func (r *Reconciler) remove(ctx context.Context, s *kubenestv1.StackDeploy) error {
	err := r.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete StackDeploy %s: %w", s.Name, err)
	}
	s.DeletionTimestamp = new(s.CreationTimestamp) // when exactly does not matter here
	return nil
}

// writeStack applies one StackDeploy if it differs from what there is.
func (r *Reconciler) writeStack(ctx context.Context, v *view, spec *kubenestv1.StackDeploySpec) error {
	existing := v.stack(spec.ClusterID)
	wanted, err := stackObject(v.app, spec)
	if err != nil {
		return err
	}
	switch {
	case existing == nil:
		if err := r.ensureAbsent(ctx, client.ObjectKeyFromObject(wanted)); err != nil {
			return err
		}
	case !existing.DeletionTimestamp.IsZero():
		return nil // made anew when it is gone
	case same(spec, &existing.Spec) && carries(existing, wanted):
		return nil
	default:
		// Of what was decided by an older one than there is, nothing is written.
		wanted.SetUID(existing.UID)
		wanted.SetResourceVersion(existing.ResourceVersion)
	}
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted),
		client.FieldOwner(kubenestv1.FieldManagerApp), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply StackDeploy %s: %w", wanted.GetName(), err)
	}
	var stored kubenestv1.StackDeploy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(wanted.Object, &stored); err != nil {
		return fmt.Errorf("read StackDeploy %s: %w", wanted.GetName(), err)
	}
	if !same(spec, &stored.Spec) {
		// Somebody else has added something, which applying leaves alone.
		stored.Spec = *spec.DeepCopy()
		if err := r.Client.Update(ctx, &stored, client.FieldOwner(kubenestv1.FieldManagerApp)); err != nil {
			return fmt.Errorf("restore StackDeploy %s: %w", stored.Name, err)
		}
	}
	if existing != nil {
		*existing = stored
	} else {
		v.stacks = append(v.stacks, stored)
	}
	return nil
}

// ensureAbsent makes sure that what the cache does not have is not there: what was
// decided without it would undo it.
func (r *Reconciler) ensureAbsent(ctx context.Context, key client.ObjectKey) error {
	o := metadata(kubenestv1.GroupVersion.WithKind("StackDeploy"))
	err := r.Live.Get(ctx, key, o)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for StackDeploy %s: %w", key, err)
	}
	return conflict("StackDeploy", key.Name)
}

// stackObject is a StackDeploy to apply.
func stackObject(app *kubenestv1.App, spec *kubenestv1.StackDeploySpec) (*unstructured.Unstructured, error) {
	content, err := toMap(spec)
	if err != nil {
		return nil, fmt.Errorf("encode StackDeploy: %w", err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	o.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("StackDeploy"))
	o.SetNamespace(app.Namespace)
	o.SetName(kubenestv1.StackName("app", app.Name, spec.ClusterID))
	o.SetLabels(map[string]string{
		kubenestv1.AppLabel:     kubenestv1.LabelValue(app.Name),
		kubenestv1.ProjectLabel: kubenestv1.LabelValue(spec.Project.Name),
		kubenestv1.ClusterLabel: spec.ClusterID,
	})
	o.SetFinalizers([]string{kubenestv1.RemovalFinalizer})
	return o, nil
}

// carries reports whether a StackDeploy has the labels and finalizers that it is to
// have.
func carries(existing, wanted client.Object) bool {
	for key, value := range wanted.GetLabels() {
		if existing.GetLabels()[key] != value {
			return false
		}
	}
	return controllerutil.ContainsFinalizer(existing, kubenestv1.RemovalFinalizer)
}

// conflict is the error of something that is newer than the cache.
func conflict(kind, name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, fmt.Errorf("it is newer than what is cached"))
}

// conflictIfExists takes something that exists, though the cache did not have it,
// for a conflict.
func conflictIfExists(err error, doing string) error {
	if apierrors.IsAlreadyExists(err) {
		return conflict("object", doing)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// same reports whether two objects are the same in JSON.
func same(a, b any) bool {
	x, errX := canonicalJSON(a)
	y, errY := canonicalJSON(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// canonicalJSON is the same for the same content, however values in it were written.
func canonicalJSON(o any) ([]byte, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var content any
	if err := decoder.Decode(&content); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return json.Marshal(content)
}

// toMap is an object as it is applied.
func toMap(o any) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	return content, nil
}
