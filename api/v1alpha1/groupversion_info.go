// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "kubenest.io", Version: "v1alpha1"}

	// SchemeGroupVersion is GroupVersion under the name that generated apply
	// configurations look for.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder collects the functions that add this package's types.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ManagedCluster{}, &ManagedClusterList{},
		&Project{}, &ProjectList{},
		&App{}, &AppList{},
		&StackDeploy{}, &StackDeployList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
