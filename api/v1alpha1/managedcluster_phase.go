// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase sums a cluster's conditions up for people. Nothing decides on it.
// +kubebuilder:validation:Enum=Pending;Provisioning;AwaitingOperator;Connected;Disconnected;Error
type Phase string

const (
	// PhasePending: recorded; a registered cluster waits here for its operator.
	PhasePending Phase = "Pending"
	// PhaseProvisioning: a provider is creating the machines.
	PhaseProvisioning Phase = "Provisioning"
	// PhaseAwaitingOperator: the machines are up, the operator has yet to connect.
	PhaseAwaitingOperator Phase = "AwaitingOperator"
	// PhaseConnected: the operator has a session with the hub.
	PhaseConnected Phase = "Connected"
	// PhaseDisconnected: the hub lost the session.
	PhaseDisconnected Phase = "Disconnected"
	// PhaseError: something that does not mend by itself; message says what.
	PhaseError Phase = "Error"
)

// PhaseSummary is a phase with the words of the condition that decided it.
type PhaseSummary struct {
	Phase   Phase
	Reason  string
	Message string
	// Since is when the deciding condition changed last; zero if no condition
	// decided.
	Since metav1.Time
}

// ComputePhase derives the phase from the spec and the conditions. It looks at
// nothing else, so the table in its test is the state diagram.
//
// A registered cluster is never AwaitingOperator, whatever a stray Provisioned
// condition says, and Error ends when the Stalled condition does.
func ComputePhase(spec *ManagedClusterSpec, conditions []metav1.Condition) PhaseSummary {
	if stalled := meta.FindStatusCondition(conditions, ConditionStalled); isTrue(stalled) {
		return summary(PhaseError, stalled)
	}
	connected := meta.FindStatusCondition(conditions, ConditionConnected)
	switch {
	case isTrue(connected):
		ready := meta.FindStatusCondition(conditions, ConditionReady)
		sum := summary(PhaseConnected, connected)
		if ready != nil && !isTrue(ready) {
			sum.Reason, sum.Message = ready.Reason, ready.Message
		}
		return sum
	case connected != nil && connected.Reason != ReasonNeverConnected:
		return summary(PhaseDisconnected, connected)
	}
	if spec.Provision == nil {
		return summary(PhasePending, connected)
	}
	provisioned := meta.FindStatusCondition(conditions, ConditionProvisioned)
	switch {
	case provisioned == nil:
		return summary(PhasePending, connected)
	case isTrue(provisioned):
		return summary(PhaseAwaitingOperator, provisioned)
	default:
		return summary(PhaseProvisioning, provisioned)
	}
}

// Summarize computes Ready, Reconciling and Stalled from the other conditions.
// A summary condition that is absent from the result must not exist.
//
// operatorError is the error that the connected operator cannot mend, and
// unreachable says why it cannot reach its API server; both are empty when it
// has no such trouble.
func Summarize(spec *ManagedClusterSpec, conditions []metav1.Condition, operatorError, unreachable string) []metav1.Condition {
	registered := meta.FindStatusCondition(conditions, ConditionRegistered)
	connected := meta.FindStatusCondition(conditions, ConditionConnected)
	provisioned := meta.FindStatusCondition(conditions, ConditionProvisioned)

	ready := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionFalse}
	stalled := metav1.Condition{Type: ConditionStalled, Status: metav1.ConditionTrue}
	reconciling := metav1.Condition{Type: ConditionReconciling, Status: metav1.ConditionTrue}
	because := func(c *metav1.Condition, reason, message string) { c.Reason, c.Message = reason, message }

	switch {
	case isFalse(registered) && (registered.Reason == ReasonClusterIDTaken || registered.Reason == ReasonNotAnOrganization):
		because(&ready, registered.Reason, registered.Message)
		because(&stalled, registered.Reason, registered.Message)
		return []metav1.Condition{ready, stalled}
	case isFalse(provisioned) && provisioned.Reason == ReasonProvisioningFailed && !isTrue(connected):
		because(&ready, provisioned.Reason, provisioned.Message)
		because(&stalled, provisioned.Reason, provisioned.Message)
		return []metav1.Condition{ready, stalled}
	case isTrue(connected) && operatorError != "":
		because(&ready, ReasonOperatorError, operatorError)
		because(&stalled, ReasonOperatorError, operatorError)
		return []metav1.Condition{ready, stalled}
	case isTrue(connected) && unreachable != "":
		ready.Status = metav1.ConditionUnknown
		because(&ready, ReasonKubernetesUnreachable, unreachable)
		return []metav1.Condition{ready}
	case isTrue(connected):
		ready.Status = metav1.ConditionTrue
		because(&ready, ReasonClusterReady, "The operator is connected.")
		return []metav1.Condition{ready}
	case connected != nil && connected.Reason == ReasonAbandoned:
		because(&ready, ReasonAbandoned, connected.Message)
		return []metav1.Condition{ready}
	case connected != nil && connected.Reason != ReasonNeverConnected:
		ready.Status = metav1.ConditionUnknown
		because(&ready, ReasonClusterDisconnected, "The cluster's present state is not known: "+connected.Message)
		return []metav1.Condition{ready}
	case spec.Provision != nil && !isTrue(provisioned):
		message := "No provider has taken the cluster up yet."
		if provisioned != nil && provisioned.Message != "" {
			message = provisioned.Message
		}
		because(&ready, ReasonProvisioning, message)
		because(&reconciling, ReasonProvisioning, message)
		return []metav1.Condition{ready, reconciling}
	default:
		message := "Waiting for the cluster's operator to connect for the first time."
		if connected != nil && connected.Message != "" {
			message = connected.Message
		}
		because(&ready, ReasonAwaitingOperator, message)
		because(&reconciling, ReasonAwaitingOperator, message)
		return []metav1.Condition{ready, reconciling}
	}
}

func isTrue(c *metav1.Condition) bool  { return c != nil && c.Status == metav1.ConditionTrue }
func isFalse(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionFalse }

func summary(phase Phase, decided *metav1.Condition) PhaseSummary {
	if decided == nil {
		return PhaseSummary{Phase: phase}
	}
	return PhaseSummary{
		Phase: phase, Reason: decided.Reason, Message: decided.Message, Since: decided.LastTransitionTime,
	}
}
