// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubenest/kubenest/operator/delivery"
)

// Forget removes the record of a release and leaves its objects as they are: for an
// addon that Helm does not keep any more. It says what it waits for; nothing when there
// is no record, or another's.
func (m *Manager) Forget(ctx context.Context, a *delivery.Addon) ([]string, error) {
	name := releaseName(a)
	if m.working(a, wish{try: removing}) != nil { // which ends it
		return []string{"Helm, which is still at release " + name}, nil
	}
	r, err := newRights(ctx, m.config, a.Target.Namespace)
	if err != nil {
		return nil, err
	}
	records := r.metadata.Resource(secrets).Namespace(r.namespace)
	list, err := records.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + name + "," + ownerLabel + "=" + label(a.Target.Owner)})
	if err != nil {
		return nil, fmt.Errorf("look release %s up: %w", name, err)
	}
	for i := range list.Items {
		uid := list.Items[i].UID
		err := records.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("remove the record of release %s: %w", name, err)
		}
	}
	m.drop(a)
	return nil, nil
}
