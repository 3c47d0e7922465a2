// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package argocdtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Kinds are those that Objects lists: what Apps have, and not what Kubernetes makes of
// it.
var Kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// Objects gives a namespace's objects that carry a label (all, if it is empty), as YAML
// by <kind>/<name>, without what differs from one cluster to the next or tells who
// applied them: uids, versions, times, addresses, status, and Argo CD's tracking
// annotation. Two ways of delivery that end alike give the same.
func Objects(ctx context.Context, api client.Client, namespace, label string) (map[string]string, error) {
	objects := map[string]string{}
	for _, kind := range Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		options := []client.ListOption{client.InNamespace(namespace)}
		if label != "" {
			options = append(options, client.HasLabels{label})
		}
		if err := api.List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			normalise(o)
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				return nil, fmt.Errorf("write %s %s: %w", kind.Kind, o.GetName(), err)
			}
			objects[kind.Kind+"/"+o.GetName()] = string(text)
		}
	}
	return objects, nil
}

// drop are the fields that differ by chance.
var drop = [][]string{
	{"status"},
	{"metadata", "uid"},
	{"metadata", "resourceVersion"},
	{"metadata", "generation"},
	{"metadata", "creationTimestamp"},
	{"metadata", "managedFields"},
	{"metadata", "selfLink"},
	{"metadata", "annotations", "argocd.argoproj.io/tracking-id"},
	{"metadata", "annotations", "deployment.kubernetes.io/revision"},
	{"spec", "clusterIP"},
	{"spec", "clusterIPs"},
	{"spec", "healthCheckNodePort"},
	{"spec", "volumeName"},
}

func normalise(o *unstructured.Unstructured) {
	for _, path := range drop {
		unstructured.RemoveNestedField(o.Object, path...)
	}
	if len(o.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
	if ports, found, err := unstructured.NestedSlice(o.Object, "spec", "ports"); found && err == nil {
		for _, p := range ports {
			if port, ok := p.(map[string]any); ok {
				delete(port, "nodePort")
			}
		}
		_ = unstructured.SetNestedSlice(o.Object, ports, "spec", "ports") // they were there just now
	}
}

// Difference says how two results of Objects differ; empty where they do not.
func Difference(a, b map[string]string) string {
	var lines []string
	for name, text := range a {
		switch other, ok := b[name]; {
		case !ok:
			lines = append(lines, name+" is in the first only")
		case other != text:
			lines = append(lines, name+" differs:\n"+text+"---\n"+other)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			lines = append(lines, name+" is in the second only")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
