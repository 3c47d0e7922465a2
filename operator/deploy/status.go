// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	kubenestv1ac "github.com/kubenest/kubenest/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// Bounds of the API, in bytes and in entries.
const (
	maxMessage    = 4096
	maxDrift      = 1024
	maxWaiting    = 512
	maxWaitingFor = 32
	maxComponents = 128
)

// write applies the status if it differs, and says in an Event what was put right. The
// UID keeps it off another object of the same name.
func (r *Reconciler) write(ctx context.Context, p *pass) error {
	if len(p.drift) > 0 {
		p.status.Drift = wire.Line(strings.Join(p.drift, "; "), maxDrift)
		p.status.DriftedAt = new(metav1.NewTime(p.now))
	}
	p.status.Message = wire.Line(p.status.Message, maxMessage)
	// Times are kept to the second.
	p.status = *truncate(&p.status)
	if !equality.Semantic.DeepEqual(&p.status, &p.stack.Status) {
		ac := kubenestv1ac.StackDeploy(p.stack.Name, p.stack.Namespace).WithUID(p.stack.UID).WithStatus(statusFields(&p.status))
		err := r.o.Client.Status().Apply(ctx, ac, client.FieldOwner(kubenestv1.FieldManagerOperator), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("write the status of StackDeploy %s: %w", p.stack.Name, err)
		}
	}
	if len(p.drift) > 0 {
		r.o.Events.Eventf(p.stack, nil, "Normal", kubenestv1.EventDriftCorrected, "Correct", "%s", p.status.Drift)
	}
	return nil
}

// truncate times as the API server does, so that what was written compares equal.
func truncate(s *kubenestv1.StackDeployStatus) *kubenestv1.StackDeployStatus {
	s = s.DeepCopy()
	cut := func(t *metav1.Time) {
		if t != nil {
			*t = t.Rfc3339Copy()
		}
	}
	cut(s.DriftedAt)
	for i := range s.Conditions {
		cut(&s.Conditions[i].LastTransitionTime)
	}
	for i := range s.Components {
		cut(s.Components[i].Since)
	}
	return s
}

// statusFields lists all fields that the operator owns: server-side apply removes one
// that is left out.
func statusFields(s *kubenestv1.StackDeployStatus) *kubenestv1ac.StackDeployStatusApplyConfiguration {
	ac := kubenestv1ac.StackDeployStatus().WithObservedGeneration(s.ObservedGeneration)
	for _, c := range s.Conditions {
		ac.WithConditions(metav1ac.Condition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).WithMessage(c.Message).
			WithObservedGeneration(c.ObservedGeneration).WithLastTransitionTime(c.LastTransitionTime))
	}
	if s.Phase != "" {
		ac.WithPhase(s.Phase)
	}
	if s.Message != "" {
		ac.WithMessage(s.Message)
	}
	for i := range s.Components {
		ac.WithComponents(componentFields(&s.Components[i]))
	}
	if s.Source != nil {
		source := kubenestv1ac.StackSource().WithNamespace(s.Source.Namespace).WithName(s.Source.Name)
		if s.Source.UID != "" {
			source.WithUID(s.Source.UID)
		}
		if s.Source.Generation != 0 {
			source.WithGeneration(s.Source.Generation)
		}
		if s.Source.Digest != "" {
			source.WithDigest(s.Source.Digest)
		}
		ac.WithSource(source)
	}
	ac.WithWaiting(s.Waiting...)
	ac.DriftedAt = s.DriftedAt
	if s.Drift != "" {
		ac.WithDrift(s.Drift)
	}
	return ac
}

func componentFields(c *kubenestv1.ComponentStatus) *kubenestv1ac.ComponentStatusApplyConfiguration {
	ac := kubenestv1ac.ComponentStatus().WithName(c.Name)
	if c.Type != "" {
		ac.WithType(c.Type)
	}
	if c.Phase != "" {
		ac.WithPhase(c.Phase)
	}
	if c.Reason != "" {
		ac.WithReason(c.Reason)
	}
	if c.Message != "" {
		ac.WithMessage(c.Message)
	}
	if c.Image != "" {
		ac.WithImage(c.Image)
	}
	ac.ReadyReplicas, ac.DesiredReplicas, ac.Since = c.ReadyReplicas, c.DesiredReplicas, c.Since
	ac.WithExports(c.Exports...)
	if c.ExportsRevision != "" {
		ac.WithExportsRevision(c.ExportsRevision)
	}
	ac.WithWarnings(c.Warnings...)
	return ac
}
