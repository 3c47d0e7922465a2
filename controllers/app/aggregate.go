// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/status"
)

// reasonPattern is that of a condition's reason.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// maxClusters bounds the names of clusters in a status, in bytes.
const maxClusters = 1024

// aggregate computes an App's status from what its clusters reported. It is pure:
// with the same view it gives the same status, so that an App at rest is never
// written.
func aggregate(v *view, refused *refusal) *kubenestv1.AppStatus {
	s := v.app.Status.DeepCopy()
	s.ObservedGeneration = v.app.Generation
	s.Components = componentStatuses(v, refused)
	running := 0
	var clusters []string
	for i := range s.Components {
		c := &s.Components[i]
		if c.Phase == kubenestv1.AppRunning {
			running++
		}
		if c.Cluster != "" && !slices.Contains(clusters, c.Cluster) {
			clusters = append(clusters, c.Cluster)
		}
	}
	s.Ready = fmt.Sprintf("%d/%d", running, len(s.Components))
	s.Clusters = wire.Shorten(strings.Join(clusters, ","), maxClusters)
	if refused == nil {
		s.Revision, s.LatestRevision = v.wanted.number, v.latest.number
	}
	decided := worst(s.Components)
	s.Phase, s.Message = decided.Phase, ""
	if decided.Phase != kubenestv1.AppRunning && decided.Message != "" {
		s.Message = wire.Shorten(decided.Name+": "+decided.Message, wire.MaxText)
	}
	summarize(v, s, decided, refused)
	return s
}

// summarize sets the conditions, and the phase where it is not the components'.
func summarize(v *view, s *kubenestv1.AppStatus, decided *kubenestv1.ComponentStatus, refused *refusal) {
	accepted := metav1.Condition{
		Type: kubenestv1.ConditionAccepted, Status: metav1.ConditionTrue,
		Reason: kubenestv1.ReasonAccepted, Message: "The spec can be deployed.",
	}
	if held := s.LatestRevision != s.Revision && refused == nil; held {
		accepted.Message = fmt.Sprintf("spec.rollbackTo holds revision %d: spec.components, which are revision %d, are not deployed until it is 0.",
			s.Revision, s.LatestRevision)
		if s.Message == "" {
			s.Message = accepted.Message
		}
	}
	ready := metav1.Condition{Type: kubenestv1.ConditionReady, Status: metav1.ConditionFalse, Reason: decided.Reason, Message: s.Message}
	var summary *metav1.Condition // Reconciling or Stalled
	switch {
	case refused != nil:
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, refused.reason, refused.message
		s.Message = refused.message
		if len(v.stacks) == 0 {
			s.Phase = kubenestv1.AppFailed
		} else {
			s.Message = wire.Shorten(refused.message+" What ran before keeps running.", wire.MaxText)
		}
		ready.Reason, ready.Message = refused.reason, s.Message
		summary = &metav1.Condition{Type: kubenestv1.ConditionStalled}
	case v.app.Spec.Paused:
		s.Phase = kubenestv1.AppPaused
		s.Message = "spec.paused is set: what runs keeps running, and changes wait."
		ready.Reason, ready.Message = kubenestv1.ReasonPaused, s.Message
	default:
		switch s.Phase {
		case kubenestv1.AppRunning:
			ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, kubenestv1.ReasonRunning, "All components run."
		case kubenestv1.AppFailed:
			summary = &metav1.Condition{Type: kubenestv1.ConditionStalled}
		case kubenestv1.AppUnknown:
			ready.Status = metav1.ConditionUnknown
		case kubenestv1.AppPending, kubenestv1.AppDeploying:
			summary = &metav1.Condition{Type: kubenestv1.ConditionReconciling}
		default: // Degraded: nothing is on its way, and nothing is stuck
		}
	}
	if !reasonPattern.MatchString(ready.Reason) {
		ready.Reason = string(s.Phase) // what a cluster reported need not be one
	}
	for _, t := range []string{kubenestv1.ConditionReconciling, kubenestv1.ConditionStalled} {
		if summary == nil || summary.Type != t {
			meta.RemoveStatusCondition(&s.Conditions, t)
		}
	}
	now := metav1.NewTime(v.now).Rfc3339Copy()
	status.Set(&s.Conditions, accepted, v.app.Generation, now)
	status.Set(&s.Conditions, ready, v.app.Generation, now)
	if summary != nil {
		summary.Status, summary.Reason, summary.Message = metav1.ConditionTrue, ready.Reason, ready.Message
		status.Set(&s.Conditions, *summary, v.app.Generation, now)
	}
}

