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

// InUse says what the deletion of a cluster's record waits for. Written by the
// guard on the leader. Absent unless the record is being deleted.
const (
	ConditionInUse = "InUse"

	// ReasonClusterInUse (True): the record is being deleted, and Projects or Apps
	// still use the cluster.
	ReasonClusterInUse = "ClusterInUse"
)

// Conditions of a Project are Ready, Reconciling and Stalled. Written by the
// project controller on the leader.
const (
	// ReasonNamespaceReady (Ready True): the namespace is there on every cluster that
	// the Project uses.
	ReasonNamespaceReady = "NamespaceReady"
	// ReasonNamespaceKept: no App is on this further cluster any more, and the namespace
	// stays until the Project is deleted. It is a reason of status.clusters only.
	ReasonNamespaceKept = "NamespaceKept"
	// ReasonNamespacePending (Ready False, Reconciling): the namespace is on its way.
	ReasonNamespacePending = "NamespacePending"
	// ReasonNamespaceTaken (Ready False, Stalled): another Project has the namespace,
	// or it exists on the cluster and is not kubenest's.
	ReasonNamespaceTaken = "NamespaceTaken"
	// ReasonNamespaceReserved (Ready False, Stalled): the namespace is the system's.
	ReasonNamespaceReserved = "NamespaceReserved"
	// ReasonClusterNotFound (False): there is no such ManagedCluster. Of Apps, too.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonClusterNotAllowed (False): the cluster's allowedProjects leaves the
	// Project's namespace out. Of Apps, too.
	ReasonClusterNotAllowed = "ClusterNotAllowed"
	// ReasonClusterDeleting (False): the cluster's record is being deleted.
	ReasonClusterDeleting = "ClusterDeleting"
	// ReasonDeleting (Reconciling): it is being deleted; the message says what for.
	ReasonDeleting = "Deleting"
)

// Accepted says whether an App's spec can be deployed. Written, as all conditions
// of an App, by the app controller on the leader. While it is False nothing of the
// spec is rolled out, and what runs keeps running.
const (
	ConditionAccepted = "Accepted"

	// ReasonAccepted (True).
	ReasonAccepted = "Accepted"
	// ReasonProjectNotFound (False): spec.projectRef names no Project.
	ReasonProjectNotFound = "ProjectNotFound"
	// ReasonProjectNotReady (False): the Project can not be used; its status says why.
	ReasonProjectNotReady = "ProjectNotReady"
	// ReasonDependencyCycle (False): components depend on each other in a circle.
	ReasonDependencyCycle = "DependencyCycle"
	// ReasonUnknownExport (False): an exportRef names no addon of the App.
	ReasonUnknownExport = "UnknownExport"
	// ReasonAddonMoveRefused (False): an addon's cluster was changed; its data would
	// stay behind.
	ReasonAddonMoveRefused = "AddonMoveRefused"
	// ReasonChartNotFound (False): configMapRef names no ConfigMap with a chart.
	ReasonChartNotFound = "ChartNotFound"
	// ReasonGitOpsMissing (False): delivery is argocd, and the cluster has no usable
	// spec.gitops.
	ReasonGitOpsMissing = "GitOpsMissing"
	// ReasonRevisionNotFound (False): spec.rollbackTo names no revision that is kept.
	ReasonRevisionNotFound = "RevisionNotFound"
)

// Delivered says whether the cluster's operator has what a StackDeploy of the
// management cluster says. Written, as its whole status, by the replica that holds
// the cluster's session; by the leader for clusters that nobody holds.
const (
	ConditionDelivered = "Delivered"

	// ReasonDelivered (True): the operator has stored this generation.
	ReasonDelivered = "Delivered"
	// ReasonDelivering (False): it is on its way.
	ReasonDelivering = "Delivering"
	// ReasonOperatorTooOld (False): the operator's schema would lose fields.
	ReasonOperatorTooOld = "OperatorTooOld"
	// ReasonDeliveryRefused (False): the operator could not store it.
	ReasonDeliveryRefused = "DeliveryRefused"
	// ReasonTooLarge (False): it is larger than a message may be.
	ReasonTooLarge = "TooLarge"
	// ReasonInputMissing (False): something that travels beside it is not there.
	ReasonInputMissing = "InputMissing"
	// While the cluster is away the reason is ReasonClusterDisconnected.
)

// Reasons of Ready, Reconciling and Stalled of a StackDeploy and an App, and of
// their components. Reasons of Kubernetes (ImagePullBackOff, OOMKilled …) are
// passed on as they are.
const (
	// ReasonRunning (True): everything is as the spec says, and ready.
	ReasonRunning = "Running"
	// ReasonDeploying (False): on its way.
	ReasonDeploying = "Deploying"
	// ReasonPaused (False): spec.paused is set.
	ReasonPaused = "Paused"
	// ReasonDegraded (False): it was ready and is not entirely so now.
	ReasonDegraded = "Degraded"
	// ReasonTimeout (False, Stalled): it did not become ready within the timeout.
	ReasonTimeout = "Timeout"
	// ReasonWaitingForDependency (False): a component that it depends on is not ready.
	ReasonWaitingForDependency = "WaitingForDependency"
	// ReasonWaitingForExport (False): an export that it uses has no value yet.
	ReasonWaitingForExport = "WaitingForExport"
	// ReasonWaitingForNamespace (False): the Project's namespace is not ready yet.
	ReasonWaitingForNamespace = "WaitingForNamespace"
	// ReasonWaitingForAddress (False): an external export has no address yet.
	ReasonWaitingForAddress = "WaitingForAddress"
	// ReasonObjectNotOurs (False, Stalled): an object of that name exists and is not
	// this App's.
	ReasonObjectNotOurs = "ObjectNotOurs"
	// ReasonForbidden (False, Stalled): the Project's rights, or the cluster's owner,
	// do not allow an object.
	ReasonForbidden = "Forbidden"
	// ReasonInvalid (False, Stalled): the API server, or the chart, refuses it.
	ReasonInvalid = "Invalid"
	// ReasonChartUnavailable (False): the chart can not be fetched.
	ReasonChartUnavailable = "ChartUnavailable"
	// ReasonInstallFailed (False): Helm's install or upgrade failed; an upgrade was
	// rolled back.
	ReasonInstallFailed = "InstallFailed"
	// ReasonExportsFailed (False): exports can not be made of what the chart installed.
	ReasonExportsFailed = "ExportsFailed"
	// ReasonGitFailed (False): the repository can not be read or written.
	ReasonGitFailed = "GitFailed"
	// ReasonSyncFailed (False): Argo CD can not apply what was committed.
	ReasonSyncFailed = "SyncFailed"
	// ReasonMoving (False): a workload moves to another cluster; the old one goes when
	// the new one is ready.
	ReasonMoving = "Moving"
	// ReasonRemoving (False): it is being removed.
	ReasonRemoving = "Removing"
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
	// EventDriftCorrected: something that somebody else had changed was put right.
	EventDriftCorrected = "DriftCorrected"
	// EventUnknownWork: a cluster runs what this hub has no record of. It is left alone.
	EventUnknownWork = "UnknownWork"
	// EventLeftBehind: a record is gone, and what it made on a cluster stays.
	EventLeftBehind = "LeftBehind"
	// EventMoved: a workload has moved to another cluster.
	EventMoved = "Moved"
	// EventRevisionCreated: an App's components changed.
	EventRevisionCreated = "RevisionCreated"
)
