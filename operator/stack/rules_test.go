// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

func object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// definition of a kind, by something that says that it is a CRD.
func definition(apiVersion, group, kind, scope string) *unstructured.Unstructured {
	return object(apiVersion, "CustomResourceDefinition", "x."+group,
		map[string]any{"group": group, "scope": scope, "names": map[string]any{"kind": kind}})
}

func TestRulesKinds(t *testing.T) {
	const genuine, forged = "apiextensions.k8s.io/v1", "example.com/v1"
	role := func() *unstructured.Unstructured {
		return object("rbac.authorization.k8s.io/v1", "ClusterRole", "all", nil)
	}
	custom := func() *unstructured.Unstructured { return object("example.com/v1", "Widget", "w", nil) }
	for name, test := range map[string]struct {
		granted bool
		objects []*unstructured.Unstructured
		want    string // reason; none if it may be applied
	}{
		"a ClusterRole":              {objects: []*unstructured.Unstructured{role()}, want: kubenestv1.ReasonForbidden},
		"a ClusterRole that is let":  {granted: true, objects: []*unstructured.Unstructured{role()}},
		"a kind that nobody knows":   {objects: []*unstructured.Unstructured{custom()}, want: kubenestv1.ReasonInvalid},
		"a CRD":                      {objects: []*unstructured.Unstructured{definition(genuine, "example.com", "Widget", "Namespaced")}, want: kubenestv1.ReasonForbidden},
		"a CRD that is let, and its": {granted: true, objects: []*unstructured.Unstructured{definition(genuine, "example.com", "Widget", "Namespaced"), custom()}},
		"what calls itself a CRD, to have a ClusterRole for one of the namespace's kinds": {
			objects: []*unstructured.Unstructured{
				definition(forged, "example.com", "CustomResourceDefinition", "Namespaced"),
				definition(forged, "rbac.authorization.k8s.io", "ClusterRole", "Namespaced"), role(),
			}, want: kubenestv1.ReasonInvalid,
		},
		"a CRD that says otherwise of a kind that there is": {
			granted: true,
			objects: []*unstructured.Unstructured{
				definition(genuine, "rbac.authorization.k8s.io", "ClusterRole", "Namespaced"), role(),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, meta.RESTScopeRoot)
			mapper.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, meta.RESTScopeRoot)
			rules, err := stack.NewRules(mapper)
			g.Expect(err).NotTo(HaveOccurred())
			target := &stack.Target{Namespace: "shop", Grants: kubenestv1.Grants{ClusterScoped: test.granted, PodSecurity: kubenestv1.PodSecurityBaseline}}
			err = rules.Check(target, test.objects)
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				for _, o := range test.objects {
					if o.GetKind() == "ClusterRole" {
						g.Expect(o.GetNamespace()).To(BeEmpty(), "it belongs to the cluster, whatever the objects say")
					}
				}
				return
			}
			problem, ok := errors.AsType[*stack.Problem](err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(problem.Reason).To(Equal(test.want), problem.Message)
		})
	}
}
