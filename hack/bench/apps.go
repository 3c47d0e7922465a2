// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/environment"
)

const (
	// benchProject is the Project, and its namespace on the cluster.
	benchProject = "bench"
	// benchManager is the field manager of what this program applies, as kubectl's is.
	benchManager = "bench"
	benchImage   = "registry.example.com/bench:1"
)

// measureApps measures how long it takes from applying an App in the management
// cluster until its Deployment is on the workload cluster, beside applying a
// Deployment there directly. The two take turns.
func (b *bench) measureApps(ctx context.Context) error {
	b.say("apps: starting a hub and a cluster with its operator")
	clusters := environment.DefaultClusters(1)
	e, err := environment.Start(ctx, environment.Options{
		Dir: filepath.Join(b.dir, "apps"), Programs: b.programs, Assets: b.assets, Config: b.config, Clusters: clusters,
	})
	if err != nil {
		return fmt.Errorf("start a hub and a cluster: %w", err)
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		e.Stop(stopping)
	}()
	name := clusters[0].Name
	if err := applyProject(ctx, e.Client(), name); err != nil {
		return err
	}
	workload := e.Cluster(name).Client()
	arrivals, err := workload.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(benchProject))
	if err != nil {
		return fmt.Errorf("watch Deployments: %w", err)
	}
	defer arrivals.Stop()
	b.say("apps: applying %d Apps, and a Deployment directly after each", b.paces.apps)
	var direct, app []time.Duration
	for i := range b.paces.apps {
		name := fmt.Sprintf("app-%03d", i)
		took, err := arrival(ctx, arrivals, kubenestv1.ObjectName(name, "web"), func() error {
			return apply(ctx, e.Client(), benchApp(name, benchProject, ""))
		})
		if err != nil {
			return err
		}
		app = append(app, took)
		name = fmt.Sprintf("direct-%03d", i)
		took, err = arrival(ctx, arrivals, name, func() error { return apply(ctx, workload, benchDeployment(name)) })
		if err != nil {
			return err
		}
		direct = append(direct, took)
	}
	for _, p := range []int{50, 99} {
		b.rows = append(b.rows, compared(fmt.Sprintf("App applied until its Deployment is on its cluster, p%d", p),
			percentile(direct, p).Seconds(), percentile(app, p).Seconds(), millis))
	}
	b.note("An App takes the way: management API server, hub, StackDeploy, session, StackDeploy on the cluster, operator, Deployment. The floor is a Deployment applied to that cluster directly. Both are server-side apply without starting kubectl, one at a time, %d each, and end when a watch of the cluster shows the Deployment.", b.paces.apps)
	return nil
}

// arrival applies something, and tells how long it took until an object was seen.
func arrival(ctx context.Context, seen watch.Interface, name string, apply func() error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	if err := apply(); err != nil {
		return 0, err
	}
	for {
		select {
		case event, ok := <-seen.ResultChan():
			if !ok {
				return 0, errors.New("the watch of Deployments ended")
			}
			if o, isObject := event.Object.(client.Object); isObject && event.Type == watch.Added && o.GetName() == name {
				return time.Since(began), nil
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("deployment %s did not arrive: %w", name, ctx.Err())
		}
	}
}

// applyProject makes the Project and waits until its namespace is there.
func applyProject(ctx context.Context, c client.Client, cluster string) error {
	project := &kubenestv1.Project{
		TypeMeta:   metav1.TypeMeta{APIVersion: kubenestv1.GroupVersion.String(), Kind: "Project"},
		ObjectMeta: metav1.ObjectMeta{Namespace: environment.Organization, Name: benchProject},
		Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: cluster}},
	}
	if err := apply(ctx, c, project); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if err := c.Get(ctx, client.ObjectKeyFromObject(project), project); err != nil {
			return fmt.Errorf("read Project: %w", err)
		}
		if meta.IsStatusConditionTrue(project.Status.Conditions, kubenestv1.ConditionReady) {
			return nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("the Project is not ready (%s: %s): %w", project.Status.Reason, project.Status.Message, err)
		}
	}
}

// benchApp is an App of one workload, on the Project's cluster if none is named.
func benchApp(name, project, cluster string) *kubenestv1.App {
	return &kubenestv1.App{
		TypeMeta:   metav1.TypeMeta{APIVersion: kubenestv1.GroupVersion.String(), Kind: "App"},
		ObjectMeta: metav1.ObjectMeta{Namespace: environment.Organization, Name: name},
		Spec: kubenestv1.AppSpec{
			ProjectRef: kubenestv1.LocalReference{Name: project},
			Components: []kubenestv1.Component{{
				Name: "web", Type: kubenestv1.ComponentWorkload, ClusterID: cluster,
				WorkloadSpec: &kubenestv1.WorkloadSpec{Image: benchImage},
			}},
		},
	}
}

func benchDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: benchProject, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: benchImage}}},
			},
		},
	}
}

// apply is what "kubectl apply --server-side" does.
func apply(ctx context.Context, c client.Client, o client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("encode %s: %w", o.GetName(), err)
	}
	delete(fields, "status")
	object := &unstructured.Unstructured{Object: fields}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(benchManager)); err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// percentile of durations, by the nearest rank.
func percentile(d []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}
