// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// keepMoving keeps workloads where they were until they run where they are to be.
// For a cluster that was given up, or whose record is gone, nothing is kept: what
// it runs is out of reach. An addon is not kept either, since two of them would
// export the same.
func keepMoving(v *view, p *plan) {
	for i := range v.stacks {
		s := &v.stacks[i]
		id := s.Spec.ClusterID
		if !s.DeletionTimestamp.IsZero() {
			continue
		}
		for n := range s.Spec.Components {
			old := &s.Spec.Components[n]
			wanted, place := find(v.components, old.Name), v.places[old.Name]
			if wanted == nil || place.ID() == id || old.WorkloadSpec == nil || wanted.WorkloadSpec == nil {
				continue
			}
			if settled(v, wanted, place.ID()) {
				p.moved = append(p.moved, move{old.Name, v.clusterName(id), v.nameOf(place)})
				continue
			}
			if from := v.records[id]; from == nil || from.Spec.Abandoned {
				continue
			}
			spec := p.specs[id]
			if spec == nil {
				// Nothing else is to run there: it stays just as it is.
				spec = s.Spec.DeepCopy()
				spec.Components, spec.Paused = nil, false
				p.specs[id] = spec
			}
			spec.Components = append(spec.Components, *old.DeepCopy())
		}
	}
}

// settled reports whether a component runs on a cluster just as it is wanted.
func settled(v *view, wanted *kubenestv1.Component, id string) bool {
	s := v.present(id)
	if s == nil || !reported(s) || heldIn(s, wanted.Name) != nil {
		return false
	}
	there := find(s.Spec.Components, wanted.Name)
	return there != nil && sameComponent(there, wanted) && phaseIn(s, wanted.Name) == kubenestv1.AppRunning
}

// sameComponent reports whether two components are the same but for where they run.
func sameComponent(a, b *kubenestv1.Component) bool {
	x, y := *a, *b
	x.ClusterID, y.ClusterID = "", ""
	x.DependsOn, y.DependsOn = nil, nil
	return same(&x, &y)
}

// movingFrom names the clusters on which a workload is kept until it runs in its
// new place.
func movingFrom(v *view, c *kubenestv1.Component) []string {
	place := v.places[c.Name]
	if c.WorkloadSpec == nil || place == nil {
		return nil
	}
	var from []string
	for i := range v.stacks {
		s := &v.stacks[i]
		record := v.records[s.Spec.ClusterID]
		if s.Spec.ClusterID == place.ID() || !s.DeletionTimestamp.IsZero() || record == nil || record.Spec.Abandoned {
			continue
		}
		if find(s.Spec.Components, c.Name) != nil {
			from = append(from, v.nameOf(record))
		}
	}
	return from
}

// clusterName is the name of a cluster's record, or its id if there is none.
func (v *view) clusterName(id string) string {
	if record := v.records[id]; record != nil {
		return v.nameOf(record)
	}
	return id
}

// reported reports whether a StackDeploy's status is about its present spec.
func reported(s *kubenestv1.StackDeploy) bool {
	return s.Status.Source != nil && s.Status.Source.Generation == s.Generation &&
		(s.Status.Source.UID == "" || s.Status.Source.UID == string(s.UID))
}

// componentIn is what a cluster reported of a component, nil if nothing.
func componentIn(s *kubenestv1.StackDeploy, name string) *kubenestv1.ComponentStatus {
	for i := range s.Status.Components {
		if s.Status.Components[i].Name == name {
			return &s.Status.Components[i]
		}
	}
	return nil
}

func phaseIn(s *kubenestv1.StackDeploy, name string) kubenestv1.AppPhase {
	if c := componentIn(s, name); c != nil {
		return c.Phase
	}
	return ""
}

func heldIn(s *kubenestv1.StackDeploy, name string) *kubenestv1.HeldComponent {
	for i := range s.Spec.Held {
		if s.Spec.Held[i].Name == name {
			return &s.Spec.Held[i]
		}
	}
	return nil
}
