// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// maxDifferences that are looked for: nobody reads more.
const maxDifferences = 16

// listKeys of the lists that workloads have and that server-side apply merges by key,
// by the field's name. All others are compared as a whole.
var listKeys = map[string][][]string{
	"containers":       {{"name"}},
	"initContainers":   {{"name"}},
	"env":              {{"name"}},
	"imagePullSecrets": {{"name"}},
	"volumes":          {{"name"}},
	"ports":            {{"containerPort", "protocol"}, {"port", "protocol"}},
}

// differences are the paths at which live lacks, or has otherwise, what is wanted.
// What live has besides is nobody's business. Values are not in it.
func differences(wanted, live map[string]any) []fieldpath.Path {
	c := comparison{}
	c.compareMaps(nil, wanted, live)
	return c.paths
}

type comparison struct {
	paths []fieldpath.Path
}

func (c *comparison) differ(path fieldpath.Path) {
	if len(c.paths) < maxDifferences {
		c.paths = append(c.paths, slices.Clone(path))
	}
}

func (c *comparison) compareMaps(path fieldpath.Path, wanted, live map[string]any) {
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at := append(slices.Clone(path), fieldpath.PathElement{FieldName: &name})
		theirs, found := live[name]
		if !found {
			if !empty(wanted[name]) {
				c.differ(at)
			}
			continue
		}
		c.compare(at, name, wanted[name], theirs)
	}
}

func (c *comparison) compare(path fieldpath.Path, name string, wanted, live any) {
	switch wanted := wanted.(type) {
	case map[string]any:
		if live, ok := live.(map[string]any); ok {
			c.compareMaps(path, wanted, live)
			return
		}
	case []any:
		if live, ok := live.([]any); ok {
			c.compareLists(path, name, wanted, live)
			return
		}
	}
	if !equality.Semantic.DeepEqual(wanted, live) {
		c.differ(path)
	}
}

func (c *comparison) compareLists(path fieldpath.Path, name string, wanted, live []any) {
	for _, keys := range listKeys[name] {
		mine, ok := byKey(wanted, keys)
		theirs, ok2 := byKey(live, keys)
		if !ok || !ok2 {
			continue
		}
		for _, item := range mine {
			at := append(slices.Clone(path), fieldpath.PathElement{Key: item.key})
			i := slices.IndexFunc(theirs, func(t keyed) bool { return t.key.Equals(*item.key) })
			if i < 0 {
				c.differ(at)
				continue
			}
			c.compareMaps(at, item.item, theirs[i].item)
		}
		return
	}
	if !equality.Semantic.DeepEqual(wanted, live) {
		c.differ(path)
	}
}

// keyed is an item of a list with its key.
type keyed struct {
	key  *value.FieldList
	item map[string]any
}

// byKey reports whether all items have the keys.
func byKey(list []any, keys []string) ([]keyed, bool) {
	out := make([]keyed, 0, len(list))
	for _, l := range list {
		item, ok := l.(map[string]any)
		if !ok {
			return nil, false
		}
		key := value.FieldList{}
		for _, k := range keys {
			v, found := item[k]
			if !found {
				return nil, false
			}
			key = append(key, value.Field{Name: k, Value: value.NewValueInterface(v)})
		}
		key.Sort()
		out = append(out, keyed{key: &key, item: item})
	}
	return out, true
}

// empty values and absent ones are the same to the API server.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, inner := range v {
			if !empty(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return false
}

// changer is who wrote at a path, or a part or a whole of it, besides us; empty when
// nobody did.
func changer(managed []metav1.ManagedFieldsEntry, path fieldpath.Path) string {
	for i := range managed {
		entry := &managed[i]
		if entry.Manager == kubenestv1.FieldManagerOperator || entry.Subresource == "status" || entry.FieldsV1 == nil {
			continue
		}
		set := fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			continue // nothing that could be said about it
		}
		if owns(&set, path) {
			return entry.Manager
		}
	}
	return ""
}

func owns(set *fieldpath.Set, path fieldpath.Path) bool {
	for i, element := range path {
		inner := set.WithPrefix(element)
		if set.Members.Has(element) && (i == len(path)-1 || inner.Empty()) { // itself, or a whole that it is in
			return true
		}
		set = inner
	}
	return !set.Empty()
}

// describePath is for people: spec.template.spec.containers[web].image.
func describePath(path fieldpath.Path) string {
	var b strings.Builder
	for _, element := range path {
		switch {
		case element.FieldName != nil && strings.ContainsAny(*element.FieldName, "./"):
			fmt.Fprintf(&b, "[%s]", *element.FieldName)
		case element.FieldName != nil:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(*element.FieldName)
		case element.Key != nil:
			words := make([]string, 0, len(*element.Key))
			for _, field := range *element.Key {
				words = append(words, fmt.Sprint(field.Value.Unstructured()))
			}
			fmt.Fprintf(&b, "[%s]", strings.Join(words, "/"))
		default:
			b.WriteString("[…]")
		}
	}
	return b.String()
}
