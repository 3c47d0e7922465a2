// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Delivery says how deployments reach a cluster's own API server.
// +kubebuilder:validation:Enum=direct;argocd
type Delivery string

const (
	// DeliveryDirect has the operator apply objects itself.
	DeliveryDirect Delivery = "direct"
	// DeliveryArgoCD has the operator commit objects to the cluster's branch of
	// a Git repository, from where Argo CD applies them.
	DeliveryArgoCD Delivery = "argocd"
)

// ManagedClusterSpec is what a person wants of a cluster. Empty, it registers
// a cluster that exists already ("bring your own").
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || (has(self.clusterID) && self.clusterID == oldSelf.clusterID)",message="clusterID cannot change once it is set: the cluster's operator knows itself by it",fieldPath=".clusterID"
// +kubebuilder:validation:XValidation:rule="has(self.provision) == has(oldSelf.provision)",message="provision cannot be added or removed: a cluster that was registered has nodes that kubenest does not manage (so it cannot be scaled from here), and forgetting how one was provisioned would leak its machines",fieldPath=".provision"
// +kubebuilder:validation:XValidation:rule="!has(self.provision) || (oldSelf.hasValue() && !has(oldSelf.value().provision)) || (has(self.provision.provider) && has(self.provision.credentialRef) && has(self.provision.instanceType))",message="provision needs provider, credentialRef and instanceType",optionalOldSelf=true,fieldPath=".provision"
// +kubebuilder:validation:XValidation:rule="!has(self.provision) || !has(oldSelf.provision) || (has(self.region) == has(oldSelf.region) && (!has(self.region) || self.region == oldSelf.region))",message="region of a provisioned cluster cannot change: its machines cannot move",fieldPath=".region"
type ManagedClusterSpec struct {
	// displayName is the name that people see. It defaults to the object's name.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	DisplayName string `json:"displayName,omitempty"`

	// description is free text.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// region says where the cluster is, in the provider's words or the user's own.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`

	// clusterID is the cluster's id where it must not be this object's UID: for
	// records re-applied from Git or a backup, whose operators know themselves by
	// the id they had. It cannot change. Setting it takes the RBAC verb "adopt"
	// on managedclusters, cluster-wide.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$')",message="clusterID must be a UUID in lower case, such as 6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11"
	ClusterID string `json:"clusterID,omitempty"`

	// delivery says how deployments reach this cluster unless an App says otherwise.
	// +optional
	// +kubebuilder:default=direct
	Delivery Delivery `json:"delivery,omitempty"`

	// gitops is the cluster's own place in a Git repository, for delivery argocd.
	// +optional
	GitOps *GitOps `json:"gitops,omitempty"`

	// operator holds settings of the operator that runs on the cluster.
	// +optional
	Operator *OperatorSettings `json:"operator,omitempty"`

	// allowedProjects says whose Projects may use this cluster. Without it, those
	// of the record's own namespace may.
	// +optional
	AllowedProjects *AllowedProjects `json:"allowedProjects,omitempty"`

	// grants are what Projects may do on this cluster beyond their namespaces. Without
	// it, nothing.
	// +optional
	Grants *Grants `json:"grants,omitempty"`

	// token steers the tokens that this cluster's operator authenticates with.
	// +optional
	Token *TokenSettings `json:"token,omitempty"`

	// rebind is the UID of the kube-system namespace of the cluster that shall
	// take this record over on purpose: the next connection from it is pinned in
	// place of the present one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Rebind string `json:"rebind,omitempty"`

	// abandoned gives a dead cluster up: its tokens are revoked and what waits
	// for it is released. Setting it takes the RBAC verb "revoke".
	// +optional
	Abandoned bool `json:"abandoned,omitempty"`

	// provision asks kubenest to create the cluster at a cloud provider. It can
	// be given at creation only.
	// +optional
	Provision *Provision `json:"provision,omitempty"`
}

// GitOps is a cluster's place in a Git repository.
type GitOps struct {
	// repoURL is the repository, by https or ssh.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	RepoURL string `json:"repoURL"`

	// branch is the branch of this cluster.
	// +optional
	// +kubebuilder:default=main
	// +kubebuilder:validation:MaxLength=255
	Branch string `json:"branch,omitempty"`

	// path is the folder of this cluster in the repository.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`

	// secretRef names the Secret with the repository's token or SSH key.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
}

