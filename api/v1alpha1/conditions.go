// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Every condition type and reason of this group. An event about a transition
// carries the reason of the condition that changed.

// Registered says whether the record has been taken up. Written by the
// registration controller on the leader. Absent until it has seen the record.
const (
	ConditionRegistered = "Registered"

	// ReasonTokenIssued (True): a token that works is in the connection Secret.
	ReasonTokenIssued = "TokenIssued"
	// ReasonTokenIssueFailed (False): no token could be made or stored; the
	// controller tries again, and what is in the Secret may still work.
	ReasonTokenIssueFailed = "TokenIssueFailed"
	// ReasonNotAnOrganization (False): the namespace lacks the organization label.
	ReasonNotAnOrganization = "NotAnOrganization"
	// ReasonClusterIDTaken (False): an older record has the same cluster id.
	ReasonClusterIDTaken = "ClusterIDTaken"
	// ReasonAwaitingMachines (False): the machines of a provisioned cluster are not
	// up yet, so nobody could use a token.
	ReasonAwaitingMachines = "AwaitingMachines"
	// ReasonAbandoned (False): spec.abandoned is set, so tokens are revoked. Also
	// of Connected, for the same cause.
	ReasonAbandoned = "Abandoned"
)

// Provisioned says whether the machines of a provisioned cluster are up.
// Written by the provisioning controller on the leader. Absent on clusters that
// bring their own machines.
const (
	ConditionProvisioned = "Provisioned"

	// ReasonProvisioning (False): machines are being created.
	ReasonProvisioning = "Provisioning"
	// ReasonMachinesReady (True): the machines are up.
	ReasonMachinesReady = "MachinesReady"
	// ReasonProvisioningFailed (False): the provider refused in a way that
	// retrying does not mend.
	ReasonProvisioningFailed = "ProvisioningFailed"
)

// Connected says whether the cluster's operator has a session with the hub.
// Written by the replica that holds the session; by the leader for clusters that
// no living replica holds.
const (
	ConditionConnected = "Connected"

	// ReasonSessionEstablished (True): the operator has a session.
	ReasonSessionEstablished = "SessionEstablished"
	// ReasonNeverConnected (False): no operator has connected with this record's
	// token yet.
	ReasonNeverConnected = "NeverConnected"
	// ReasonSessionClosed (False): the connection ended without a word.
	ReasonSessionClosed = "SessionClosed"
	// ReasonHeartbeatTimeout (False): nothing was heard for too long.
	ReasonHeartbeatTimeout = "HeartbeatTimeout"
	// ReasonOperatorStopped (False): the operator said that it stops.
	ReasonOperatorStopped = "OperatorStopped"
	// ReasonReplicaLost (False): the hub replica that held the session is gone, and
	// the operator has not come back elsewhere.
	ReasonReplicaLost = "ReplicaLost"
	// ReasonTokenRevoked (False): the session's token was revoked.
	ReasonTokenRevoked = "TokenRevoked"
	// ReasonProtocolError (False): the operator broke the protocol or its limits.
	ReasonProtocolError = "ProtocolError"
)

// Ready says whether the cluster can be worked with. Part of the summary that
// is written with Connected.
const (
	ConditionReady = "Ready"

	// ReasonClusterReady (True): connected, and its operator has no complaint.
	ReasonClusterReady = "ClusterReady"
	// ReasonOperatorError (False): the operator is connected and reports an error
	// that it cannot mend. Also of Stalled.
	ReasonOperatorError = "OperatorError"
	// ReasonKubernetesUnreachable (Unknown): the operator is connected and cannot
	// reach its cluster's API server.
	ReasonKubernetesUnreachable = "KubernetesUnreachable"
	// ReasonClusterDisconnected (Unknown): the cluster's present state is not known.
	ReasonClusterDisconnected = "ClusterDisconnected"
)

// Reconciling and Stalled are the kstatus pair (sigs.k8s.io/cli-utils): the
// first is True while something is on its way that will settle by itself or by
// the user's next step, the second while it will not. Both are absent
// otherwise. Part of the summary.
const (
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"

	// ReasonAwaitingOperator (Reconciling): the operator has to be installed.
	ReasonAwaitingOperator = "AwaitingOperator"
)

// Reasons of events that no condition carries.
const (
	// EventClusterPinned: the first connection pinned the cluster's identity.
	EventClusterPinned = "ClusterPinned"
	// EventClusterRebound: spec.rebind pinned another cluster's identity.
	EventClusterRebound = "ClusterRebound"
	// EventIdentityConflict: another cluster tried this record's token.
	EventIdentityConflict = "IdentityConflict"
	// EventDuplicateOperator: a second operator of the same identity tried to
	// connect while the first was connected, as a cloned machine's does.
	EventDuplicateOperator = "DuplicateOperator"
	// EventTokenRevoked: the token floor was raised.
	EventTokenRevoked = "TokenRevoked"
)
