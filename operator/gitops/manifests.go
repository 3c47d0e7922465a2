// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

// Bounds of what one App commits.
const (
	maxObjects = 1000
	maxBytes   = 8 << 20
)

// render makes the files of a publication, by name. The same objects give the same
// files, in whatever order they come.
func render(p *delivery.Publication) (map[string][]byte, error) {
	if len(p.Objects) > maxObjects {
		return nil, stack.Refuse(kubenestv1.ReasonTooLarge, "App %s has %d objects, and at most %d are committed for one: split it", p.Target.App, len(p.Objects), maxObjects)
	}
	files := map[string][]byte{ownerFile: []byte(p.Target.Owner + "\n")}
	names, total := fileNames(p.Objects), 0
	for i, o := range p.Objects {
		if o.IsList() {
			return nil, stack.Refuse(kubenestv1.ReasonInvalid, "%s %s is a list: its items are to be objects of their own", o.GetKind(), o.GetName())
		}
		if o.GetKind() == "Secret" && o.GroupVersionKind().Group == "" {
			return nil, stack.Refuse(kubenestv1.ReasonForbidden, "Secret %s/%s would be committed, and Secrets never are", o.GetNamespace(), o.GetName())
		}
		content, err := yaml.Marshal(desired(o))
		if err != nil {
			return nil, fmt.Errorf("write %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if total += len(content); total > maxBytes {
			return nil, stack.Refuse(kubenestv1.ReasonTooLarge, "the objects of App %s are over %d MiB: split it", p.Target.App, maxBytes>>20)
		}
		name := names[i]
		if _, taken := files[name]; taken {
			return nil, stack.Refuse(kubenestv1.ReasonInvalid, "App %s has %s %s/%s twice", p.Target.App, o.GetKind(), o.GetNamespace(), o.GetName())
		}
		files[name] = content
	}
	return files, nil
}

// desired is an object without what only a server sets.
func desired(o *unstructured.Unstructured) map[string]any {
	copied := o.DeepCopy()
	delete(copied.Object, "status")
	for _, field := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation", "selfLink"} {
		unstructured.RemoveNestedField(copied.Object, "metadata", field)
	}
	if template, found, err := unstructured.NestedMap(copied.Object, "spec", "template", "metadata"); found && err == nil {
		delete(template, "creationTimestamp")
		_ = unstructured.SetNestedMap(copied.Object, template, "spec", "template", "metadata") // it was there just now
	}
	return copied.Object
}

// fileNames are <component>-<kind>-<name>.yaml. A hash tells apart what is alike by
// that: kinds of several groups, and names with characters that a file has not.
func fileNames(objects []*unstructured.Unstructured) []string {
	plain, exact := make([]string, len(objects)), make([]bool, len(objects))
	count := map[string]int{}
	for i, o := range objects {
		plain[i], exact[i] = plainName(o)
		count[plain[i]]++
	}
	names := make([]string, len(objects))
	for i, o := range objects {
		if exact[i] && count[plain[i]] == 1 {
			names[i] = plain[i] + ".yaml"
			continue
		}
		sum := sha256.Sum256([]byte(o.GroupVersionKind().Group + "/" + o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()))
		names[i] = plain[i] + "-" + hex.EncodeToString(sum[:4]) + ".yaml"
	}
	return names
}

// plainName says too whether nothing was lost in it.
func plainName(o *unstructured.Unstructured) (string, bool) {
	const most = 180
	parts := []string{o.GetKind(), o.GetName()}
	if component := o.GetLabels()[kubenestv1.ComponentLabel]; component != "" {
		parts = slices.Insert(parts, 0, component)
	}
	name := strings.ToLower(strings.Join(parts, "-"))
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, name)
	plain = strings.TrimLeft(plain[:min(len(plain), most)], ".-")
	return plain, plain == name
}

// digest of files.
func digest(files map[string][]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := sha256.Sum256(files[name])
		fmt.Fprintf(h, "%q %x\n", name, content)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
