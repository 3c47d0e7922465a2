// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// StackDeploySchema is the version of the StackDeploy schema that this program
// knows; operators say theirs in the hello. It is also on the CRD, as
// SchemaVersionAnnotation.
const StackDeploySchema = 1

// RequiredSchema is the lowest schema version that keeps every field of a spec.
func RequiredSchema(*StackDeploySpec) int { return 1 }

// StackName names the StackDeploy of an App, or of a Project's namespace, for one
// cluster. Both may have one name, and one App has many, so that a hash tells them
// apart.
func StackName(kind, name, clusterID string) string {
	return fit(name, "-"+hash(kind+"/"+name+"/"+clusterID), validation.DNS1123SubdomainMaxLength)
}

// LocalName names an operator's copy of a hub's StackDeploy. Those of all
// organizations are in one namespace there.
func LocalName(s *StackSource) string {
	name := s.Namespace + "." + s.Name
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	return fit(name, "-"+hash(name), validation.DNS1123SubdomainMaxLength)
}

// Owner is the value of OwnerAnnotation.
func Owner(clusterID string, s *StackSource) string {
	return clusterID + "/" + s.Namespace + "/" + s.Name
}

// ObjectName names what a component has on its cluster.
func ObjectName(app, component string) string { return app + "-" + component }

// ExportsSecretName names the Secret with a component's exports, in both clusters.
func ExportsSecretName(app, component string) string {
	return ObjectName(app, component) + ExportsSecretSuffix
}

// LabelValue makes a label's value of a name.
func LabelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	return fit(name, "-"+hash(name), validation.LabelValueMaxLength)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:5])
}

// fit cuts a name so that it and a suffix have at most n bytes.
func fit(name, suffix string, n int) string {
	if len(name)+len(suffix) > n {
		name = strings.TrimRight(name[:n-len(suffix)], "-.")
	}
	return name + suffix
}
