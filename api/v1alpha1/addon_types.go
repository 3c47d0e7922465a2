// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// AddonType says which exports an addon has by itself.
// +kubebuilder:validation:Enum=postgres;redis;mysql;kafka;rabbitmq;mongodb;other
type AddonType string

// Addon types.
const (
	AddonPostgres AddonType = "postgres"
	AddonRedis    AddonType = "redis"
	AddonMySQL    AddonType = "mysql"
	AddonKafka    AddonType = "kafka"
	AddonRabbitMQ AddonType = "rabbitmq"
	AddonMongoDB  AddonType = "mongodb"
	// AddonOther exports only what is declared.
	AddonOther AddonType = "other"
)

// AddonSpec is a Helm chart and what others may use of it.
type AddonSpec struct {
	// type of the addon. Those that kubenest knows export host, port, username,
	// password, database and dsn, as far as they have them.
	// +optional
	// +kubebuilder:default=other
	Type AddonType `json:"type,omitempty"`

	// chart to install.
	// +required
	Chart Chart `json:"chart"`

	// values for the chart.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Values *runtime.RawExtension `json:"values,omitempty"`

	// exports for other components. Those of a known type that need no declaration
	// may be named to have them external.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Exports []Export `json:"exports,omitempty"`
}

// Chart is where a Helm chart comes from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.repo), has(self.oci), has(self.configMapRef)].filter(x, x).size() == 1",message="give one of repo (with name and version), oci (with version) and configMapRef"
// +kubebuilder:validation:XValidation:rule="!has(self.repo) || (has(self.name) && has(self.version))",message="a chart from a repository needs name and version"
// +kubebuilder:validation:XValidation:rule="!has(self.oci) || has(self.version)",message="a chart from an OCI registry needs version"
type Chart struct {
	// repo is the URL of a chart repository, by https.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://[^\s@]+$`
	Repo string `json:"repo,omitempty"`

	// name of the chart in the repository.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// oci is a chart in a registry, such as oci://registry.example.com/charts/postgresql.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^oci://[^\s@]+$`
	OCI string `json:"oci,omitempty"`

	// version of the chart: one version, not a range, so that what runs is what was
	// reviewed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`

	// configMapRef names a ConfigMap in the App's namespace, with the label
	// kubenest.io/chart=true, that holds a chart packaged by "helm package" under the
	// one key of binaryData. No network is needed for it.
	// +optional
	ConfigMapRef *LocalReference `json:"configMapRef,omitempty"`

	// secretRef names a Secret in the Project's namespace on the cluster with
	// username, password and ca.crt for the repository or registry, as far as needed.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
}

// Export is a value of an addon that other components may use. With none of
// serviceRef, secretKeyRef and template it is one that the addon's type has by
// itself.
//
// +kubebuilder:validation:XValidation:rule="[has(self.serviceRef), has(self.secretKeyRef), has(self.template)].filter(x, x).size() <= 1",message="give at most one of serviceRef, secretKeyRef and template"
type Export struct {
	// name that components refer to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-_a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Name string `json:"name"`

	// external has the export name the Service's load balancer or the Ingress instead
	// of the address inside the cluster, and wait until there is one. What other
	// clusters use has to be external, unless their networks are one.
	// +optional
	External bool `json:"external,omitempty"`

	// serviceRef exports host:port of a Service of the chart.
	// +optional
	ServiceRef *ServicePortReference `json:"serviceRef,omitempty"`

	// secretKeyRef exports a key of a Secret of the chart.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`

	// template exports what this Go template makes of the other exports, such as
	// https://{{ .username }}:{{ urlquery .password }}@{{ .host }}. Beside them there
	// are .release and .namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Template string `json:"template,omitempty"`
}

// ServicePortReference names a port of a Service.
type ServicePortReference struct {
	// name of the Service. "{{ .release }}" in it stands for the release's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// port by number or name; the Service's first when unset.
	// +optional
	Port *intstr.IntOrString `json:"port,omitempty"`
}
