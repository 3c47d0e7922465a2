// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// Rules say what may be applied at all, before the API server is asked. They name
// what they refuse; the Project's rights hold without them, too.
type Rules struct {
	mapper    meta.RESTMapper
	evaluator policy.Evaluator
}

// NewRules makes rules. The mapper tells which kinds have a namespace.
func NewRules(mapper meta.RESTMapper) (*Rules, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("set up pod security: %w", err)
	}
	return &Rules{mapper: mapper, evaluator: evaluator}, nil
}

// Check refuses, with a *Problem, objects that are not for the target's namespace
// and pods above its pod security level. Objects that leave their namespace out get
// it. A kind that the cluster does not know is refused, too, unless the objects
// bring its CRD along.
func (r *Rules) Check(t *Target, objects []*unstructured.Unstructured) error {
	brought := broughtKinds(objects)
	for _, o := range objects {
		if err := r.checkScope(t, o, brought); err != nil {
			return err
		}
		if err := r.checkPods(t, o); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rules) checkScope(t *Target, o *unstructured.Unstructured, brought map[schema.GroupKind]bool) error {
	kind := o.GroupVersionKind()
	mapping, err := r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	namespaced, isBrought := brought[kind.GroupKind()]
	switch {
	case err == nil: // what the cluster says counts, whatever the objects say of a kind
		namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("look up kind %s: %w", kind, err)
	case !isBrought:
		return Refuse(kubenestv1.ReasonInvalid, "%s is of a kind that this cluster does not know (%s): install what defines it first",
			Describe(o), kind.GroupVersion())
	}
	switch {
	case !namespaced && !t.Grants.ClusterScoped:
		return Refuse(kubenestv1.ReasonForbidden, "%s belongs to the whole cluster, which its owner does not allow Projects: "+
			"leave it out, or have the owner set spec.grants.clusterScoped on the ManagedCluster", Describe(o))
	case !namespaced:
		return nil
	case o.GetNamespace() == "":
		o.SetNamespace(t.Namespace)
	case o.GetNamespace() != t.Namespace:
		return Refuse(kubenestv1.ReasonForbidden, "%s is for namespace %s: an App has objects in its Project's namespace %s only",
			Describe(o), o.GetNamespace(), t.Namespace)
	}
	return nil
}

func (r *Rules) checkPods(t *Target, o *unstructured.Unstructured) error {
	level := podsecurity.LevelVersion{Level: podsecurity.Level(t.Grants.PodSecurity), Version: podsecurity.LatestVersion()}
	paths := podTemplates(o)
	if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Pod"}) {
		paths = [][]string{nil}
	}
	for _, path := range paths {
		object := o.Object
		if len(path) > 0 {
			nested, found, err := unstructured.NestedMap(o.Object, path...)
			if err != nil || !found {
				continue // the API server says what is wrong with it
			}
			object = nested
		}
		var pod corev1.PodTemplateSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &pod); err != nil {
			return Refuse(kubenestv1.ReasonInvalid, "%s has a pod that can not be read: %v", Describe(o), err)
		}
		result := policy.AggregateCheckResults(r.evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
		if !result.Allowed {
			return Refuse(kubenestv1.ReasonForbidden, "%s has pods that the cluster's owner does not allow Projects (pod security %q): %s",
				Describe(o), level.Level, result.ForbiddenDetail())
		}
	}
	return nil
}

// podTemplates are the paths of the pod templates in an object of a known kind.
func podTemplates(o *unstructured.Unstructured) [][]string {
	switch o.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"},
		schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps", Kind: "DaemonSet"},
		schema.GroupKind{Group: "apps", Kind: "ReplicaSet"},
		schema.GroupKind{Group: "batch", Kind: "Job"},
		schema.GroupKind{Kind: "ReplicationController"}:
		return [][]string{{"spec", "template"}}
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return [][]string{{"spec", "jobTemplate", "spec", "template"}}
	}
	return nil
}

// broughtKinds are the kinds that CRDs among the objects define, and whether they
// have a namespace. Other objects that are called so define nothing.
func broughtKinds(objects []*unstructured.Unstructured) map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, o := range objects {
		if o.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
			continue
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
		kinds[schema.GroupKind{Group: group, Kind: kind}] = scope == "Namespaced"
	}
	return kinds
}

// Describe names an object as kubectl does.
func Describe(o client.Object) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return strings.TrimSpace(o.GetObjectKind().GroupVersionKind().Kind + " " + name)
}
