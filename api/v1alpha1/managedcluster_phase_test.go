// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// is makes a condition; its message is its reason, so that tables show what was passed on.
func is(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: "because of " + reason,
		LastTransitionTime: metav1.NewTime(time.Unix(int64(1000+len(kind)), 0)),
	}
}

var (
	issued        = is(kubenestv1.ConditionRegistered, metav1.ConditionTrue, kubenestv1.ReasonTokenIssued)
	notIssued     = is(kubenestv1.ConditionRegistered, metav1.ConditionFalse, kubenestv1.ReasonTokenIssueFailed)
	noOrg         = is(kubenestv1.ConditionRegistered, metav1.ConditionFalse, kubenestv1.ReasonNotAnOrganization)
	taken         = is(kubenestv1.ConditionRegistered, metav1.ConditionFalse, kubenestv1.ReasonClusterIDTaken)
	given         = is(kubenestv1.ConditionRegistered, metav1.ConditionFalse, kubenestv1.ReasonAbandoned)
	creating      = is(kubenestv1.ConditionProvisioned, metav1.ConditionFalse, kubenestv1.ReasonProvisioning)
	machines      = is(kubenestv1.ConditionProvisioned, metav1.ConditionTrue, kubenestv1.ReasonMachinesReady)
	failed        = is(kubenestv1.ConditionProvisioned, metav1.ConditionFalse, kubenestv1.ReasonProvisioningFailed)
	never         = is(kubenestv1.ConditionConnected, metav1.ConditionFalse, kubenestv1.ReasonNeverConnected)
	connected     = is(kubenestv1.ConditionConnected, metav1.ConditionTrue, kubenestv1.ReasonSessionEstablished)
	silent        = is(kubenestv1.ConditionConnected, metav1.ConditionFalse, kubenestv1.ReasonHeartbeatTimeout)
	replicaLost   = is(kubenestv1.ConditionConnected, metav1.ConditionFalse, kubenestv1.ReasonReplicaLost)
	unknown       = is(kubenestv1.ConditionConnected, metav1.ConditionUnknown, kubenestv1.ReasonReplicaLost)
	abandonedNow  = is(kubenestv1.ConditionConnected, metav1.ConditionFalse, kubenestv1.ReasonAbandoned)
	revokedNow    = is(kubenestv1.ConditionConnected, metav1.ConditionFalse, kubenestv1.ReasonTokenRevoked)
	registered    = &kubenestv1.ManagedClusterSpec{}
	provisionedBy = &kubenestv1.ManagedClusterSpec{Provision: &kubenestv1.Provision{Provider: "aws"}}
)

// A row of the state diagram: what is known, and what follows. The summary
// conditions are computed first, as the hub does, and the phase of all together.
type row struct {
	spec               *kubenestv1.ManagedClusterSpec
	known              []metav1.Condition
	failure, cutOff    string // the operator's complaints
	phase              kubenestv1.Phase
	reason             string // of the phase
	ready              metav1.ConditionStatus
	readyReason        string
	reconciling, stuck bool
}

func conditions(c ...metav1.Condition) []metav1.Condition { return c }

