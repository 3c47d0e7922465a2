// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/health"
	"github.com/kubenest/kubenest/operator/stack"
)

// live is what an App has on the cluster, as the cache has it.
type live struct {
	components map[string]*health.Objects
	// owned components have objects that are marked as the App's. The type of an addon is
	// not to be seen.
	owned map[string]bool
	// addons have objects that the operator did not apply itself.
	addons map[string]bool
}

// look lists what an App has.
func (r *Reconciler) look(ctx context.Context, t *stack.Target) (*live, error) {
	l := &live{components: map[string]*health.Objects{}, owned: map[string]bool{}, addons: map[string]bool{}}
	var (
		deployments  appsv1.DeploymentList
		statefulSets appsv1.StatefulSetList
		daemonSets   appsv1.DaemonSetList
		jobs         batchv1.JobList
		services     corev1.ServiceList
		pods         corev1.PodList
	)
	for _, list := range []client.ObjectList{&deployments, &statefulSets, &daemonSets, &jobs, &services, &pods} {
		err := r.o.Client.List(ctx, list, client.InNamespace(t.Namespace),
			client.MatchingLabels{kubenestv1.AppLabel: kubenestv1.LabelValue(t.App)})
		if err != nil {
			return nil, fmt.Errorf("list what App %s has in namespace %s: %w", t.App, t.Namespace, err)
		}
	}
	for i := range deployments.Items {
		if o := &deployments.Items[i]; l.own(t, o) {
			l.of(componentOf(o)).Deployments = append(l.of(componentOf(o)).Deployments, *o)
		}
	}
	for i := range statefulSets.Items {
		if o := &statefulSets.Items[i]; l.own(t, o) {
			l.of(componentOf(o)).StatefulSets = append(l.of(componentOf(o)).StatefulSets, *o)
		}
	}
	for i := range daemonSets.Items {
		if o := &daemonSets.Items[i]; l.own(t, o) {
			l.of(componentOf(o)).DaemonSets = append(l.of(componentOf(o)).DaemonSets, *o)
		}
	}
	for i := range jobs.Items {
		if o := &jobs.Items[i]; l.own(t, o) {
			l.of(componentOf(o)).Jobs = append(l.of(componentOf(o)).Jobs, *o)
		}
	}
	for i := range services.Items {
		l.own(t, &services.Items[i])
	}
	for i := range pods.Items { // they have no annotation of ours, but those that own them do
		o := &pods.Items[i]
		l.of(componentOf(o)).Pods = append(l.of(componentOf(o)).Pods, *o)
	}
	return l, nil
}

func componentOf(o client.Object) string { return o.GetLabels()[kubenestv1.ComponentLabel] }

// own notes an object that is the target's.
func (l *live) own(t *stack.Target, o client.Object) bool {
	if !t.Owns(o) {
		return false
	}
	l.owned[componentOf(o)] = true
	if o.GetLabels()[kubenestv1.ManagedByLabel] != kubenestv1.ManagedBy {
		l.addons[componentOf(o)] = true
	}
	return true
}

// of a component; never nil.
func (l *live) of(component string) *health.Objects {
	o, ok := l.components[component]
	if !ok {
		o = &health.Objects{}
		l.components[component] = o
	}
	return o
}

// health of a component, whatever it should have.
func (l *live) health(component string) *health.Health {
	h := health.Of(l.of(component))
	return &h
}

// healthOf a component that should have these objects. Jobs that have ended may be
// gone.
func (l *live) healthOf(component string, wanted []*unstructured.Unstructured) *health.Health {
	have := *l.of(component)
	have.Missing = nil
	for _, o := range wanted {
		var there bool
		switch name := o.GetName(); o.GetKind() {
		case "Deployment":
			there = slices.ContainsFunc(have.Deployments, func(d appsv1.Deployment) bool { return d.Name == name })
		case "StatefulSet":
			there = slices.ContainsFunc(have.StatefulSets, func(s appsv1.StatefulSet) bool { return s.Name == name })
		case "DaemonSet":
			there = slices.ContainsFunc(have.DaemonSets, func(d appsv1.DaemonSet) bool { return d.Name == name })
		default:
			there = true
		}
		if !there {
			have.Missing = append(have.Missing, stack.Describe(o))
		}
	}
	h := health.Of(&have)
	return &h
}

// namespaceEvents are a namespace's warnings, and when they were read.
type namespaceEvents struct {
	events []corev1.Event
	at     time.Time
}

// warningsAge is how old warnings may be: an App with many components that are not
// well asks for them once.
const warningsAge = 5 * time.Second

// namespaceWarnings reads the warnings of a namespace with the Project's rights.
func (r *Reconciler) namespaceWarnings(ctx context.Context, t *stack.Target, now time.Time) ([]corev1.Event, error) {
	if w, ok := r.warnings.Get(t.Namespace); ok {
		if w := w.(namespaceEvents); now.Sub(w.at) < warningsAge {
			return w.events, nil
		}
	}
	as, err := r.o.Objects.Client(t.Namespace)
	if err != nil {
		return nil, err
	}
	events, err := health.ListWarnings(ctx, as, t.Namespace)
	if err != nil {
		return nil, err
	}
	r.warnings.Add(t.Namespace, namespaceEvents{events: events, at: now})
	return events, nil
}

// encode bytes as JSON has them in a Secret.
func encode(value []byte) string { return base64.StdEncoding.EncodeToString(value) }
