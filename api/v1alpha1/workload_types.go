// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// WorkloadSpec is the short form of a Deployment, its Service, Ingress and
// autoscaler.
type WorkloadSpec struct {
	// image to run, such as ghcr.io/example/shop-web:v1.4.0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[a-f0-9]{64})?$')",message="image must be an image reference, such as ghcr.io/example/shop-web:v1.4.0"
	Image string `json:"image"`

	// replicas is the number of pods, 1 when unset. An autoscaler overrides it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// port that the container listens on; it gets a Service of the same port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// command replaces the image's entry point.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=8192
	Command []string `json:"command,omitempty"`

	// args replace the image's arguments.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=8192
	Args []string `json:"args,omitempty"`

	// env is the container's environment.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []EnvVar `json:"env,omitempty"`

	// resources of the container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// probes of the container. There are none but those given here.
	// +optional
	Probes *Probes `json:"probes,omitempty"`

	// ingress makes the port reachable from outside.
	// +optional
	Ingress *Ingress `json:"ingress,omitempty"`

	// autoscaling adds and removes pods by their use of CPU.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// imagePullSecrets name Secrets in the Project's namespace on the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`

	// podTemplate says what the short form leaves out.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
}

// EnvVar is a variable of the environment: a value, or where one comes from.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.value) && has(self.valueFrom))",message="give value or valueFrom, not both"
type EnvVar struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z][-._a-zA-Z0-9]*$`
	Name string `json:"name"`

	// value is shown to everybody who may see the App: it is no place for a secret.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`

	// valueFrom says where the value comes from.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is where a value comes from.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) != has(self.exportRef)",message="give one of secretKeyRef and exportRef"
type EnvVarSource struct {
	// secretKeyRef takes a key of a Secret in the Project's namespace on the cluster
	// where the component runs.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`

	// exportRef takes an export of an addon of this App, on whichever cluster it runs.
	// +optional
	ExportRef *ExportReference `json:"exportRef,omitempty"`
}

// SecretKeyReference names a key of a Secret.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`

	// optional lets the pods start without it.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// ExportReference names an export of an addon.
type ExportReference struct {
	// component is the addon's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Component string `json:"component"`

	// key is the export's name, such as dsn.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Key string `json:"key"`
}

// Probes are a container's probes, in Kubernetes' own form.
type Probes struct {
	// liveness restarts a container that fails it.
	// +optional
	Liveness *corev1.Probe `json:"liveness,omitempty"`

	// readiness takes a pod that fails it out of the Service.
	// +optional
	Readiness *corev1.Probe `json:"readiness,omitempty"`

	// startup holds the others off until it succeeds.
	// +optional
	Startup *corev1.Probe `json:"startup,omitempty"`
}

// Ingress makes a workload's port reachable from outside the cluster.
type Ingress struct {
	// host is the DNS name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Host string `json:"host"`

	// path prefix.
	// +optional
	// +kubebuilder:default=/
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`

	// className of the ingress controller; the cluster's default when unset.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`

	// tlsSecretName names the Secret with the certificate, in the Project's namespace
	// on the cluster. Without it there is no TLS.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`

	// annotations for the ingress controller.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Autoscaling is the short form of a HorizontalPodAutoscaler.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must be at most maxReplicas"
type Autoscaling struct {
	// minReplicas is the least number of pods.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the largest number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUPercent of the requested CPU that pods shall use on average.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUPercent int32 `json:"targetCPUPercent,omitempty"`
}

// PodTemplate is laid over the pods of a workload.
type PodTemplate struct {
	// labels of the pods, beside kubenest's own.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('(^|[.])(kubernetes|k8s|kubenest)[.]io/'))",message="labels of kubernetes.io, k8s.io and kubenest.io are kubenest's to set"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('(^|[.])kubenest[.]io/'))",message="annotations of kubenest.io are kubenest's to set"
	Annotations map[string]string `json:"annotations,omitempty"`

	// nodeSelector of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations of the pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// securityContext of the pods.
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`

	// containerSecurityContext of the container.
	// +optional
	ContainerSecurityContext *corev1.SecurityContext `json:"containerSecurityContext,omitempty"`
}
