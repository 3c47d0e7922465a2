// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppSpec is what is wanted of an App.
type AppSpec struct {
	// projectRef names the App's Project, in the same namespace. It cannot change.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="projectRef cannot change: what runs in the old Project's namespace would stay behind"
	ProjectRef LocalReference `json:"projectRef"`

	// components of the App.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(c, !has(c.dependsOn) || c.dependsOn.all(d, d != c.name && self.exists(o, o.name == d)))",message="dependsOn must name other components of this App"
	Components []Component `json:"components"`

	// timeout is how long a component may take to become ready, 15m when unset.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="timeout must be a duration between 10s and 24h, such as 15m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// paused stops rolling changes out; what runs keeps running.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// delivery overrides the clusters' own way of delivery.
	// +optional
	Delivery Delivery `json:"delivery,omitempty"`

	// rollbackTo runs the components of an earlier revision for as long as it is
	// set, instead of those above. 0 runs those above.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RollbackTo int64 `json:"rollbackTo,omitempty"`

	// restartedAt restarts every workload's pods when it changes.
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`
}

// AppPhase sums an App, or one of its components, up for people.
// +kubebuilder:validation:Enum=Pending;Deploying;Running;Degraded;Failed;Paused;Unknown
type AppPhase string

// Phases.
const (
	// AppPending: it waits for something: a cluster, a dependency, an export.
	AppPending AppPhase = "Pending"
	// AppDeploying: it is on its way to what the spec says.
	AppDeploying AppPhase = "Deploying"
	// AppRunning: everything is as the spec says, and ready.
	AppRunning AppPhase = "Running"
	// AppDegraded: it was ready, and is not entirely so now.
	AppDegraded AppPhase = "Degraded"
	// AppFailed: it did not become ready in time, or cannot.
	AppFailed AppPhase = "Failed"
	// AppPaused: spec.paused is set.
	AppPaused AppPhase = "Paused"
	// AppUnknown: its cluster is away; what is shown was so when it was last heard.
	AppUnknown AppPhase = "Unknown"
)

// AppStatus is what is known of an App.
type AppStatus struct {
	// conditions are the truth from which phase is derived.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums the App up.
	// +optional
	Phase AppPhase `json:"phase,omitempty"`

	// message says what a person should know or do.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// ready is the number of components that run, of all: "2/3".
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Ready string `json:"ready,omitempty"`

	// clusters are the names of the clusters that the components run on.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Clusters string `json:"clusters,omitempty"`

	// revision whose components are to run.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// latestRevision is that of the components in the spec. It differs from revision
	// while spec.rollbackTo is set.
	// +optional
	LatestRevision int64 `json:"latestRevision,omitempty"`

	// components are in the order of the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Components []ComponentStatus `json:"components,omitempty"`
}

// App is a set of components that belong together, on one or more clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=kubenest
// +kubebuilder:metadata:annotations="kubenest.io/schema-version=1"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Clusters",type=string,JSONPath=`.status.clusters`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Project",type=string,priority=1,JSONPath=`.spec.projectRef.name`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="name must begin with a letter and hold lower-case letters, digits and dashes only: Services are named after it",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.spec.components.all(c, size(self.metadata.name) + size(c.name) <= 51)",message="the App's name and a component's name must be at most 51 characters together: objects are named <app>-<component>",fieldPath=".spec.components"
type App struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted of the App.
	// +required
	Spec AppSpec `json:"spec"`

	// status is what is known of the App.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status AppStatus `json:"status,omitempty"`
}

// AppList is a list of Apps.
//
// +kubebuilder:object:root=true
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []App `json:"items"`
}
