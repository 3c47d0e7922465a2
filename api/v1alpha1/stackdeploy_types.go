// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StackDeploySpec is what one cluster is to run of one App, or the namespace of one
// Project on it. The hub writes it, and the operator stores it on its cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.namespaceSettings) != has(self.components)",message="a StackDeploy has either namespaceSettings or components"
// +kubebuilder:validation:XValidation:rule="has(self.app) == has(self.components)",message="a StackDeploy with components is of an App"
type StackDeploySpec struct {
	// clusterID of the cluster that this is for.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	ClusterID string `json:"clusterID"`

	// namespace on that cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// project that the namespace is of, in the management cluster.
	// +required
	Project ProjectKey `json:"project"`

	// app is the name of the App, in the Project's own namespace; unset where this is
	// about the Project's namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	App string `json:"app,omitempty"`

	// revision of the App.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// namespaceSettings make and keep the Project's namespace.
	// +optional
	NamespaceSettings *NamespaceSettings `json:"namespaceSettings,omitempty"`

	// components to run here.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Components []Component `json:"components,omitempty"`

	// held are components that are not to be begun yet, though they are listed. Those
	// that run already keep running as they are.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Held []HeldComponent `json:"held,omitempty"`

	// inputs travel beside this object, and are what it needs besides.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Inputs []StackInput `json:"inputs,omitempty"`

	// timeout is how long a component may take to become ready.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// paused leaves what runs as it is.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// delivery is how objects reach the cluster's API server.
	// +optional
	// +kubebuilder:default=direct
	Delivery Delivery `json:"delivery,omitempty"`

	// gitops is where to commit, for delivery argocd.
	// +optional
	GitOps *GitOps `json:"gitops,omitempty"`

	// restartedAt restarts the pods when it changes.
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// grants of the cluster's owner.
	// +optional
	Grants *Grants `json:"grants,omitempty"`

	// source says which object of the hub this is a copy of. It is set on the workload
	// cluster only.
	// +optional
	Source *StackSource `json:"source,omitempty"`

	// removed asks the operator to remove everything that this made, and then this
	// object. It is set on the workload cluster only. Deleting the object instead
	// leaves what runs running.
	// +optional
	Removed bool `json:"removed,omitempty"`
}

// ProjectKey names a Project in the management cluster.
type ProjectKey struct {
	// namespace of the Project.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name of the Project.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// NamespaceSettings are those of a Project's namespace.
type NamespaceSettings struct {
	// labels of the namespace: the Project's, and ProjectLabel, so that there is always
	// one. Server-side apply cannot empty an object that stays: it makes it null.
	// +optional
	// +kubebuilder:validation:MaxProperties=33
	Labels map[string]string `json:"labels,omitempty"`

	// quota is the namespace's ResourceQuota; there is none without it.
	// +optional
	Quota corev1.ResourceList `json:"quota,omitempty"`

	// limits are the namespace's LimitRange; there is none without them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Limits []corev1.LimitRangeItem `json:"limits,omitempty"`
}

// HeldComponent is a component that is not to be begun yet.
type HeldComponent struct {
	// name of the component.
	// +required
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`

	// reason in one word.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason"`

	// message for a person.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// InputKind says what an input is and where it is kept on the cluster.
// +kubebuilder:validation:Enum=Exports;Chart;GitCredential
type InputKind string

// Kinds of inputs.
const (
	// InputExports are the exports of an addon on another cluster: a Secret in the
	// target namespace, named as it would be if the addon ran here.
	InputExports InputKind = "Exports"
	// InputChart is a packaged Helm chart: kept in the operator's namespace.
	InputChart InputKind = "Chart"
	// InputGitCredential opens the repository of gitops: kept in the operator's
	// namespace.
	InputGitCredential InputKind = "GitCredential" //nolint:gosec // a kind, no credential
)

// StackInput is something that travels beside a StackDeploy.
type StackInput struct {
	// name of the input, unique here: that of the Secret for exports, that of the
	// ConfigMap for charts.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// kind of the input.
	// +required
	Kind InputKind `json:"kind"`

	// revision changes when the content does. It tells nothing of the content. Empty
	// while there is no content yet: components that need it wait.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
}

// StackSource is an object of the hub, as it was delivered.
type StackSource struct {
	// namespace and name of the hub's StackDeploy.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name of the hub's StackDeploy.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid of the hub's StackDeploy. It tells a hub that was built anew from the one
	// before; ownership does not depend on it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`

	// generation of the hub's StackDeploy.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// digest of what was delivered, computed from the delivery and never from what is
	// stored, of which an older schema may have dropped fields.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest,omitempty"`
}

// StackDeployStatus is what is known of a StackDeploy.
type StackDeployStatus struct {
	// conditions are the truth from which phase is derived.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums the components up.
	// +optional
	Phase AppPhase `json:"phase,omitempty"`

	// message says what a person should know or do.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// components are in the order of the spec; then come those that are being removed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Components []ComponentStatus `json:"components,omitempty"`

	// source is the delivery that this status describes: that which the operator's
	// last report is about in the management cluster, that which the operator has
	// taken up on the workload cluster.
	// +optional
	Source *StackSource `json:"source,omitempty"`

	// delivered is the delivery that the operator acknowledged last. It is set in the
	// management cluster only.
	// +optional
	Delivered *StackSource `json:"delivered,omitempty"`

	// reportedAt is when the operator's last report came, written when the cluster went
	// away.
	// +optional
	ReportedAt *metav1.Time `json:"reportedAt,omitempty"`

	// waiting names what a removal waits for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	Waiting []string `json:"waiting,omitempty"`

	// driftedAt is when something that somebody else had changed was put right last.
	// +optional
	DriftedAt *metav1.Time `json:"driftedAt,omitempty"`

	// drift says what differed then.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Drift string `json:"drift,omitempty"`
}

// StackDeploy is what one cluster is to run of one App. Nobody but kubenest writes
// it: edit the App.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=kubenest
// +kubebuilder:metadata:annotations="kubenest.io/schema-version=1"
// +kubebuilder:printcolumn:name="App",type=string,JSONPath=`.spec.app`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="Delivered",type=string,JSONPath=`.status.conditions[?(@.type=="Delivered")].status`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Cluster",type=string,priority=1,JSONPath=`.spec.clusterID`
type StackDeploy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the cluster is to run.
	// +required
	Spec StackDeploySpec `json:"spec"`

	// status is what is known of it.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status StackDeployStatus `json:"status,omitempty"`
}

// StackDeployList is a list of StackDeploys.
//
// +kubebuilder:object:root=true
type StackDeployList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StackDeploy `json:"items"`
}
