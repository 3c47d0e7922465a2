// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// refusal is why an App can not be deployed, and what a person has to do.
type refusal struct{ reason, message string }

func refuse(reason, format string, args ...any) *refusal {
	return &refusal{reason, wire.Line(fmt.Sprintf(format, args...), wire.MaxText)}
}

// accept checks what the API server could not, nil if the App can be deployed. The
// order is that in which a person would mend it.
func accept(v *view) *refusal {
	for _, check := range []func(*view) *refusal{
		checkProject, checkRevision, checkCycles, checkExports, checkClusters, checkMoves, checkCharts, checkGitOps,
	} {
		if refused := check(v); refused != nil {
			return refused
		}
	}
	return nil
}

func checkProject(v *view) *refusal {
	name, p := v.app.Spec.ProjectRef.Name, v.project
	switch {
	case !v.organization:
		return refuse(kubenestv1.ReasonNotAnOrganization, "Namespace %s is not an organization, and kubenest acts in organizations only: kubectl label namespace %s %s=true",
			v.app.Namespace, v.app.Namespace, kubenestv1.OrganizationLabel)
	case p == nil:
		return refuse(kubenestv1.ReasonProjectNotFound, "There is no Project %s in namespace %s: create it, or correct spec.projectRef.", name, v.app.Namespace)
	case !p.DeletionTimestamp.IsZero():
		return refuse(kubenestv1.ReasonProjectNotReady, "Project %s is being deleted.", name)
	}
	s := stalled(p.Status.Conditions)
	if s == nil || !stallsApp(v, s) {
		return nil
	}
	words := s.Message
	if ready := meta.FindStatusCondition(p.Status.Conditions, kubenestv1.ConditionReady); words == "" && ready != nil {
		words = ready.Message
	}
	return refuse(s.Reason, "Project %s can not be used: %s", name, words)
}

// stallsApp reports whether what is wrong with the Project concerns this App. What
// is wrong on one cluster does not concern an App that is not to run there:
// otherwise an App could not be taken off that cluster again.
func stallsApp(v *view, s *metav1.Condition) bool {
	onClusters := false
	for i := range v.project.Status.Clusters {
		c := &v.project.Status.Clusters[i]
		if c.Ready != string(metav1.ConditionFalse) || c.Reason != s.Reason {
			continue
		}
		onClusters = true
		for _, place := range v.places {
			if place.ID() == c.ClusterID {
				return true
			}
		}
	}
	return !onClusters
}

func checkRevision(v *view) *refusal {
	if v.app.Spec.RollbackTo == 0 || v.wanted.number == v.app.Spec.RollbackTo {
		return nil
	}
	var kept []string
	for i := range v.history {
		kept = append(kept, strconv.FormatInt(v.history[i].number, 10))
	}
	if len(kept) == 0 {
		kept = []string{"none"}
	}
	return refuse(kubenestv1.ReasonRevisionNotFound, "Revision %d, to which spec.rollbackTo goes back, is not kept. Kept are: %s. 0 runs spec.components.",
		v.app.Spec.RollbackTo, quote(kept))
}

// checkCycles refuses components that wait for each other. An exportRef waits, too.
func checkCycles(v *view) *refusal {
	cycle := findCycle(v.components)
	if cycle == nil {
		return nil
	}
	return refuse(kubenestv1.ReasonDependencyCycle, "Components wait for each other, through dependsOn or exportRef: %s. Remove one of these dependencies.",
		strings.Join(cycle, " → "))
}

// findCycle gives the names along a circle, the first one again at its end; nil if
// there is no circle.
func findCycle(components []kubenestv1.Component) []string {
	const entered, left = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(string) []string
	visit = func(name string) []string {
		switch state[name] {
		case entered:
			return append(slices.Clone(path[slices.Index(path, name):]), name)
		case left:
			return nil
		}
		state[name] = entered
		path = append(path, name)
		for _, next := range waitsFor(find(components, name)) {
			if cycle := visit(next); cycle != nil {
				return cycle
			}
		}
		path = path[:len(path)-1]
		state[name] = left
		return nil
	}
	for i := range components {
		if cycle := visit(components[i].Name); cycle != nil {
			return cycle
		}
	}
	return nil
}

func waitsFor(c *kubenestv1.Component) []string {
	if c == nil {
		return nil
	}
	names := slices.Clone(c.DependsOn)
	for _, ref := range c.ExportRefs() {
		names = append(names, ref.Component)
	}
	return names
}

// knownExports are those of the addon types that kubenest knows.
var knownExports = []string{"host", "port", "username", "password", "database", "dsn"}

