// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stack holds what all ways of deploying share: for whom something is done
// on this cluster, with whose rights, and what is refused.
package stack

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// Target is for whom, and where on this cluster, something is done.
type Target struct {
	// Owner is the value of OwnerAnnotation.
	Owner string
	// Namespace is the Project's.
	Namespace string
	// Project is <namespace>/<name> at the hub. App is empty for a Project's
	// namespace itself.
	Project kubenestv1.ProjectKey
	App     string
	// Grants of the cluster's owner.
	Grants kubenestv1.Grants
}

// Of a StackDeploy of this cluster, which has a source.
func Of(s *kubenestv1.StackDeploy) Target {
	t := Target{
		Namespace: s.Spec.Namespace, Project: s.Spec.Project, App: s.Spec.App,
		Grants: kubenestv1.Grants{PodSecurity: kubenestv1.PodSecurityBaseline},
	}
	if s.Spec.Source != nil {
		t.Owner = kubenestv1.Owner(s.Spec.ClusterID, s.Spec.Source)
	}
	if g := s.Spec.Grants; g != nil {
		t.Grants.ClusterScoped = g.ClusterScoped
		if g.PodSecurity != "" {
			t.Grants.PodSecurity = g.PodSecurity
		}
	}
	return t
}

// Labels of everything that a component has.
func (t *Target) Labels(component string) map[string]string {
	return map[string]string{
		kubenestv1.AppLabel:       kubenestv1.LabelValue(t.App),
		kubenestv1.ComponentLabel: kubenestv1.LabelValue(component),
		kubenestv1.ProjectLabel:   kubenestv1.LabelValue(t.Project.Name),
	}
}

// Mark puts labels and the owner on an object, and the labels on the pods that it
// makes: they are found by them.
func (t *Target) Mark(o *unstructured.Unstructured, component string) {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, t.Labels(component))
	o.SetLabels(labels)
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[kubenestv1.OwnerAnnotation] = t.Owner
	o.SetAnnotations(annotations)
	for _, path := range podTemplates(o) {
		template, found, err := unstructured.NestedMap(o.Object, path...)
		if err != nil || !found {
			continue
		}
		pod := &unstructured.Unstructured{Object: template}
		labels := pod.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, t.Labels(component))
		pod.SetLabels(labels)
		_ = unstructured.SetNestedMap(o.Object, pod.Object, path...) // the path was there just now
	}
}

// Owns reports whether an object was made for this target.
func (t *Target) Owns(o client.Object) bool {
	return t.Owner != "" && o.GetAnnotations()[kubenestv1.OwnerAnnotation] == t.Owner
}

// As gives the rights of a Project's ServiceAccount: what an App asks for is done
// with them, or each author of an App would be the cluster's administrator. The API
// server knows a ServiceAccount's groups by itself; to name them the operator would
// need the right to act as any group, the administrators' included.
func As(config *rest.Config, namespace string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + kubenestv1.ProjectServiceAccount,
	}
	return config
}
