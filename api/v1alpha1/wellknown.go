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
)
