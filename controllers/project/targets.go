// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
)

// target is a cluster on which a Project has its namespace, or is to have it.
type target struct {
	// id of the cluster; empty if the Project's own is not known.
	id string
	// record of the cluster, nil if there is none.
	record *kubenestv1.ManagedCluster
	// stack is the StackDeploy of the namespace, nil if there is none. It is the
	// cache's own: not to be changed.
	stack *kubenestv1.StackDeploy
	// primary is set on the cluster of clusterRef.
	primary bool
	// wanted is set where the namespace is to be; apps, where Apps have something
	// still, so that it must not go.
	wanted, apps bool
	// kept is set where no App needs the namespace any more. It stays until the Project
	// goes: people keep Secrets in it, and addons data.
	kept bool
	// spare is set where nothing is left of the cluster but a StackDeploy.
	spare bool
	// refused says why there is nothing to be made or changed here.
	refused *refusal
}

// refusal is why a Project can not have its namespace on a cluster.
type refusal struct{ reason, message string }

// targets finds the clusters of a Project: its own first, then by name.
func (r *Reconciler) targets(ctx context.Context, p *kubenestv1.Project) ([]*target, error) {
	own, err := clusters.OfProject(ctx, r.Client, p)
	if err != nil {
		return nil, err
	}
	stacks, err := r.stacksOf(ctx, r.Client, p)
	if err != nil {
		return nil, err
	}
	first := &target{primary: true, wanted: true, record: own}
	if own != nil {
		first.id = own.ID()
	}
	others := map[string]*target{}
	for _, s := range stacks {
		t := first
		if s.Spec.ClusterID != first.id {
			if t = others[s.Spec.ClusterID]; t == nil {
				t = &target{id: s.Spec.ClusterID}
				others[t.id] = t
			}
		}
		switch {
		case s.Spec.NamespaceSettings == nil:
			t.apps, t.wanted = true, t.wanted || s.DeletionTimestamp.IsZero()
		case s.Name == kubenestv1.StackName(stackKind, p.Name, t.id):
			t.stack = s
		}
	}
	targets := make([]*target, 0, 1+len(others))
	for _, t := range others {
		if t.record, err = clusters.ByID(ctx, r.Client, t.id); err != nil {
			return nil, err
		}
		t.kept = t.stack != nil && !t.wanted && !t.apps
		// While the Project's own cluster has no record, this may be it.
		t.spare = t.kept && t.record == nil && own != nil
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b *target) int { return strings.Compare(a.name(p)+"/"+a.id, b.name(p)+"/"+b.id) })
	targets = append([]*target{first}, targets...)
	for _, t := range targets {
		if t.refused, err = r.refuse(ctx, p, t); err != nil {
			return nil, err
		}
		if t.refused != nil && t.stack == nil {
			r.unclaim(p, t.id)
		}
	}
	return targets, nil
}

// stacksOf are the StackDeploys of a Project and its Apps. They are the cache's
// own, not to be changed.
func (r *Reconciler) stacksOf(ctx context.Context, c client.Reader, p *kubenestv1.Project) ([]*kubenestv1.StackDeploy, error) {
	var list kubenestv1.StackDeployList
	err := c.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{indexStacks: p.Namespace + "/" + p.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list StackDeploys of Project %s/%s: %w", p.Namespace, p.Name, err)
	}
	stacks := make([]*kubenestv1.StackDeploy, len(list.Items))
	for i := range list.Items {
		stacks[i] = &list.Items[i]
	}
	return stacks, nil
}

// refuse finds out whether a Project may have its namespace on a cluster. One that
// has it keeps it, while the cluster's record is being deleted, too.
func (r *Reconciler) refuse(ctx context.Context, p *kubenestv1.Project, t *target) (*refusal, error) {
	if !t.wanted {
		return nil, nil //nolint:nilnil // nothing is refused
	}
	name := t.name(p)
	if t.record == nil {
		return &refusal{
			kubenestv1.ReasonClusterNotFound,
			fmt.Sprintf("There is no ManagedCluster %s in namespace %s: register it, or name another in a new Project (clusterRef has name and namespace).",
				p.Spec.ClusterRef.Name, p.ClusterNamespace()),
		}, nil
	}
	owner, err := clusters.ByID(ctx, r.Client, t.id)
	switch {
	case err != nil:
		return nil, err
	case owner == nil || owner.UID != t.record.UID:
		return &refusal{
			kubenestv1.ReasonClusterIDTaken,
			fmt.Sprintf("The id of ManagedCluster %s belongs to an older record: name that one.", name),
		}, nil
	}
	allowed, err := clusters.Allows(ctx, r.Client, t.record, p.Namespace)
	switch {
	case err != nil:
		return nil, err
	case !allowed:
		return &refusal{
			kubenestv1.ReasonClusterNotAllowed,
			fmt.Sprintf("ManagedCluster %s may not be used by Projects of namespace %s: its owner can allow it in spec.allowedProjects.", name, p.Namespace),
		}, nil
	case t.stack != nil:
		r.unclaim(p, t.id)
		return nil, nil //nolint:nilnil // nothing is refused
	case !t.record.DeletionTimestamp.IsZero():
		return &refusal{
			kubenestv1.ReasonClusterDeleting,
			fmt.Sprintf("ManagedCluster %s is being deleted: create a Project on another cluster.", name),
		}, nil
	case t.record.Spec.Abandoned:
		return &refusal{
			kubenestv1.ReasonAbandoned,
			fmt.Sprintf("ManagedCluster %s was given up (spec.abandoned): create a Project on another cluster.", name),
		}, nil
	}
	return r.claim(ctx, p, t)
}

// name of a target's record, as people of the Project's namespace know it.
func (t *target) name(p *kubenestv1.Project) string {
	namespace, name := p.ClusterNamespace(), p.Spec.ClusterRef.Name
	switch {
	case t.record != nil:
		namespace, name = t.record.Namespace, t.record.Name
	case !t.primary:
		return t.id
	}
	if namespace == p.Namespace {
		return name
	}
	return namespace + "/" + name
}
