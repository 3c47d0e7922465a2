// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// OrganizationLabel, with the value "true", makes a namespace an
	// organization. The hub acts on records in organizations only, so that a
	// management cluster can be its own workload cluster.
	OrganizationLabel = "kubenest.io/organization"

	// ConnectionLabel marks the Secrets that hold a cluster's connection
	// material. Its value is "true"; the hub's Secret cache is restricted to it.
	ConnectionLabel = "kubenest.io/connection"

	// ConnectionSecretSuffix, behind a ManagedCluster's name, names the Secret
	// that holds what its operator needs to connect.
	ConnectionSecretSuffix = "-connection"

	// ExportsLabel marks the Secrets that hold an addon's exports, in both clusters. Its
	// value is "true".
	ExportsLabel = "kubenest.io/exports"
	// ExportsSecretSuffix, behind <app>-<component>, names such a Secret.
	ExportsSecretSuffix = "-exports"
	// ExportsRevisionAnnotation on such a Secret changes when its data does.
	ExportsRevisionAnnotation = "kubenest.io/exports-revision"
	// ChartLabel, with the value "true", marks the ConfigMaps that hold charts.
	ChartLabel = "kubenest.io/chart"
	// SecretTypeGitCredential is the type of Secrets that spec.gitops may name, so that
	// no other Secret can be sent to a repository of somebody's choice. Their keys are
	// username and password, or sshPrivateKey and knownHosts; caCert besides.
	SecretTypeGitCredential = "kubenest.io/git-credential" //nolint:gosec // a type, no credential

	// AppLabel, ComponentLabel and ProjectLabel are on everything that an App has on a
	// cluster, and on its StackDeploys. Values are names; those over 63 characters are
	// cut, so they are for people and selection, and OwnerAnnotation decides.
	AppLabel       = "kubenest.io/app"
	ComponentLabel = "kubenest.io/component"
	ProjectLabel   = "kubenest.io/project"
	// ClusterLabel on StackDeploys is the id of the cluster they are for.
	ClusterLabel = "kubenest.io/cluster-id"
	// ManagedByLabel is Kubernetes' own; its value is ManagedBy on what the operator
	// applied itself.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel.
	ManagedBy = "kubenest"

	// OwnerAnnotation on each object that the operator made says for whom:
	// <cluster id>/<namespace>/<StackDeploy> at the hub. UIDs are not in it, so that a
	// hub that was built anew recognises what it made.
	OwnerAnnotation = "kubenest.io/owner"
	// InputsAnnotation on a pod template changes when a Secret that the pods use does.
	InputsAnnotation = "kubenest.io/inputs"
	// RestartedAtAnnotation on a pod template is the App's spec.restartedAt.
	RestartedAtAnnotation = "kubenest.io/restarted-at"
	// AllowAddonMoveAnnotation on an App names the addons that may move to another
	// cluster though their data stays behind, with commas between them.
	AllowAddonMoveAnnotation = "kubenest.io/allow-addon-move"
	// RemovalFinalizer on a StackDeploy of the management cluster holds it until its
	// operator has removed what it made, or the cluster was given up. On a Project and
	// an App, until their StackDeploys are gone.
	RemovalFinalizer = "kubenest.io/removal"
	// InUseFinalizer holds a ManagedCluster while Projects or StackDeploys use it.
	InUseFinalizer = "kubenest.io/in-use"

	// ProjectServiceAccount is the ServiceAccount in a Project's namespace with whose
	// rights everything in it is applied.
	ProjectServiceAccount = "kubenest-project"

	// SchemaVersionAnnotation on a CRD counts its schema's versions, so that an
	// older program never applies its schema over a newer one.
	SchemaVersionAnnotation = "kubenest.io/schema-version"
)

// Keys of a connection Secret, as the operator chart's existingSecret reads them.
const (
	// ConnectionKeyToken holds the cluster's JWT.
	ConnectionKeyToken = "token"
	// ConnectionKeyClusterID holds the cluster's id, a UUID.
	ConnectionKeyClusterID = "cluster-id"
	// ConnectionKeyHubURL holds the https URL that the operator dials.
	ConnectionKeyHubURL = "hub-url"
	// ConnectionKeyCA holds the PEM bundle that the hub's certificate is checked
	// against. Empty when the hub's certificate is from a public authority.
	ConnectionKeyCA = "ca.crt"
	// ConnectionKeyValues holds a complete values.yaml for the operator chart.
	ConnectionKeyValues = "values.yaml"
)

// RBAC verbs on managedclusters that Kubernetes does not know by itself. They
// are checked by the admission policies in config/policy and by REST.
const (
	// VerbAdopt lets its holder give a record the id of an existing cluster.
	VerbAdopt = "adopt"
	// VerbMint lets its holder issue a token.
	VerbMint = "mint"
	// VerbRevoke lets its holder raise the token floor or abandon a cluster.
	VerbRevoke = "revoke"
)

// Field managers. Each owns the status fields that doc.go lists, and always
// applies all of them: server-side apply removes what a manager leaves out.
const (
	FieldManagerRegistration = "kubenest-registration"
	FieldManagerProvisioning = "kubenest-provisioning"
	FieldManagerSession      = "kubenest-session"
	// FieldManagerGuard owns InUseFinalizer on ManagedClusters.
	FieldManagerGuard = "kubenest-guard"
	// FieldManagerProject and FieldManagerApp own the status of Projects and Apps, and
	// the specs of the StackDeploys that they make.
	FieldManagerProject = "kubenest-project"
	FieldManagerApp     = "kubenest-app"
	// FieldManagerDelivery owns the status of the management cluster's StackDeploys,
	// and the Secrets with exports.
	FieldManagerDelivery = "kubenest-delivery"
	// FieldManagerOperator owns what the operator writes on its cluster.
	FieldManagerOperator = "kubenest-operator"
)
