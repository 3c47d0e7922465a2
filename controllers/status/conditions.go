// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status holds what every controller's status writes have in common.
package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Set puts a condition into a list for a given generation of the spec. The
// transition time moves only when the condition's status does, so that setting
// what is already true changes nothing.
func Set(conditions *[]metav1.Condition, c metav1.Condition, generation int64, now metav1.Time) {
	c.ObservedGeneration = generation
	c.LastTransitionTime = now
	if old := meta.FindStatusCondition(*conditions, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	meta.SetStatusCondition(conditions, c)
}

// Apply converts those of the conditions that a field manager owns. The order is
// that of types, so that equal conditions give equal requests.
func Apply(conditions []metav1.Condition, types ...string) []*metav1ac.ConditionApplyConfiguration {
	owned := make([]*metav1ac.ConditionApplyConfiguration, 0, len(types))
	for _, t := range types {
		c := meta.FindStatusCondition(conditions, t)
		if c == nil {
			continue
		}
		owned = append(owned, metav1ac.Condition().
			WithType(c.Type).
			WithStatus(c.Status).
			WithReason(c.Reason).
			WithMessage(c.Message).
			WithObservedGeneration(c.ObservedGeneration).
			WithLastTransitionTime(c.LastTransitionTime))
	}
	return owned
}