// severity orders phases: that of the component that is worst off is the App's.
var severity = []kubenestv1.AppPhase{
	kubenestv1.AppFailed, kubenestv1.AppDegraded, kubenestv1.AppUnknown,
	kubenestv1.AppDeploying, kubenestv1.AppPending, kubenestv1.AppPaused, kubenestv1.AppRunning,
}

// worst is the first of the components that are worst off.
func worst(components []kubenestv1.ComponentStatus) *kubenestv1.ComponentStatus {
	for _, phase := range severity {
		for i := range components {
			if components[i].Phase == phase {
				return &components[i]
			}
		}
	}
	return &kubenestv1.ComponentStatus{Phase: kubenestv1.AppPending}
}

// componentStatuses are those of the components that are to run, or, of an App that
// was refused, of what runs.
func componentStatuses(v *view, refused *refusal) []kubenestv1.ComponentStatus {
	statuses := make([]kubenestv1.ComponentStatus, 0, len(v.components))
	for i := range v.components {
		c := &v.components[i]
		if refused != nil {
			statuses = append(statuses, *refusedStatus(v, c, refused))
			continue
		}
		statuses = append(statuses, *componentStatus(v, c, v.places[c.Name].ID()))
	}
	if refused != nil {
		statuses = append(statuses, leftovers(v)...)
	}
	now := metav1.NewTime(v.now).Rfc3339Copy()
	for i := range statuses {
		s := &statuses[i]
		s.Since = now.DeepCopy()
		for n := range v.app.Status.Components {
			if before := &v.app.Status.Components[n]; before.Name == s.Name && before.Phase == s.Phase && before.Since != nil {
				s.Since = before.Since.DeepCopy()
			}
		}
	}
	return statuses
}

// refusedStatus is that of a component of an App that was refused: where it runs it
// is as it is there.
func refusedStatus(v *view, c *kubenestv1.Component, refused *refusal) *kubenestv1.ComponentStatus {
	for i := range v.stacks {
		if s := &v.stacks[i]; s.DeletionTimestamp.IsZero() && find(s.Spec.Components, c.Name) != nil {
			return componentStatus(v, c, s.Spec.ClusterID)
		}
	}
	s := &kubenestv1.ComponentStatus{
		Name: c.Name, Type: c.Type, Phase: kubenestv1.AppPending, Reason: refused.reason,
		Message: "It is not deployed, since the App's spec was refused.",
	}
	if place := v.places[c.Name]; place != nil {
		s.Cluster, s.ClusterID = v.nameOf(place), place.ID()
	}
	return s
}

// leftovers are components that run, and that the spec, which was refused, has not.
func leftovers(v *view) []kubenestv1.ComponentStatus {
	var statuses []kubenestv1.ComponentStatus
	for i := range v.stacks {
		s := &v.stacks[i]
		for n := range s.Spec.Components {
			c := &s.Spec.Components[n]
			listed := find(v.components, c.Name) != nil ||
				slices.ContainsFunc(statuses, func(o kubenestv1.ComponentStatus) bool { return o.Name == c.Name })
			if !listed && len(v.components)+len(statuses) < maxStatuses {
				statuses = append(statuses, *componentStatus(v, c, s.Spec.ClusterID))
			}
		}
	}
	return statuses
}

// maxStatuses is how many components the status has room for.
const maxStatuses = 64
