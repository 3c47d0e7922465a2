// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	kubenestv1ac "github.com/kubenest/kubenest/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/finalizer"
)

// stackKind tells the names of Projects' StackDeploys from those of Apps'.
const stackKind = "project"

// settleTarget makes or updates the StackDeploy of a namespace, or deletes that of a
// cluster whose record is gone, which leaves the namespace there.
func (r *Reconciler) settleTarget(ctx context.Context, p *kubenestv1.Project, t *target) error {
	switch {
	case t.stack != nil && !t.stack.DeletionTimestamp.IsZero():
		if t.wanted && t.refused == nil {
			return r.letGo(ctx, t.stack)
		}
		return nil
	case t.refused != nil:
		return r.settleGrants(ctx, p, t)
	case t.wanted:
		return r.applyStack(ctx, p, stackSpec(p, t), t)
	case t.spare:
		return r.deleteStack(ctx, t.stack)
	}
	return nil
}

// stackSpec is what a cluster is to know of a Project.
func stackSpec(p *kubenestv1.Project, t *target) kubenestv1.StackDeploySpec {
	return kubenestv1.StackDeploySpec{
		ClusterID: t.id,
		Namespace: p.TargetNamespace(),
		Project:   kubenestv1.ProjectKey{Namespace: p.Namespace, Name: p.Name},
		NamespaceSettings: &kubenestv1.NamespaceSettings{
			Labels: namespaceLabels(p), Quota: p.Spec.Quota, Limits: p.Spec.Limits,
		},
		// Namespace, quota and ServiceAccount are what Argo CD works in, so they do not
		// come through it.
		Delivery: kubenestv1.DeliveryDirect,
		Grants:   t.record.Spec.Grants,
	}
}

// namespaceLabels are the Project's, and one that is always there: server-side apply
// would make null of settings that become empty.
func namespaceLabels(p *kubenestv1.Project) map[string]string {
	labels := map[string]string{kubenestv1.ProjectLabel: kubenestv1.LabelValue(p.Name)}
	maps.Copy(labels, p.Spec.Labels)
	return labels
}

func stackLabels(p *kubenestv1.Project, clusterID string) map[string]string {
	return map[string]string{
		kubenestv1.ProjectLabel: kubenestv1.LabelValue(p.Name),
		kubenestv1.ClusterLabel: clusterID,
	}
}

// settleGrants brings the owner's grants to a namespace that a Project has on a cluster
// that was closed to it. All else of it stays as it is; but what an owner takes back is
// taken back.
func (r *Reconciler) settleGrants(ctx context.Context, p *kubenestv1.Project, t *target) error {
	if t.refused.reason != kubenestv1.ReasonClusterNotAllowed || t.stack == nil {
		return nil
	}
	spec := t.stack.Spec.DeepCopy()
	spec.Grants = t.record.Spec.Grants
	return r.applyStack(ctx, p, *spec, t)
}

// applyStack writes a StackDeploy if it is not as it should be.
func (r *Reconciler) applyStack(ctx context.Context, p *kubenestv1.Project, spec kubenestv1.StackDeploySpec, t *target) error {
	labels := stackLabels(p, t.id)
	if s := t.stack; s != nil && equality.Semantic.DeepEqual(s.Spec, spec) &&
		slices.Contains(s.Finalizers, kubenestv1.RemovalFinalizer) && hasLabels(s.Labels, labels) {
		return nil
	}
	settings := kubenestv1ac.NamespaceSettings().
		WithLabels(spec.NamespaceSettings.Labels).
		WithLimits(spec.NamespaceSettings.Limits...)
	if len(spec.NamespaceSettings.Quota) > 0 {
		settings.WithQuota(spec.NamespaceSettings.Quota)
	}
	fields := kubenestv1ac.StackDeploySpec().
		WithClusterID(spec.ClusterID).
		WithNamespace(spec.Namespace).
		WithProject(kubenestv1ac.ProjectKey().WithNamespace(spec.Project.Namespace).WithName(spec.Project.Name)).
		WithNamespaceSettings(settings).
		WithDelivery(spec.Delivery)
	if g := spec.Grants; g != nil {
		grants := kubenestv1ac.Grants().WithClusterScoped(g.ClusterScoped)
		if g.PodSecurity != "" {
			grants.WithPodSecurity(g.PodSecurity)
		}
		fields.WithGrants(grants)
	}
	name := kubenestv1.StackName(stackKind, p.Name, t.id)
	apply := kubenestv1ac.StackDeploy(name, p.Namespace).
		WithLabels(labels).
		WithFinalizers(kubenestv1.RemovalFinalizer).
		WithSpec(fields)
	if err := r.Client.Apply(ctx, apply, client.FieldOwner(kubenestv1.FieldManagerProject), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply StackDeploy %s/%s: %w", p.Namespace, name, err)
	}
	return nil
}

func hasLabels(present, wanted map[string]string) bool {
	for key, value := range wanted {
		if present[key] != value {
			return false
		}
	}
	return true
}

// letGo ends the deletion of a StackDeploy that is wanted again, as when another App
// came after the last one had left: a deletion can not be taken back, and the operator
// waits for that App. What is made anew is of the same name, and the same namespace.
func (r *Reconciler) letGo(ctx context.Context, s *kubenestv1.StackDeploy) error {
	return client.IgnoreNotFound(finalizer.Remove(ctx, r.Client, s, kubenestv1.RemovalFinalizer, kubenestv1.FieldManagerProject))
}

// deleteStack begins a StackDeploy's removal, if it has not begun.
func (r *Reconciler) deleteStack(ctx context.Context, s *kubenestv1.StackDeploy) error {
	if !s.DeletionTimestamp.IsZero() {
		return nil
	}
	// A copy: the client must not write to the cache's own.
	err := r.Client.Delete(ctx, s.DeepCopy(), client.Preconditions{UID: &s.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete StackDeploy %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}
