// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// DeletionPolicy says what becomes of a provisioned cluster's machines when
// its record is deleted.
// +kubebuilder:validation:Enum=Orphan;Delete
type DeletionPolicy string

const (
	// DeletionOrphan leaves the machines and says in an Event which remain.
	DeletionOrphan DeletionPolicy = "Orphan"
	// DeletionDelete destroys what kubenest made.
	DeletionDelete DeletionPolicy = "Delete"
)

// Provision asks for machines at a cloud provider, with Kubernetes on them.
//
// What a provision cannot do without is checked on the spec and not by
// "required" here: an attempt to scale a registered cluster arrives as a
// provision that holds a node count only, and deserves a better message than
// a missing field's.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.provider) || (has(self.provider) && self.provider == oldSelf.provider)",message="provider cannot change",fieldPath=".provider"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.instanceType) || (has(self.instanceType) && self.instanceType == oldSelf.instanceType)",message="instanceType cannot change: register a new cluster and move the workloads",fieldPath=".instanceType"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneCount) || (has(self.controlPlaneCount) && self.controlPlaneCount == oldSelf.controlPlaneCount)",message="controlPlaneCount cannot change",fieldPath=".controlPlaneCount"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.diskSizeGB) || (has(self.diskSizeGB) && self.diskSizeGB == oldSelf.diskSizeGB)",message="diskSizeGB cannot change",fieldPath=".diskSizeGB"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeCount) || !has(self.controlPlaneCount) || self.nodeCount >= self.controlPlaneCount",message="nodeCount counts all nodes, so it cannot be below controlPlaneCount",fieldPath=".nodeCount"
type Provision struct {
	// provider is the cloud: aws, hetzner, digitalocean or local.
	// +optional
	// +kubebuilder:validation:Enum=aws;hetzner;digitalocean;local
	Provider string `json:"provider,omitempty"`

	// credentialRef names the CloudCredential to use, in the record's namespace.
	// +optional
	CredentialRef *LocalReference `json:"credentialRef,omitempty"`

	// instanceType is the provider's name of the machines' type.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	InstanceType string `json:"instanceType,omitempty"`

	// nodeCount is the number of all nodes, control planes included.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	NodeCount int32 `json:"nodeCount,omitempty"`

	// controlPlaneCount is the number of control-plane nodes: 1, 3 or 5.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Enum=1;3;5
	ControlPlaneCount int32 `json:"controlPlaneCount,omitempty"`

	// diskSizeGB is the size of each machine's disk, in GB.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=16384
	DiskSizeGB int32 `json:"diskSizeGB,omitempty"`

	// kubernetesVersion is the minor version to install. It defaults to the newest
	// that the hub knows.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^v1\\\\.[0-9]+(\\\\.[0-9]+)?$')",message="kubernetesVersion must look like v1.36 or v1.36.2"
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// deletionPolicy says what becomes of the machines when the record is deleted.
	// +optional
	// +kubebuilder:default=Orphan
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}
