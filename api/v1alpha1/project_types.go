// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProjectSpec is what is wanted of a Project: a namespace on one cluster, and on
// each further cluster that one of its Apps targets.
//
// +kubebuilder:validation:XValidation:rule="has(self.__namespace__) == has(oldSelf.__namespace__) && (!has(self.__namespace__) || self.__namespace__ == oldSelf.__namespace__)",message="namespace cannot change: what runs in the old one would stay behind",fieldPath=".namespace"
type ProjectSpec struct {
	// clusterRef names the ManagedCluster that the Project's Apps run on unless a
	// component says otherwise. It cannot change.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterRef cannot change: what runs on the old cluster would stay behind; create another Project"
	ClusterRef ClusterReference `json:"clusterRef"`

	// namespace on the clusters. It defaults to the Project's name, and cannot change.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be lower-case letters, digits and dashes, such as shop"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('kube-') && !(self in ['default', 'kubenest-system', 'argocd'])",message="this namespace is reserved: a Project has a namespace of its own"
	Namespace string `json:"namespace,omitempty"`

	// labels are put on the namespaces. Keys of kubernetes.io, k8s.io and kubenest.io
	// are not the Project's to set.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('(^|[.])(kubernetes|k8s|kubenest)[.]io/'))",message="labels of kubernetes.io, k8s.io and kubenest.io are set by the cluster's owner and by kubenest only"
	Labels map[string]string `json:"labels,omitempty"`

	// quota is the ResourceQuota of each namespace, such as requests.cpu: "8".
	// +optional
	Quota corev1.ResourceList `json:"quota,omitempty"`

	// limits are the LimitRange of each namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Limits []corev1.LimitRangeItem `json:"limits,omitempty"`
}

// ClusterReference names a ManagedCluster.
type ClusterReference struct {
	// name of the ManagedCluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the ManagedCluster; the referring object's own by default.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// ProjectStatus is what is known of a Project.
type ProjectStatus struct {
	// conditions are the truth about the Project.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// namespace on the clusters.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// reason is that of the condition Ready, for kubectl.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// message says what a person should know or do.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// clusters are those on which the Project has a namespace, or is to have one.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=256
	Clusters []ProjectCluster `json:"clusters,omitempty"`
}

// ProjectCluster is the state of a Project's namespace on one cluster.
type ProjectCluster struct {
	// clusterID of the cluster.
	// +required
	// +kubebuilder:validation:MaxLength=36
	ClusterID string `json:"clusterID"`

	// cluster is the name of its record.
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Cluster string `json:"cluster,omitempty"`

	// ready is True, False, or Unknown while the cluster is away.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Ready string `json:"ready,omitempty"`

	// reason in one word.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// message for a person.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// Project is a namespace on one or more clusters, in which Apps run.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=kubenest
// +kubebuilder:metadata:annotations="kubenest.io/schema-version=1"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.status.namespace`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="has(self.spec.__namespace__) || (size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !self.metadata.name.startsWith('kube-') && !(self.metadata.name in ['default', 'kubenest-system', 'argocd']))",message="the Project's name can not be the name of its namespace (it is reserved, over 63 characters, or has dots): set spec.namespace"
type Project struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted of the Project.
	// +required
	Spec ProjectSpec `json:"spec"`

	// status is what is known of the Project.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status ProjectStatus `json:"status,omitempty"`
}

// ProjectList is a list of Projects.
//
// +kubebuilder:object:root=true
type ProjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Project `json:"items"`
}

// TargetNamespace is the namespace on the clusters.
func (p *Project) TargetNamespace() string {
	if p.Spec.Namespace != "" {
		return p.Spec.Namespace
	}
	return p.Name
}

// ClusterNamespace is the namespace of the record that clusterRef names.
func (p *Project) ClusterNamespace() string {
	if p.Spec.ClusterRef.Namespace != "" {
		return p.Spec.ClusterRef.Namespace
	}
	return p.Namespace
}
