// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
)

// claimant is a Project that was given a namespace.
type claimant struct {
	key types.NamespacedName
	uid types.UID
}

func claimKey(clusterID, namespace string) string { return clusterID + "/" + namespace }

// claim gives a Project its namespace on a cluster, or says that another has it:
// one that has a StackDeploy for it, deleted or not, or has just been given it; of
// those that only want it, the oldest.
func (r *Reconciler) claim(ctx context.Context, p *kubenestv1.Project, t *target) (*refusal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rival, err := r.holder(ctx, p, t)
	if err == nil && rival == nil {
		rival, err = r.older(ctx, p, t)
	}
	if err != nil {
		return nil, err
	}
	if rival == nil {
		r.claimed[claimKey(t.id, p.TargetNamespace())] = claimant{client.ObjectKeyFromObject(p), p.UID}
		return nil, nil //nolint:nilnil // nothing is refused
	}
	who := "a Project of another organization"
	if rival.Namespace == p.Namespace {
		who = "Project " + rival.Name
	}
	return &refusal{
		kubenestv1.ReasonNamespaceTaken,
		fmt.Sprintf("Namespace %s on cluster %s belongs to %s: create a Project with another spec.namespace.", p.TargetNamespace(), t.name(p), who),
	}, nil
}

// holder is the Project that has the namespace, nil if none has.
func (r *Reconciler) holder(ctx context.Context, p *kubenestv1.Project, t *target) (*types.NamespacedName, error) {
	key, own := claimKey(t.id, p.TargetNamespace()), client.ObjectKeyFromObject(p)
	var stacks kubenestv1.StackDeployList
	if err := r.Client.List(ctx, &stacks, client.MatchingFields{indexClaims: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list StackDeploys of namespace %s: %w", p.TargetNamespace(), err)
	}
	for i := range stacks.Items {
		holder := types.NamespacedName{Namespace: stacks.Items[i].Namespace, Name: stacks.Items[i].Spec.Project.Name}
		if holder != own {
			return &holder, nil
		}
	}
	given, ok := r.claimed[key]
	if !ok || given.key == own {
		return nil, nil //nolint:nilnil // none has
	}
	var other kubenestv1.Project
	err := r.Client.Get(ctx, given.key, &other)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("read Project %s: %w", given.key, err)
	case other.UID == given.uid && other.DeletionTimestamp.IsZero():
		return &given.key, nil
	}
	delete(r.claimed, key)
	return nil, nil //nolint:nilnil // none has
}

// older is an older Project that wants the namespace on its own cluster, and may
// have it; nil if there is none.
func (r *Reconciler) older(ctx context.Context, p *kubenestv1.Project, t *target) (*types.NamespacedName, error) {
	var rivals kubenestv1.ProjectList
	err := r.Client.List(ctx, &rivals, client.MatchingFields{indexNamespace: p.TargetNamespace()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list Projects with namespace %s: %w", p.TargetNamespace(), err)
	}
	for i := range rivals.Items {
		other := &rivals.Items[i]
		if other.UID == p.UID || !other.DeletionTimestamp.IsZero() || !before(other, p) ||
			other.ClusterNamespace() != t.record.Namespace || other.Spec.ClusterRef.Name != t.record.Name {
			continue
		}
		allowed, err := r.mayUse(ctx, other, t.record)
		if err != nil {
			return nil, err
		}
		if allowed {
			return &types.NamespacedName{Namespace: other.Namespace, Name: other.Name}, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// mayUse reports whether a Project is taken up, and may use a cluster.
func (r *Reconciler) mayUse(ctx context.Context, p *kubenestv1.Project, record *kubenestv1.ManagedCluster) (bool, error) {
	organization, err := clusters.IsOrganization(ctx, r.Client, p.Namespace)
	if err != nil || !organization {
		return false, client.IgnoreNotFound(err)
	}
	return clusters.Allows(ctx, r.Client, record, p.Namespace)
}

func before(a, b *kubenestv1.Project) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// unclaim takes what was given back: the Project's StackDeploy shows by now that
// the namespace is its, or it can not have it for another cause.
func (r *Reconciler) unclaim(p *kubenestv1.Project, clusterID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := claimKey(clusterID, p.TargetNamespace())
	if r.claimed[key].key == client.ObjectKeyFromObject(p) {
		delete(r.claimed, key)
	}
}

// remember takes note of a Project that has the finalizer.
func (r *Reconciler) remember(project types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[project] = true
}

// forget drops what was given to a Project, and reports whether it was held.
func (r *Reconciler) forget(project types.NamespacedName) (held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, given := range r.claimed {
		if given.key == project {
			delete(r.claimed, key)
		}
	}
	held = r.held[project]
	delete(r.held, project)
	return held
}
