// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	kubenestv1ac "github.com/kubenest/kubenest/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/status"
)

// sessionWriter is the only way to write the fields of FieldManagerSession.
type sessionWriter struct {
	client client.Client
	events events.EventRecorder
}

// write applies the session-owned fields of desired if they differ from the
// record's, and reports the transition in an Event. The record's resourceVersion
// fences the write: if anything was written since the record was read, the API
// server answers with a conflict and nothing changes. A conflict needs no retry
// by the caller, since the newer record is on its way to every reconciler.
func (w *sessionWriter) write(ctx context.Context, record *kubenestv1.ManagedCluster, desired *kubenestv1.ManagedClusterStatus) error {
	if equality.Semantic.DeepEqual(&record.Status, desired) {
		return nil
	}
	apply := kubenestv1ac.ManagedCluster(record.Name, record.Namespace).
		WithUID(record.UID).
		WithResourceVersion(record.ResourceVersion).
		WithStatus(sessionFields(desired))
	err := w.client.Status().Apply(ctx, apply, client.FieldOwner(kubenestv1.FieldManagerSession), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write session status of %s/%s: %w", record.Namespace, record.Name, err)
	}
	w.announce(record, desired)
	return nil
}

// announce says in Events what changed, and nothing when nothing did.
func (w *sessionWriter) announce(record *kubenestv1.ManagedCluster, desired *kubenestv1.ManagedClusterStatus) {
	for _, t := range []string{kubenestv1.ConditionConnected, kubenestv1.ConditionStalled} {
		before := meta.FindStatusCondition(record.Status.Conditions, t)
		after := meta.FindStatusCondition(desired.Conditions, t)
		switch {
		case after == nil || (before != nil && before.Status == after.Status):
		case before == nil && after.Reason == kubenestv1.ReasonNeverConnected:
		case t == kubenestv1.ConditionConnected && after.Status == "True":
			w.events.Eventf(record, nil, "Normal", after.Reason, "Connect", "%s", note(after.Message))
		default:
			w.events.Eventf(record, nil, "Warning", after.Reason, "Observe", "%s", note(after.Message))
		}
	}
}

// note fits a message into an Event: the API server drops one that is longer.
func note(message string) string {
	const maxNote = 1024
	return wire.Shorten(message, maxNote)
}

// sessionFields lists every field that FieldManagerSession owns: server-side
// apply removes one that is left out.
func sessionFields(s *kubenestv1.ManagedClusterStatus) *kubenestv1ac.ManagedClusterStatusApplyConfiguration {
	ac := kubenestv1ac.ManagedClusterStatus().
		WithConditions(status.Apply(s.Conditions, kubenestv1.ConditionConnected,
			kubenestv1.ConditionReady, kubenestv1.ConditionReconciling, kubenestv1.ConditionStalled)...).
		WithObservedGeneration(s.ObservedGeneration).
		WithPhase(s.Phase)
	if s.Reason != "" {
		ac.WithReason(s.Reason)
	}
	if s.Message != "" {
		ac.WithMessage(s.Message)
	}
	if s.ClusterUID != "" {
		ac.WithClusterUID(s.ClusterUID)
	}
	if s.KubernetesVersion != "" {
		ac.WithKubernetesVersion(s.KubernetesVersion)
	}
	if s.OperatorVersion != "" {
		ac.WithOperatorVersion(s.OperatorVersion)
	}
	ac.Since, ac.NodeCount = s.Since, s.NodeCount
	if s.Session != nil {
		ac.WithSession(sessionStatus(s.Session))
	}
	if r := s.Resources; r != nil {
		resources := kubenestv1ac.ClusterResources()
		resources.CPUTotal, resources.CPUUsed = r.CPUTotal, r.CPUUsed
		resources.MemTotal, resources.MemUsed = r.MemTotal, r.MemUsed
		resources.ObservedAt = r.ObservedAt
		if r.Source != "" {
			resources.WithSource(r.Source)
		}
		ac.WithResources(resources)
	}
	if c := s.Columns; c != nil {
		ac.WithColumns(kubenestv1ac.Columns().WithCPU(c.CPU).WithMemory(c.Memory))
	}
	return ac
}

func sessionStatus(s *kubenestv1.SessionStatus) *kubenestv1ac.SessionStatusApplyConfiguration {
	ac := kubenestv1ac.SessionStatus().WithEpoch(s.Epoch).WithTokenGeneration(s.TokenGeneration)
	if s.Replica != "" {
		ac.WithReplica(s.Replica).WithID(s.ID)
	}
	if s.Process != "" {
		ac.WithProcess(s.Process)
	}
	if s.PreviousProcess != "" {
		ac.WithPreviousProcess(s.PreviousProcess)
	}
	if s.ClockOffset != "" {
		ac.WithClockOffset(s.ClockOffset)
	}
	ac.PreviousSince, ac.ConnectedAt, ac.LastHeardAt = s.PreviousSince, s.ConnectedAt, s.LastHeardAt
	return ac
}