func checkExports(v *view) *refusal {
	for i := range v.components {
		c := &v.components[i]
		for _, ref := range c.ExportRefs() {
			addon := find(v.components, ref.Component)
			if addon == nil || addon.AddonSpec == nil {
				return refuse(kubenestv1.ReasonUnknownExport, "Component %s uses an export of %s, which is no addon of this App.", c.Name, ref.Component)
			}
			if keys := exportKeys(addon.AddonSpec); !slices.Contains(keys, ref.Key) {
				return refuse(kubenestv1.ReasonUnknownExport, "Component %s uses export %s of %s, which has: %s. Declare others in its addonSpec.exports.",
					c.Name, ref.Key, ref.Component, quote(keys))
			}
		}
	}
	return nil
}

// exportKeys are the names of the exports that an addon can have.
func exportKeys(a *kubenestv1.AddonSpec) []string {
	var keys []string
	if a.Type != "" && a.Type != kubenestv1.AddonOther {
		keys = slices.Clone(knownExports)
	}
	for i := range a.Exports {
		if !slices.Contains(keys, a.Exports[i].Name) {
			keys = append(keys, a.Exports[i].Name)
		}
	}
	return keys
}

func checkClusters(v *view) *refusal {
	for i := range v.components {
		c := &v.components[i]
		record := v.places[c.Name]
		switch {
		case record == nil && c.ClusterID == "":
			return refuse(kubenestv1.ReasonClusterNotFound, "The Project's cluster %s/%s does not exist.", v.project.ClusterNamespace(), v.project.Spec.ClusterRef.Name)
		case record == nil:
			return refuse(kubenestv1.ReasonClusterNotFound, "Component %s is for cluster %s, and there is no ManagedCluster of that id or name: correct clusterID, or register the cluster.",
				c.Name, c.ClusterID)
		case !v.allowed[record.ID()]:
			return refuse(kubenestv1.ReasonClusterNotAllowed, "Component %s is for cluster %s, which Projects of namespace %s may not use: its owner allows it with spec.allowedProjects.",
				c.Name, v.nameOf(record), v.app.Namespace)
		case !record.DeletionTimestamp.IsZero():
			return refuse(kubenestv1.ReasonClusterDeleting, "Component %s is for cluster %s, whose record is being deleted: choose another one.",
				c.Name, v.nameOf(record))
		}
	}
	return nil
}

// checkMoves refuses to move an addon, whose data would stay where it is, unless
// the annotation allows it or its cluster was given up.
func checkMoves(v *view) *refusal {
	var allowed []string
	for name := range strings.SplitSeq(v.app.Annotations[kubenestv1.AllowAddonMoveAnnotation], ",") {
		allowed = append(allowed, strings.TrimSpace(name))
	}
	for i := range v.components {
		c := &v.components[i]
		if c.AddonSpec == nil || slices.Contains(allowed, c.Name) {
			continue
		}
		for n := range v.stacks {
			s := &v.stacks[n]
			from := v.records[s.Spec.ClusterID]
			if from == nil || from.Spec.Abandoned || from.ID() == v.places[c.Name].ID() || !s.DeletionTimestamp.IsZero() {
				continue
			}
			if old := find(s.Spec.Components, c.Name); old != nil && old.AddonSpec != nil {
				return refuse(kubenestv1.ReasonAddonMoveRefused, "Addon %s runs on cluster %s, and its data would stay there: set its clusterID back, or allow the move with the annotation %s=%s on the App.",
					c.Name, v.nameOf(from), kubenestv1.AllowAddonMoveAnnotation, c.Name)
			}
		}
	}
	return nil
}

func checkCharts(v *view) *refusal {
	for i := range v.components {
		c := &v.components[i]
		if c.AddonSpec == nil || c.AddonSpec.Chart.ConfigMapRef == nil {
			continue
		}
		if name := c.AddonSpec.Chart.ConfigMapRef.Name; v.charts[name].problem != "" {
			return refuse(kubenestv1.ReasonChartNotFound, "Component %s takes its chart from ConfigMap %s, which %s.", c.Name, name, v.charts[name].problem)
		}
	}
	return nil
}

func checkGitOps(v *view) *refusal {
	for i := range v.components {
		record := v.places[v.components[i].Name]
		if v.delivery(record) != kubenestv1.DeliveryArgoCD {
			continue
		}
		if record.Spec.GitOps == nil {
			return refuse(kubenestv1.ReasonGitOpsMissing, "Delivery to cluster %s is argocd, and its ManagedCluster has no spec.gitops: set it, or deliver direct.", v.nameOf(record))
		}
		if problem := v.credentials[record.ID()].problem; problem != "" {
			return refuse(kubenestv1.ReasonGitOpsMissing, "spec.gitops of cluster %s can not be used: %s.", v.nameOf(record), problem)
		}
	}
	return nil
}