var rows = map[string]row{
	"BYO, just created":                            {registered, nil, "", "", kubenestv1.PhasePending, "", "False", "AwaitingOperator", true, false},
	"BYO, token issued":                            {registered, conditions(issued), "", "", kubenestv1.PhasePending, "", "False", "AwaitingOperator", true, false},
	"BYO, waits for its operator":                  {registered, conditions(issued, never), "", "", kubenestv1.PhasePending, "NeverConnected", "False", "AwaitingOperator", true, false},
	"BYO, no token could be issued, will be tried": {registered, conditions(notIssued, never), "", "", kubenestv1.PhasePending, "NeverConnected", "False", "AwaitingOperator", true, false},
	"BYO is never AwaitingOperator":                {registered, conditions(issued, never, machines), "", "", kubenestv1.PhasePending, "NeverConnected", "False", "AwaitingOperator", true, false},
	"BYO is never Provisioning":                    {registered, conditions(issued, never, creating), "", "", kubenestv1.PhasePending, "NeverConnected", "False", "AwaitingOperator", true, false},
	"connected":                                    {registered, conditions(issued, connected), "", "", kubenestv1.PhaseConnected, "SessionEstablished", "True", "ClusterReady", false, false},
	"connected, before it was registered anew":     {registered, conditions(connected), "", "", kubenestv1.PhaseConnected, "SessionEstablished", "True", "ClusterReady", false, false},
	"connected, token could not be renewed":        {registered, conditions(notIssued, connected), "", "", kubenestv1.PhaseConnected, "SessionEstablished", "True", "ClusterReady", false, false},
	"connected, operator complains":                {registered, conditions(issued, connected), "disk full", "", kubenestv1.PhaseError, "OperatorError", "False", "OperatorError", false, true},
	"the complaint is over":                        {registered, conditions(issued, connected), "", "", kubenestv1.PhaseConnected, "SessionEstablished", "True", "ClusterReady", false, false},
	"connected, API server out of reach":           {registered, conditions(issued, connected), "", "timeout", kubenestv1.PhaseConnected, "KubernetesUnreachable", "Unknown", "KubernetesUnreachable", false, false},
	"connected, both":                              {registered, conditions(issued, connected), "disk full", "timeout", kubenestv1.PhaseError, "OperatorError", "False", "OperatorError", false, true},
	"silent":                                       {registered, conditions(issued, silent), "", "", kubenestv1.PhaseDisconnected, "HeartbeatTimeout", "Unknown", "ClusterDisconnected", false, false},
	"silent, after a complaint":                    {registered, conditions(issued, silent), "disk full", "timeout", kubenestv1.PhaseDisconnected, "HeartbeatTimeout", "Unknown", "ClusterDisconnected", false, false},
	"its replica is gone":                          {registered, conditions(issued, replicaLost), "", "", kubenestv1.PhaseDisconnected, "ReplicaLost", "Unknown", "ClusterDisconnected", false, false},
	"its replica may be gone":                      {registered, conditions(issued, unknown), "", "", kubenestv1.PhaseDisconnected, "ReplicaLost", "Unknown", "ClusterDisconnected", false, false},
	"revoked":                                      {registered, conditions(issued, revokedNow), "", "", kubenestv1.PhaseDisconnected, "TokenRevoked", "Unknown", "ClusterDisconnected", false, false},
	"abandoned":                                    {registered, conditions(given, abandonedNow), "", "", kubenestv1.PhaseDisconnected, "Abandoned", "False", "Abandoned", false, false},
	"not an organization":                          {registered, conditions(noOrg, never), "", "", kubenestv1.PhaseError, "NotAnOrganization", "False", "NotAnOrganization", false, true},
	"no longer an organization, still connected":   {registered, conditions(noOrg, connected), "", "", kubenestv1.PhaseError, "NotAnOrganization", "False", "NotAnOrganization", false, true},
	"an organization again":                        {registered, conditions(issued, never), "", "", kubenestv1.PhasePending, "NeverConnected", "False", "AwaitingOperator", true, false},
	"id taken":                                     {registered, conditions(taken), "", "", kubenestv1.PhaseError, "ClusterIDTaken", "False", "ClusterIDTaken", false, true},

	"provisioned, just created":                 {provisionedBy, nil, "", "", kubenestv1.PhasePending, "", "False", "Provisioning", true, false},
	"provisioned, before the provider is asked": {provisionedBy, conditions(issued, never), "", "", kubenestv1.PhasePending, "NeverConnected", "False", "Provisioning", true, false},
	"machines are being created":                {provisionedBy, conditions(issued, never, creating), "", "", kubenestv1.PhaseProvisioning, "Provisioning", "False", "Provisioning", true, false},
	"provisioning failed":                       {provisionedBy, conditions(issued, never, failed), "", "", kubenestv1.PhaseError, "ProvisioningFailed", "False", "ProvisioningFailed", false, true},
	"provisioning failed, once mended":          {provisionedBy, conditions(issued, never, creating), "", "", kubenestv1.PhaseProvisioning, "Provisioning", "False", "Provisioning", true, false},
	"machines are up":                           {provisionedBy, conditions(issued, never, machines), "", "", kubenestv1.PhaseAwaitingOperator, "MachinesReady", "False", "AwaitingOperator", true, false},
	"provisioned and connected":                 {provisionedBy, conditions(issued, connected, machines), "", "", kubenestv1.PhaseConnected, "SessionEstablished", "True", "ClusterReady", false, false},
	"connected before the machines are all up":  {provisionedBy, conditions(issued, connected, creating), "", "", kubenestv1.PhaseConnected, "SessionEstablished", "True", "ClusterReady", false, false},
	"connected, adding a machine failed":        {provisionedBy, conditions(issued, connected, failed), "", "", kubenestv1.PhaseConnected, "SessionEstablished", "True", "ClusterReady", false, false},
	"provisioned and silent":                    {provisionedBy, conditions(issued, silent, machines), "", "", kubenestv1.PhaseDisconnected, "HeartbeatTimeout", "Unknown", "ClusterDisconnected", false, false},
	"provisioned and silent, a machine failed":  {provisionedBy, conditions(issued, silent, failed), "", "", kubenestv1.PhaseError, "ProvisioningFailed", "False", "ProvisioningFailed", false, true},
	"provisioned and abandoned":                 {provisionedBy, conditions(given, abandonedNow, machines), "", "", kubenestv1.PhaseDisconnected, "Abandoned", "False", "Abandoned", false, false},
	"provisioned, not an organization":          {provisionedBy, conditions(noOrg), "", "", kubenestv1.PhaseError, "NotAnOrganization", "False", "NotAnOrganization", false, true},
}

