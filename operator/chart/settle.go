// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Settle gives the generated values in an object those that it has on the cluster.
// What differs between object and again, which are two renderings of it, was
// generated; live is what the cluster has. It reports whether there was anything to
// settle.
func Settle(object, again, live *unstructured.Unstructured) bool {
	var liveContent map[string]any
	if live != nil {
		liveContent = live.Object
	}
	settled, changed := settle(object.Object, again.Object, liveContent)
	if changed {
		if content, ok := settled.(map[string]any); ok {
			object.Object = content
		}
	}
	return changed
}

// settle walks both renderings. live may be nil, or of another shape: then the first
// rendering stays.
func settle(first, second, live any) (any, bool) {
	switch a := first.(type) {
	case map[string]any:
		b, ok := second.(map[string]any)
		if !ok {
			return first, false
		}
		l, _ := live.(map[string]any)
		changed := false
		for key, value := range a {
			other, there := b[key]
			if !there {
				continue
			}
			settled, different := settle(value, other, l[key])
			if different {
				a[key], changed = settled, true
			}
		}
		return a, changed
	case []any:
		b, ok := second.([]any)
		if !ok || len(a) != len(b) {
			return first, false
		}
		l, _ := live.([]any)
		if len(l) != len(a) {
			l = make([]any, len(a)) // nothing to take from
		}
		changed := false
		for i := range a {
			settled, different := settle(a[i], b[i], l[i])
			if different {
				a[i], changed = settled, true
			}
		}
		return a, changed
	}
	if reflect.DeepEqual(first, second) {
		return first, false
	}
	if live != nil && reflect.TypeOf(live) == reflect.TypeOf(first) {
		return live, true
	}
	return first, true
}

// Key tells the objects of a rendering apart.
func Key(o *unstructured.Unstructured) string {
	return o.GroupVersionKind().GroupKind().String() + "/" + o.GetNamespace() + "/" + o.GetName()
}
