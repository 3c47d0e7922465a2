// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package finalizer takes finalizers off, for all controllers alike.
package finalizer

import (
	"context"
	"fmt"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Remove takes a finalizer off an object, whoever else may have put it there: by a
// merge patch, since server-side apply leaves what another manager owns as well. It
// fails with a conflict if the object is newer. The object itself is left as it was.
func Remove(ctx context.Context, c client.Client, object client.Object, finalizer, owner string) error {
	released, ok := object.DeepCopyObject().(client.Object)
	if !ok || !controllerutil.RemoveFinalizer(released, finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, released, patch, client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("take finalizer off %s %s: %w", reflect.TypeOf(object).Elem().Name(), client.ObjectKeyFromObject(object), err)
	}
	return nil
}