func TestStateDiagram(t *testing.T) {
	for name, tt := range rows {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			all := append([]metav1.Condition{}, tt.known...)
			summarized := kubenestv1.Summarize(tt.spec, tt.known, tt.failure, tt.cutOff)
			all = append(all, summarized...)

			for _, c := range summarized {
				g.Expect(c.Reason).NotTo(BeEmpty(), c.Type)
				g.Expect(c.Message).NotTo(BeEmpty(), c.Type)
			}
			ready := meta.FindStatusCondition(summarized, kubenestv1.ConditionReady)
			g.Expect(ready).NotTo(BeNil())
			g.Expect(ready.Status).To(Equal(tt.ready))
			g.Expect(ready.Reason).To(Equal(tt.readyReason))
			g.Expect(meta.IsStatusConditionTrue(summarized, kubenestv1.ConditionReconciling)).To(Equal(tt.reconciling))
			g.Expect(meta.IsStatusConditionTrue(summarized, kubenestv1.ConditionStalled)).To(Equal(tt.stuck))

			got := kubenestv1.ComputePhase(tt.spec, all)
			g.Expect(got.Phase).To(Equal(tt.phase))
			g.Expect(got.Reason).To(Equal(tt.reason))
			g.Expect(kubenestv1.Summarize(tt.spec, all, tt.failure, tt.cutOff)).To(Equal(summarized), "the summary does not feed on itself")
		})
	}
}

func TestComputePhase_saysSinceWhen(t *testing.T) {
	g := NewWithT(t)
	g.Expect(kubenestv1.ComputePhase(registered, conditions(silent)).Since).To(Equal(silent.LastTransitionTime))
	g.Expect(kubenestv1.ComputePhase(registered, conditions(silent)).Message).To(Equal(silent.Message))
	g.Expect(kubenestv1.ComputePhase(registered, nil).Since).To(BeZero())
	stalled := is(kubenestv1.ConditionStalled, metav1.ConditionFalse, "Over")
	g.Expect(kubenestv1.ComputePhase(registered, conditions(connected, stalled)).Phase).To(Equal(kubenestv1.PhaseConnected), "Error ends with its cause")
}

func TestManagedCluster_TokenFloor(t *testing.T) {
	g := NewWithT(t)
	c := &kubenestv1.ManagedCluster{}
	g.Expect(c.TokenFloor()).To(BeZero())
	c.Spec.Token = &kubenestv1.TokenSettings{Floor: 3}
	g.Expect(c.TokenFloor()).To(BeEquivalentTo(3))
	c.Status.Token = &kubenestv1.TokenStatus{Floor: 5}
	g.Expect(c.TokenFloor()).To(BeEquivalentTo(5), "lowering the wish does not lower the floor")
	c.Spec.Token.Floor = 8
	g.Expect(c.TokenFloor()).To(BeEquivalentTo(8))
}
