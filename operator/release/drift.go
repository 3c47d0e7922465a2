// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/chart"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

const (
	// maxFixes is how often one object of a revision is put right. Something that
	// changes it more often works by itself, and would be fought for ever.
	maxFixes = 50
	// shownFields is how many fields a message names.
	shownFields = 4
	// maxDrift is how long the message is.
	maxDrift = 1000
)

// manifestOf reads what a revision has made.
func manifestOf(r *helmrelease.Release) (*deployed, error) {
	if len(r.Manifest) > 2*chart.MaxRendered {
		return nil, stack.Refuse(kubenestv1.ReasonInstallFailed, "the manifest in revision %d of Helm release %s in namespace %s is over %d MiB, which is the limit",
			r.Version, r.Name, r.Namespace, 2*chart.MaxRendered>>20)
	}
	objects, err := chart.Parse("the manifest of release "+r.Name, r.Manifest)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		ofRelease(o, r.Name, r.Namespace)
	}
	return &deployed{
		version: r.Version, chart: titleOf(r), objects: objects,
		clean: map[string]string{}, fixes: map[string]int{},
	}, nil
}

func titleOf(r *helmrelease.Release) string {
	if r.Chart == nil || r.Chart.Metadata == nil {
		return r.Name
	}
	return chart.Title(r.Chart)
}

// manifest is what the deployed revision has made, read once.
func (m *Manager) manifest(r *rights, a *delivery.Addon, version int) (*deployed, error) {
	m.mu.Lock()
	known := m.stateOf(keyOf(a)).deployed
	m.mu.Unlock()
	if known != nil && known.version == version {
		return known, nil
	}
	stored, err := r.helm(m.log).Releases.Get(releaseName(a), version)
	if err != nil {
		return nil, fmt.Errorf("read release %s: %w", releaseName(a), err)
	}
	revision, ok := stored.(*helmrelease.Release)
	if !ok {
		return nil, fmt.Errorf("read release %s: it is %T", releaseName(a), stored)
	}
	d, err := manifestOf(revision)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stateOf(keyOf(a)).deployed = d
	return d, nil
}

// keep puts right what somebody has changed of a deployed release.
func (m *Manager) keep(ctx context.Context, r *rights, a *delivery.Addon, version int) (*delivery.Release, error) {
	d, err := m.manifest(r, a, version)
	if err != nil {
		return nil, err
	}
	release := &delivery.Release{State: delivery.ReleaseDeployed, Objects: d.objects, Chart: d.chart}
	var drift []string
	for _, o := range d.objects {
		if o.GetName() == "" {
			continue
		}
		changed, err := m.correct(ctx, r, a, d, o)
		switch problem := problemOf(err); {
		case problem != nil:
			release.Problem = problem
		case err != nil:
			return nil, err
		case changed != "":
			drift = append(drift, changed)
		}
	}
	release.Drift = strings.Join(drift, "; ")
	if len(release.Drift) > maxDrift {
		release.Drift = strings.ToValidUTF8(release.Drift[:maxDrift], "") + "…"
	}
	return release, nil
}

// correct puts one object right, and says what differed.
func (m *Manager) correct(ctx context.Context, r *rights, a *delivery.Addon, d *deployed, o *unstructured.Unstructured) (string, error) {
	client, err := r.resource(m.mapper, o)
	if meta.IsNoMatchError(err) {
		return "", nil // its kind was removed, which is not ours to mend
	}
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", describe(o), err)
	}
	key := chart.Key(o)
	live, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && (o.GetKind() == "Job" || o.GetKind() == "Pod"):
		return "", nil // they are done once
	case apierrors.IsNotFound(err):
		if _, err := applied(ctx, client, o, nil); err != nil {
			return "", refusal(err, o, nil)
		}
		return describe(o) + " was deleted", nil
	case err != nil:
		return "", fmt.Errorf("read %s: %w", describe(o), err)
	case !a.Target.Owns(live):
		return "", notOurs(o)
	}
	m.mu.Lock()
	clean, fixes := d.clean[key] == live.GetResourceVersion(), d.fixes[key]
	m.mu.Unlock()
	if clean || fixes >= maxFixes || live.GetDeletionTimestamp() != nil {
		return "", nil
	}
	wanted := without(o, scaled(d.objects, o))
	would, err := applied(ctx, client, wanted, []string{metav1.DryRunAll})
	if err != nil {
		return "", refusal(err, o, nil)
	}
	fields := differing(live, would)
	if len(fields) == 0 {
		m.clean(d, key, live.GetResourceVersion(), 0)
		return "", nil
	}
	now, err := applied(ctx, client, wanted, nil)
	if err != nil {
		return "", refusal(err, o, nil)
	}
	m.clean(d, key, now.GetResourceVersion(), 1)
	return fmt.Sprintf("%s had another %s", describe(o), strings.Join(fields, ", ")), nil
}

func (m *Manager) clean(d *deployed, key, version string, fixes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.clean[key] = version
	d.fixes[key] += fixes
}

// scaled reports whether an autoscaler of the release sets an object's replicas.
func scaled(objects []*unstructured.Unstructured, o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(objects, func(hpa *unstructured.Unstructured) bool {
		if hpa.GetKind() != "HorizontalPodAutoscaler" {
			return false
		}
		kind, _, _ := unstructured.NestedString(hpa.Object, "spec", "scaleTargetRef", "kind")
		name, _, _ := unstructured.NestedString(hpa.Object, "spec", "scaleTargetRef", "name")
		return kind == o.GetKind() && name == o.GetName()
	})
}

func without(o *unstructured.Unstructured, replicas bool) *unstructured.Unstructured {
	if !replicas {
		return o
	}
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "spec", "replicas")
	return o
}

// differing are the fields in which two states of an object differ, without those
// that each write changes. They are named, and their values are not: a Secret may
// be among them.
func differing(a, b *unstructured.Unstructured) []string {
	var fields []string
	compare("", plain(a), plain(b), &fields)
	slices.Sort(fields)
	if len(fields) > shownFields {
		fields = append(fields[:shownFields], fmt.Sprintf("%d more", len(fields)-shownFields))
	}
	return fields
}

func plain(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	return o.Object
}

func compare(path string, a, b any, out *[]string) {
	left, isMap := a.(map[string]any)
	right, isMap2 := b.(map[string]any)
	if !isMap || !isMap2 {
		l, isList := a.([]any)
		r, isList2 := b.([]any)
		switch {
		case isList && isList2 && len(l) == len(r):
			for i := range l {
				compare(fmt.Sprintf("%s[%d]", path, i), l[i], r[i], out)
			}
		case !reflect.DeepEqual(a, b):
			*out = append(*out, path)
		}
		return
	}
	keys := map[string]bool{}
	for k := range left {
		keys[k] = true
	}
	for k := range right {
		keys[k] = true
	}
	for k := range keys {
		compare(strings.TrimPrefix(path+"."+k, "."), left[k], right[k], out)
	}
}
