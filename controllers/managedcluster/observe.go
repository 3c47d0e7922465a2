// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/status"
)

// complaint is what a connected operator complains about; empty without one.
type complaint struct {
	// failed is an error that the operator cannot mend.
	failed string
	// unreachable says why it cannot reach its cluster's API server.
	unreachable string
}

func complaintOf(facts *wire.Facts) complaint {
	return complaint{failed: facts.Error, unreachable: facts.Unreachable}
}

// conclude completes a status whose Connected condition has been set: the
// summary conditions, the phase and its words, and what kubectl prints. It is
// idempotent and reads no clock, so that a record at rest is never written.
func conclude(record *kubenestv1.ManagedCluster, desired *kubenestv1.ManagedClusterStatus, c complaint, now metav1.Time) {
	summary := kubenestv1.Summarize(&record.Spec, desired.Conditions, c.failed, c.unreachable)
	for _, t := range summaryTypes {
		if meta.FindStatusCondition(summary, t) == nil {
			meta.RemoveStatusCondition(&desired.Conditions, t)
		}
	}
	for _, condition := range summary {
		status.Set(&desired.Conditions, condition, record.Generation, now)
	}

	phase := kubenestv1.ComputePhase(&record.Spec, desired.Conditions)
	desired.Phase, desired.Reason, desired.Message = phase.Phase, phase.Reason, phase.Message
	desired.Since = nil
	if !phase.Since.IsZero() {
		since := phase.Since
		desired.Since = &since
	}
	desired.ObservedGeneration = record.Generation

	desired.Columns = nil
	if meta.IsStatusConditionTrue(desired.Conditions, kubenestv1.ConditionConnected) && c.unreachable == "" {
		desired.Columns = columnsOf(desired.Resources)
	}
}

var summaryTypes = []string{
	kubenestv1.ConditionReady, kubenestv1.ConditionReconciling, kubenestv1.ConditionStalled,
}

// setConnected sets the condition that everything else follows from.
func setConnected(record *kubenestv1.ManagedCluster, desired *kubenestv1.ManagedClusterStatus, connected metav1.ConditionStatus, reason, message string, now metav1.Time) {
	status.Set(&desired.Conditions, metav1.Condition{
		Type: kubenestv1.ConditionConnected, Status: connected, Reason: reason, Message: message,
	}, record.Generation, now)
}

// setDisconnected ends the session in a status: nobody holds one, but epoch,
// processes and the last figures stay.
func setDisconnected(record *kubenestv1.ManagedCluster, desired *kubenestv1.ManagedClusterStatus, reason, message string, lastHeard *metav1.MicroTime, now metav1.Time) {
	if s := desired.Session; s != nil && s.Replica != "" {
		s.Replica, s.ID, s.ConnectedAt, s.ClockOffset = "", "", nil, ""
		s.LastHeardAt = lastHeard
	}
	setConnected(record, desired, metav1.ConditionFalse, reason, message, now)
	conclude(record, desired, complaint{}, now)
}
