// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"slices"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// order lists components such that each comes after those that it depends on. Those
// that depend on each other in a circle, and on such ones, are left out of it and
// are in cyclic.
func order(components []kubenestv1.Component) (ordered, cyclic []*kubenestv1.Component) {
	done := map[string]bool{}
	for progress := true; progress; {
		progress = false
		for i := range components {
			c := &components[i]
			if done[c.Name] || slices.ContainsFunc(dependencies(c, components), func(d string) bool { return !done[d] }) {
				continue
			}
			done[c.Name], progress = true, true
			ordered = append(ordered, c)
		}
	}
	for i := range components {
		if !done[components[i].Name] {
			cyclic = append(cyclic, &components[i])
		}
	}
	return ordered, cyclic
}

// dependencies of a component among those of this cluster: those that it names, and
// the addons whose exports it uses. What it depends on elsewhere is the hub's to wait
// for.
func dependencies(c *kubenestv1.Component, components []kubenestv1.Component) []string {
	var names []string
	add := func(name string) {
		here := slices.ContainsFunc(components, func(o kubenestv1.Component) bool { return o.Name == name })
		if here && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, d := range c.DependsOn {
		add(d)
	}
	for _, ref := range c.ExportRefs() {
		add(ref.Component)
	}
	return names
}
