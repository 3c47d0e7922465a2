// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kubenest/kubenest/operator/delivery"
)

// syncedHooks are the hooks that Argo CD runs as Helm does, by their annotations. It
// can do nothing with the others, such as tests and rollbacks.
var syncedHooks = []string{"pre-install", "pre-upgrade", "post-install", "post-upgrade"}

// Render makes the objects of an addon for a Git repository: what Ensure would have
// Helm apply, checked in the same way, CRDs first. Hooks are among them if Argo CD
// understands them; it runs them before and after each sync. It waits for the chart.
// Errors that somebody has to mend are *stack.Problem.
func (m *Manager) Render(ctx context.Context, a *delivery.Addon) ([]*unstructured.Unstructured, error) {
	r, err := newRights(ctx, m.config, a.Target.Namespace)
	if err != nil {
		return nil, err
	}
	p, err := m.plan(ctx, r, a, 1)
	if err != nil {
		return nil, err
	}
	objects := append([]*unstructured.Unstructured{}, p.rendering.Definitions...)
	for i := range p.rendering.Manifests {
		manifest := &p.rendering.Manifests[i]
		events := manifest.HookEvents()
		switch {
		case events == nil: // Helm marks what is no hook, and the same objects are to be there
			objects = append(objects, ofRelease(manifest.Object, releaseName(a), a.Target.Namespace))
		case slices.ContainsFunc(events, func(e string) bool { return slices.Contains(syncedHooks, e) }):
			objects = append(objects, manifest.Object)
		}
	}
	return objects, nil
}
