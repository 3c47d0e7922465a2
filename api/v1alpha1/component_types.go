// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ComponentType says what a component is.
// +kubebuilder:validation:Enum=workload;addon
type ComponentType string

// Component types.
const (
	// ComponentWorkload is an image that becomes a Deployment.
	ComponentWorkload ComponentType = "workload"
	// ComponentAddon is a Helm chart.
	ComponentAddon ComponentType = "addon"
)

// Component is a part of an App that runs on one cluster.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'workload') == has(self.workloadSpec)",message="a component of type workload, and no other, has a workloadSpec"
// +kubebuilder:validation:XValidation:rule="(self.type == 'addon') == has(self.addonSpec)",message="a component of type addon, and no other, has an addonSpec"
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="a component's type cannot change: use another name"
type Component struct {
	// name of the component, unique in its App.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// type says which of workloadSpec and addonSpec there is.
	// +required
	Type ComponentType `json:"type"`

	// clusterID is the cluster to run on: a ManagedCluster's id, its name, or its
	// namespace and name with a slash between them. It defaults to the Project's
	// cluster. A workload moves when it changes; an addon's data would stay behind, so
	// that moving one takes an annotation on the App.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	ClusterID string `json:"clusterID,omitempty"`

	// dependsOn names the components that have to be ready before this one is begun.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=40
	DependsOn []string `json:"dependsOn,omitempty"`

	// workloadSpec describes a workload.
	// +optional
	WorkloadSpec *WorkloadSpec `json:"workloadSpec,omitempty"`

	// addonSpec describes an addon.
	// +optional
	AddonSpec *AddonSpec `json:"addonSpec,omitempty"`
}

// ExportRefs are the exports that a component uses, in the order of its environment.
func (c *Component) ExportRefs() []ExportReference {
	if c.WorkloadSpec == nil {
		return nil
	}
	var refs []ExportReference
	for i := range c.WorkloadSpec.Env {
		if from := c.WorkloadSpec.Env[i].ValueFrom; from != nil && from.ExportRef != nil {
			refs = append(refs, *from.ExportRef)
		}
	}
	return refs
}

// ComponentStatus is what is known of a component.
type ComponentStatus struct {
	// name of the component.
	// +required
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`

	// type of the component.
	// +optional
	Type ComponentType `json:"type,omitempty"`

	// cluster is the name of the record of the cluster that the component runs on.
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Cluster string `json:"cluster,omitempty"`

	// clusterID is that cluster's id.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	ClusterID string `json:"clusterID,omitempty"`

	// phase sums the component up.
	// +optional
	Phase AppPhase `json:"phase,omitempty"`

	// reason in one word, such as ImagePullBackOff.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// message says what a person should know or do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// desiredReplicas is the number of pods that are wanted.
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// image that the component's pods run, or the chart and its version.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// exports are the names of the values that others may use; never the values.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Exports []string `json:"exports,omitempty"`

	// exportsRevision changes when the exports' values do, and tells nothing of them. It
	// is set on the workload cluster only.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ExportsRevision string `json:"exportsRevision,omitempty"`

	// since is when phase last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// warnings are the last distinct Warning events about the component's objects, the
	// newest first, each with its reason.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=512
	Warnings []string `json:"warnings,omitempty"`
}
