// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// noon is when the views of the tests of pure functions are from.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// viewOf is a view of an accepted App of Project shop, whose cluster is a. Clusters a
// and b are connected, and their ids are a-id and b-id.
func viewOf(components ...kubenestv1.Component) *view {
	v := &view{
		app: &kubenestv1.App{
			ObjectMeta: metav1.ObjectMeta{Namespace: "org", Name: "web-shop", UID: "app-uid", Generation: 3},
			Spec:       kubenestv1.AppSpec{ProjectRef: kubenestv1.LocalReference{Name: "shop"}, Components: components},
		},
		organization: true,
		project: &kubenestv1.Project{
			ObjectMeta: metav1.ObjectMeta{Namespace: "org", Name: "shop"},
			Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: "a"}, Namespace: "shop-ns"},
		},
		components: components,
		latest:     revision{number: 7, name: "web-shop-7"},
		wanted:     revision{number: 7, name: "web-shop-7"},
		places:     map[string]*kubenestv1.ManagedCluster{},
		records:    map[string]*kubenestv1.ManagedCluster{"a-id": clusterOf("a"), "b-id": clusterOf("b")},
		allowed:    map[string]bool{"a-id": true, "b-id": true},
		exports:    map[string]exported{}, charts: map[string]content{}, credentials: map[string]content{},
		now: noon,
	}
	for i := range components {
		id := components[i].ClusterID
		if id == "" {
			id = "a"
		}
		v.places[components[i].Name] = v.records[id+"-id"]
	}
	return v
}

// clusterOf is a connected cluster of the organization.
func clusterOf(name string) *kubenestv1.ManagedCluster {
	record := &kubenestv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "org", Name: name, UID: types.UID(name + "-id")},
		Status:     kubenestv1.ManagedClusterStatus{ClusterUID: "pinned"},
	}
	connect(record, metav1.ConditionTrue, noon.Add(-time.Hour))
	return record
}

func connect(record *kubenestv1.ManagedCluster, connected metav1.ConditionStatus, since time.Time) {
	record.Status.Conditions = []metav1.Condition{{
		Type: kubenestv1.ConditionConnected, Status: connected, Reason: "Test", LastTransitionTime: metav1.NewTime(since),
	}}
}

// workload is a component of image; on is its cluster, empty for the Project's.
func workload(name, on string, change ...func(*kubenestv1.Component)) kubenestv1.Component {
	c := kubenestv1.Component{
		Name: name, Type: kubenestv1.ComponentWorkload, ClusterID: on,
		WorkloadSpec: &kubenestv1.WorkloadSpec{Image: "example/" + name + ":v1", Port: 8080},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func addon(name, on string, change ...func(*kubenestv1.Component)) kubenestv1.Component {
	c := kubenestv1.Component{
		Name: name, Type: kubenestv1.ComponentAddon, ClusterID: on,
		AddonSpec: &kubenestv1.AddonSpec{
			Type:  kubenestv1.AddonPostgres,
			Chart: kubenestv1.Chart{OCI: "oci://registry.example.com/postgres", Version: "1.0.0"},
		},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func dependsOn(names ...string) func(*kubenestv1.Component) {
	return func(c *kubenestv1.Component) { c.DependsOn = names }
}

// uses an export of an addon in the environment.
func uses(component, key string) func(*kubenestv1.Component) {
	return func(c *kubenestv1.Component) {
		c.WorkloadSpec.Env = append(c.WorkloadSpec.Env, kubenestv1.EnvVar{
			Name: "FROM_" + component, ValueFrom: &kubenestv1.EnvVarSource{ExportRef: &kubenestv1.ExportReference{Component: component, Key: key}},
		})
	}
}

func image(image string) func(*kubenestv1.Component) {
	return func(c *kubenestv1.Component) { c.WorkloadSpec.Image = image }
}

// deployed gives a view the StackDeploys that its plan asks for, of generation 1, on
// which everything was reported in a phase.
func deployed(v *view, phase kubenestv1.AppPhase) *view {
	p, refused := makePlan(v)
	if refused != nil {
		panic(refused.message)
	}
	v.stacks = nil
	for id, spec := range p.specs {
		s := kubenestv1.StackDeploy{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "org", Name: kubenestv1.StackName("app", v.app.Name, id), UID: types.UID("stack-" + id),
				Generation: 1, Finalizers: []string{kubenestv1.RemovalFinalizer},
			},
			Spec: *spec,
		}
		if phase != "" {
			report(&s, phase)
		}
		v.stacks = append(v.stacks, s)
	}
	return v
}

// report has everything of a StackDeploy's present generation in a phase.
func report(s *kubenestv1.StackDeploy, phase kubenestv1.AppPhase) {
	s.Status.Source = &kubenestv1.StackSource{Namespace: s.Namespace, Name: s.Name, UID: string(s.UID), Generation: s.Generation}
	s.Status.Components = nil
	for _, c := range s.Spec.Components {
		s.Status.Components = append(s.Status.Components, kubenestv1.ComponentStatus{
			Name: c.Name, Type: c.Type, Phase: phase, Reason: string(phase), Message: "words of " + c.Name,
		})
	}
}

// change gives an App other components, as an edit does.
func change(v *view, components ...kubenestv1.Component) *view {
	next := viewOf(components...)
	next.stacks, next.exports, next.records = v.stacks, v.exports, v.records
	for name, place := range next.places {
		next.places[name] = v.records[place.ID()]
	}
	return next
}

// names of the components in a spec.
func names(spec *kubenestv1.StackDeploySpec) []string {
	if spec == nil {
		return nil
	}
	list := make([]string, 0, len(spec.Components))
	for _, c := range spec.Components {
		list = append(list, c.Name)
	}
	return list
}
