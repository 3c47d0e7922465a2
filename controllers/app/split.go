// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"
	"slices"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// plan is what an App's StackDeploys are to be.
type plan struct {
	// specs to apply, by cluster id. Of clusters that are left out and have a
	// StackDeploy, it is deleted.
	specs map[string]*kubenestv1.StackDeploySpec
	// only these are written while the App is paused; nothing is deleted then.
	frozen bool
	// moved are the workloads that now run elsewhere and end where they were.
	moved []move
}

// move of a workload from one cluster to another.
type move struct{ component, from, to string }

// makePlan splits an accepted App into StackDeploys, one a cluster. It is pure.
func makePlan(v *view) (*plan, *refusal) {
	if v.app.Spec.Paused {
		return freeze(v), nil
	}
	p := &plan{specs: map[string]*kubenestv1.StackDeploySpec{}}
	for i := range v.components {
		c := v.components[i].DeepCopy()
		record := v.places[c.Name]
		spec := p.specs[record.ID()]
		if spec == nil {
			spec = v.specFor(record)
			p.specs[record.ID()] = spec
		}
		if s := v.present(record.ID()); s != nil {
			if old := find(s.Spec.Components, c.Name); old != nil && old.Type != c.Type {
				continue // a type can not change: what it was goes first
			}
		}
		c.ClusterID = ""
		spec.Components = append(spec.Components, *c)
	}
	keepMoving(v, p)
	for _, id := range slices.Sorted(maps.Keys(p.specs)) {
		spec := p.specs[id]
		if len(spec.Components) == 0 {
			delete(p.specs, id)
			continue
		}
		for i := range spec.Components {
			dependLocally(spec, &spec.Components[i])
		}
		var refused *refusal
		if spec.Inputs, refused = inputsFor(v, id, spec); refused != nil {
			return nil, refused
		}
		spec.Held = heldOn(v, id, spec)
		// What is as it was stays of the revision that it was of: nothing is delivered.
		if s := v.present(id); s != nil {
			as := *spec
			as.Revision = s.Spec.Revision
			if same(&as, &s.Spec) {
				spec.Revision = s.Spec.Revision
			}
		}
	}
	return p, nil
}

// freeze leaves everything as it is, and says so to the clusters.
func freeze(v *view) *plan {
	p := &plan{specs: map[string]*kubenestv1.StackDeploySpec{}, frozen: true}
	for i := range v.stacks {
		if s := &v.stacks[i]; s.DeletionTimestamp.IsZero() {
			spec := s.Spec.DeepCopy()
			spec.Paused = true
			p.specs[spec.ClusterID] = spec
		}
	}
	return p
}

// specFor is a spec for a cluster, without its components.
func (v *view) specFor(record *kubenestv1.ManagedCluster) *kubenestv1.StackDeploySpec {
	spec := &kubenestv1.StackDeploySpec{
		ClusterID: record.ID(),
		Namespace: v.project.TargetNamespace(),
		Project:   kubenestv1.ProjectKey{Namespace: v.project.Namespace, Name: v.project.Name},
		App:       v.app.Name,
		Revision:  v.wanted.number,
		Delivery:  v.delivery(record),
		Timeout:   v.app.Spec.Timeout.DeepCopy(),
		Grants:    record.Spec.Grants.DeepCopy(),
	}
	spec.RestartedAt = v.app.Spec.RestartedAt.DeepCopy()
	if spec.Delivery == kubenestv1.DeliveryArgoCD {
		spec.GitOps = record.Spec.GitOps.DeepCopy()
	}
	return spec
}

// dependLocally leaves out the dependencies on components of other clusters, which
// the operator can not see: the hub holds the component for these.
func dependLocally(spec *kubenestv1.StackDeploySpec, c *kubenestv1.Component) {
	c.DependsOn = slices.DeleteFunc(slices.Clone(c.DependsOn), func(name string) bool { return find(spec.Components, name) == nil })
	if len(c.DependsOn) == 0 {
		c.DependsOn = nil
	}
}