// LocalReference names an object in the referring object's namespace.
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// OperatorSettings are settings of the operator on the cluster.
type OperatorSettings struct {
	// values are merged with the values.yaml that kubenest generates for the
	// operator chart, and with what provisioned machines install. Those that
	// kubenest knows (hub and cluster) win.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Values *runtime.RawExtension `json:"values,omitempty"`
}

// AllowedProjects says whose Projects may use a cluster.
type AllowedProjects struct {
	// namespaceSelector selects the namespaces whose Projects may use the cluster.
	// The empty selector selects all.
	// +required
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
}

// PodSecurity is a level of Kubernetes' pod security standards.
// +kubebuilder:validation:Enum=restricted;baseline;privileged
type PodSecurity string

// Levels of pod security.
const (
	PodSecurityRestricted PodSecurity = "restricted"
	PodSecurityBaseline   PodSecurity = "baseline"
	PodSecurityPrivileged PodSecurity = "privileged"
)

// Grants are what a cluster's owner allows Projects beyond their namespaces.
type Grants struct {
	// podSecurity is the pod security level of the Projects' namespaces. With
	// privileged, whoever may write an App can become root on the cluster's nodes.
	// +optional
	// +kubebuilder:default=baseline
	PodSecurity PodSecurity `json:"podSecurity,omitempty"`

	// clusterScoped allows objects without a namespace, such as the ClusterRoles and
	// CRDs of charts. With it, whoever may write an App can become the cluster's
	// administrator. The operator on the cluster has to be allowed it too.
	// +optional
	ClusterScoped bool `json:"clusterScoped,omitempty"`
}

// TokenSettings steer a cluster's tokens.
type TokenSettings struct {
	// floor is the lowest token generation that is accepted. Raising it revokes
	// every token below it and closes the sessions that used one; lowering it has
	// no effect, since status.token.floor only rises. Changing it takes the RBAC
	// verb "revoke".
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Floor int64 `json:"floor,omitempty"`

	// lifetime of a token, 1 year when unset. Tokens are renewed over the session
	// after two thirds of it.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10m') && duration(self) <= duration('87600h')",message="lifetime must be a duration between 10m and 87600h (10 years), such as 8760h"
	Lifetime *metav1.Duration `json:"lifetime,omitempty"`
}

// ManagedClusterStatus is what is known of a cluster. What is not known is
// absent, never zero.
type ManagedClusterStatus struct {
	// conditions are the truth from which phase is derived.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// clusterID is the cluster's id: spec.clusterID, else the object's UID.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	ClusterID string `json:"clusterID,omitempty"`

	// phase sums the conditions up for people.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// reason is the reason of the condition that decided the phase.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// message says what a person should know or do.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// since is when the condition that decided the phase last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// session is the operator's session with the hub, or the last one.
	// +optional
	Session *SessionStatus `json:"session,omitempty"`

	// clusterUID is the UID of the cluster's kube-system namespace, pinned at the
	// first connection: no other cluster can use this record's tokens.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`

	// kubernetesVersion is the version of the cluster's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// operatorVersion is the version of the operator on the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OperatorVersion string `json:"operatorVersion,omitempty"`

	// nodeCount is the number of nodes, control planes included.
	// +optional
	NodeCount *int32 `json:"nodeCount,omitempty"`

	// resources are the cluster's aggregate figures.
	// +optional
	Resources *ClusterResources `json:"resources,omitempty"`

	// columns are the figures as kubectl prints them; empty while the cluster is
	// not connected.
	// +optional
	Columns *Columns `json:"columns,omitempty"`

	// token describes the tokens issued for this cluster.
	// +optional
	Token *TokenStatus `json:"token,omitempty"`
}

// SessionStatus describes the session of a cluster's operator. It stays after
// the session's end, without replica and id, since the epoch and the processes
// must outlive it.
type SessionStatus struct {
	// replica is the hub replica that holds the session: its name, a slash, and
	// an id that is drawn anew at each start. Empty while no replica holds one.
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Replica string `json:"replica,omitempty"`

	// id of the session. Empty while there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`

	// epoch counts this cluster's sessions. A replica that sees a higher one than
	// its own session's gives that session up.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// process is the id of the operator process that opened the session. It is
	// drawn anew each time an operator pod becomes the active one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Process string `json:"process,omitempty"`

	// previousProcess is the operator process that process took over from.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PreviousProcess string `json:"previousProcess,omitempty"`

	// previousSince is when process took over from previousProcess.
	// +optional
	PreviousSince *metav1.Time `json:"previousSince,omitempty"`

	// connectedAt is when the session was established.
	// +optional
	ConnectedAt *metav1.Time `json:"connectedAt,omitempty"`

	// lastHeardAt is when the operator was last heard of, written when the session
	// has ended.
	// +optional
	LastHeardAt *metav1.MicroTime `json:"lastHeardAt,omitempty"`

	// tokenGeneration is the generation of the token that the session used.
	// +optional
	TokenGeneration int64 `json:"tokenGeneration,omitempty"`

	// clockOffset is how far the operator's clock was ahead of the hub's when it
	// connected (negative: behind), such as "-1.2s". It is shown, never acted on.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ClockOffset string `json:"clockOffset,omitempty"`
}

