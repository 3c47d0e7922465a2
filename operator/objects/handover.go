// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// HandOver gives what one manager has applied of some objects to another, who is to
// apply them from now on: a field that both had would stay when the other wants it no
// more. Nothing else of the objects changes. Those that are not there, or not the
// target's, are left alone.
func (a *Applier) HandOver(ctx context.Context, t *stack.Target, objects []*unstructured.Unstructured, from, to string) error {
	as, err := a.Client(t.Namespace)
	if err != nil {
		return err
	}
	for _, o := range objects {
		live := emptyOf(o)
		err := as.Get(ctx, client.ObjectKeyFromObject(o), live)
		if meta.IsNoMatchError(err) || client.IgnoreNotFound(err) == nil && err != nil || err == nil && !t.Owns(live) {
			continue
		}
		if err != nil {
			return Explain(err, t, o)
		}
		managed, err := handedOver(live.GetManagedFields(), from, to)
		if err != nil {
			return fmt.Errorf("hand %s over to %s: %w", stack.Describe(o), to, err)
		}
		if managed == nil {
			continue
		}
		patch, err := json.Marshal([]map[string]any{
			{"op": "replace", "path": "/metadata/managedFields", "value": managed},
			{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		})
		if err != nil {
			return fmt.Errorf("hand %s over to %s: %w", stack.Describe(o), to, err)
		}
		a.applied.Remove(keyOf(o)) // what was known of it was for another owner of its fields
		err = as.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(kubenestv1.FieldManagerOperator))
		if client.IgnoreNotFound(err) != nil {
			return Explain(err, t, o)
		}
	}
	return nil
}

// handedOver are managed fields in which what was from's is to's, too; nil if from has
// applied nothing.
func handedOver(managed []metav1.ManagedFieldsEntry, from, to string) ([]metav1.ManagedFieldsEntry, error) {
	applies := func(e *metav1.ManagedFieldsEntry, manager string) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	}
	var out, given []metav1.ManagedFieldsEntry
	for i := range managed {
		if e := managed[i]; applies(&e, from) {
			e.Manager = to
			given = append(given, e)
		} else {
			out = append(out, e)
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	for i := range given {
		joined := false
		for j := range out {
			if e := &out[j]; applies(e, to) && e.APIVersion == given[i].APIVersion {
				fields, err := union(e.FieldsV1, given[i].FieldsV1)
				if err != nil {
					return nil, err
				}
				e.FieldsV1, joined = fields, true
			}
		}
		if !joined {
			out = append(out, given[i])
		}
	}
	return out, nil
}

func union(a, b *metav1.FieldsV1) (*metav1.FieldsV1, error) {
	all := &fieldpath.Set{}
	for _, fields := range []*metav1.FieldsV1{a, b} {
		if fields == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(fields.GetRawReader()); err != nil {
			return nil, fmt.Errorf("read managed fields: %w", err)
		}
		all = all.Union(set)
	}
	text, err := all.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("write managed fields: %w", err)
	}
	return metav1.NewFieldsV1(string(bytes.TrimSpace(text))), nil
}