// ClusterResources are a cluster's aggregate figures.
type ClusterResources struct {
	// cpuTotal is the CPU capacity of all nodes.
	// +optional
	CPUTotal *resource.Quantity `json:"cpuTotal,omitempty"`

	// cpuUsed is the CPU in use, see source.
	// +optional
	CPUUsed *resource.Quantity `json:"cpuUsed,omitempty"`

	// memTotal is the memory capacity of all nodes.
	// +optional
	MemTotal *resource.Quantity `json:"memTotal,omitempty"`

	// memUsed is the memory in use, see source.
	// +optional
	MemUsed *resource.Quantity `json:"memUsed,omitempty"`

	// source says what the usage is: measured ("metrics.k8s.io") or the sum of
	// the pods' requests ("requests"). Absent when the usage is not known.
	// +optional
	// +kubebuilder:validation:Enum=metrics.k8s.io;requests
	Source string `json:"source,omitempty"`

	// observedAt is when the operator read these figures, by the hub's clock.
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`
}

// Columns are figures in the form that kubectl prints.
type Columns struct {
	// cpu is used/total cores, such as "3.2/8".
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CPU string `json:"cpu,omitempty"`

	// memory is used/total memory, such as "11/96 Gi".
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Memory string `json:"memory,omitempty"`
}

// TokenStatus describes the tokens issued for a cluster; never a token itself.
type TokenStatus struct {
	// generation of the token issued last.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// floor is the lowest generation that is accepted. It only rises.
	// +optional
	Floor int64 `json:"floor,omitempty"`

	// expiresAt is when the token in the connection Secret expires.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// connectionSecret names the Secret that holds what the operator needs.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ConnectionSecret string `json:"connectionSecret,omitempty"`
}

// ManagedCluster is the record of one Kubernetes cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.provision.nodeCount,statuspath=.status.nodeCount
// +kubebuilder:resource:shortName=mc,categories=kubenest
// +kubebuilder:metadata:annotations="kubenest.io/schema-version=2"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.since`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodeCount`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.columns.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.columns.memory`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Operator",type=string,priority=1,JSONPath=`.status.operatorVersion`
// +kubebuilder:printcolumn:name="Replica",type=string,priority=1,JSONPath=`.status.session.replica`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 242",message="name must be at most 242 characters, so that the name of its connection Secret fits",fieldPath=".metadata"
type ManagedCluster struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted of the cluster. Empty, it registers one that exists.
	// +optional
	// +kubebuilder:default={}
	Spec ManagedClusterSpec `json:"spec,omitempty"`

	// status is what is known of the cluster.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status ManagedClusterStatus `json:"status,omitempty"`
}

// ManagedClusterList is a list of ManagedClusters.
//
// +kubebuilder:object:root=true
type ManagedClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ManagedCluster `json:"items"`
}

// ID is the cluster's id: the one its spec names, else the object's UID. It is
// known before any controller has seen the record.
func (c *ManagedCluster) ID() string {
	if c.Spec.ClusterID != "" {
		return c.Spec.ClusterID
	}
	return string(c.UID)
}

// TokenFloor is the lowest token generation that is accepted now: the higher
// of the one asked for and the highest that was ever in force.
func (c *ManagedCluster) TokenFloor() int64 {
	var floor int64
	if c.Spec.Token != nil {
		floor = c.Spec.Token.Floor
	}
	if c.Status.Token != nil {
		floor = max(floor, c.Status.Token.Floor)
	}
	return floor
}

// ConnectionSecretName names the Secret with the connection material.
func (c *ManagedCluster) ConnectionSecretName() string {
	return c.Name + ConnectionSecretSuffix
}
