// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	helmcommon "helm.sh/helm/v4/pkg/chart/common"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/chart"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

// fileAnnotation tells Helm which template an object is from; Helm takes it off.
const fileAnnotation = "postrenderer.helm.sh/postrender-filename"

// plan is everything of one try that can be known before anything is changed.
type plan struct {
	values       map[string]any
	capabilities *helmcommon.Capabilities
	rendering    *chart.Rendering
	chart        *helmchart.Chart // what Helm knows of the chart
	stream       []byte           // what Helm is to apply
}

// all objects, hooks and definitions among them.
func (p *plan) all() []*unstructured.Unstructured {
	objects := append([]*unstructured.Unstructured{}, p.rendering.Definitions...)
	for i := range p.rendering.Manifests {
		objects = append(objects, p.rendering.Manifests[i].Object)
	}
	return objects
}

// objects that are not hooks.
func (p *plan) objects() []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for i := range p.rendering.Manifests {
		if m := &p.rendering.Manifests[i]; m.HookEvents() == nil {
			objects = append(objects, m.Object)
		}
	}
	return objects
}

// Run gives Helm what was checked, instead of what it rendered itself.
func (p *plan) Run(*bytes.Buffer) (*bytes.Buffer, error) { return bytes.NewBuffer(p.stream), nil }

// plan fetches, renders and checks. Errors that somebody has to mend are
// *stack.Problem.
func (m *Manager) plan(ctx context.Context, r *rights, a *delivery.Addon, revision int) (*plan, error) {
	p := &plan{}
	var err error
	if p.values, err = chart.Values(a.Component.AddonSpec); err != nil {
		return nil, err
	}
	packed, err := m.fetch(ctx, r, a)
	if err != nil {
		return nil, err
	}
	if p.capabilities, err = r.capabilities(); err != nil {
		return nil, err
	}
	options := &chart.Options{
		Release: releaseName(a), Namespace: a.Target.Namespace, Revision: revision,
		Values: p.values, Capabilities: p.capabilities,
	}
	if p.rendering, err = m.render(ctx, packed, options); err != nil {
		return nil, err
	}
	again, err := m.render(ctx, packed, options)
	if err != nil {
		return nil, err
	}
	if err := m.rules.Check(&a.Target, p.all()); err != nil {
		return nil, err
	}
	if err := m.rules.Check(&a.Target, (&plan{rendering: again}).all()); err != nil {
		return nil, err // it gives them their namespaces, too
	}
	if err := m.compare(ctx, r, a, p, again); err != nil {
		return nil, err
	}
	if p.chart, err = carrier(p.rendering); err != nil {
		return nil, err
	}
	for _, o := range p.all() {
		a.Target.Mark(o, a.Component.Name)
	}
	if len(p.rendering.Definitions) == 0 {
		if err := m.dryRun(ctx, r, a, p); err != nil {
			return nil, err
		}
	}
	p.stream, err = stream(p.rendering.Manifests)
	return p, err
}

// render takes a slot for a process that may use much memory.
func (m *Manager) render(ctx context.Context, packed []byte, o *chart.Options) (*chart.Rendering, error) {
	var rendering *chart.Rendering
	err := m.rendering.with(ctx, o.Namespace, func() (err error) {
		rendering, err = chart.Render(ctx, packed, o)
		return err
	})
	return rendering, err
}

// carrier is a chart without templates: Helm shows its name, installs its CRDs, and gets
// all else from the plan, so that it never runs an author's templates itself.
func carrier(r *chart.Rendering) (*helmchart.Chart, error) {
	c := &helmchart.Chart{Metadata: &helmchart.Metadata{
		APIVersion: helmchart.APIVersionV2, Name: r.Name, Version: r.Version, AppVersion: r.AppVersion,
	}}
	for i, o := range r.Definitions {
		text, err := o.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", describe(o), err)
		}
		c.Files = append(c.Files, &helmcommon.File{Name: fmt.Sprintf("crds/%d.json", i), Data: text})
	}
	return c, nil
}

// fetch is the packaged chart.
func (m *Manager) fetch(ctx context.Context, r *rights, a *delivery.Addon) ([]byte, error) {
	spec := &a.Component.AddonSpec.Chart
	if spec.ConfigMapRef != nil {
		if len(a.Chart) == 0 {
			return nil, stack.Wait(kubenestv1.ReasonChartUnavailable, "the chart in ConfigMap %s has not come yet", spec.ConfigMapRef.Name)
		}
		return a.Chart, nil
	}
	access := chart.Access{}
	if spec.SecretRef != nil {
		secret, err := r.client.CoreV1().Secrets(r.namespace).Get(ctx, spec.SecretRef.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, stack.Refuse(kubenestv1.ReasonChartUnavailable, "chart.secretRef names Secret %s, which is not in namespace %s of this cluster: make it there",
				spec.SecretRef.Name, r.namespace)
		case err != nil:
			return nil, fmt.Errorf("read Secret %s of chart.secretRef: %w", spec.SecretRef.Name, err)
		}
		access = chart.AccessFrom(secret.Data)
	}
	return m.charts.Fetch(ctx, spec, &access)
}

// compare looks what exists. What is not this App's is refused, hooks included, which
// Helm would delete or take over; what was generated keeps its values.
func (m *Manager) compare(ctx context.Context, r *rights, a *delivery.Addon, p *plan, again *chart.Rendering) error {
	second := map[string]*unstructured.Unstructured{}
	for i := range again.Manifests {
		second[chart.Key(again.Manifests[i].Object)] = again.Manifests[i].Object
	}
	for i := range p.rendering.Manifests {
		o := p.rendering.Manifests[i].Object
		var live *unstructured.Unstructured
		if o.GetName() != "" {
			var err error
			live, err = r.get(ctx, m.mapper, o)
			if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
				return refusal(err, o, p.values)
			}
			if err == nil && !a.Target.Owns(live) {
				return notOurs(o)
			}
			if err != nil {
				live = nil
			}
		}
		if other := second[chart.Key(o)]; other != nil {
			chart.Settle(o, other, live)
		}
	}
	return nil
}

func notOurs(o *unstructured.Unstructured) *stack.Problem {
	return stack.Refuse(kubenestv1.ReasonObjectNotOurs, "%s exists in namespace %s and is not this App's: it is left alone. Delete or rename it, or give the component another name",
		describe(o), o.GetNamespace())
}

// dryRun asks the API server whether it would take everything, with the Project's
// rights. Pods are left out: they need the ServiceAccounts that come with them.
func (m *Manager) dryRun(ctx context.Context, r *rights, a *delivery.Addon, p *plan) error {
	for _, o := range p.objects() {
		if o.GetName() == "" || o.GetKind() == "Pod" {
			continue
		}
		client, err := r.resource(m.mapper, o)
		if err != nil {
			return fmt.Errorf("look up %s: %w", describe(o), err)
		}
		if _, err := applied(ctx, client, ofRelease(o.DeepCopy(), releaseName(a), a.Target.Namespace), []string{metav1.DryRunAll}); err != nil {
			return refusal(err, o, p.values)
		}
	}
	return nil
}

// refusal says in words what the API server does not allow. Its own words may quote
// values.
func refusal(err error, o *unstructured.Unstructured, values map[string]any) error {
	switch {
	case apierrors.IsForbidden(err):
		return stack.Refuse(kubenestv1.ReasonForbidden, "%s is not allowed: %s", describe(o), chart.Concealed(err, values))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
		return stack.Refuse(kubenestv1.ReasonInvalid, "the API server does not accept %s: %s", describe(o), chart.Concealed(err, values))
	}
	return fmt.Errorf("ask for %s: %w", describe(o), err)
}

// applied applies an object as Helm does, and returns what came of it.
func applied(ctx context.Context, client dynamic.ResourceInterface, o *unstructured.Unstructured, dryRun []string) (*unstructured.Unstructured, error) {
	text, err := o.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", describe(o), err)
	}
	return client.Patch(ctx, o.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
		FieldManager: kubenestv1.FieldManagerOperator, Force: new(true), FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun,
	})
}

// ofRelease adds what Helm adds when it applies.
func ofRelease(o *unstructured.Unstructured, release, namespace string) *unstructured.Unstructured {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels["app.kubernetes.io/managed-by"] = "Helm"
	annotations["meta.helm.sh/release-name"] = release
	annotations["meta.helm.sh/release-namespace"] = namespace
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return o
}

// resource is the client for an object.
func (r *rights) resource(mapper meta.RESTMapper, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return r.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
	}
	return r.dynamic.Resource(mapping.Resource), nil
}

// get reads what the cluster has of an object.
func (r *rights) get(ctx context.Context, mapper meta.RESTMapper, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, err := r.resource(mapper, o)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, o.GetName(), metav1.GetOptions{})
}

// stream is what Helm expects of a post-renderer.
func stream(manifests []chart.Manifest) ([]byte, error) {
	var out bytes.Buffer
	for i := range manifests {
		o := manifests[i].Object.DeepCopy()
		annotations := o.GetAnnotations()
		annotations[fileAnnotation] = manifests[i].File // Mark has made the map
		o.SetAnnotations(annotations)
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", describe(o), err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// describe names an object as kubectl does.
func describe(o *unstructured.Unstructured) string {
	if o.GetName() == "" {
		return o.GetKind() + " " + o.GetGenerateName() + "…"
	}
	return o.GetKind() + " " + o.GetName()
}

// problemOf is the Problem in an error, or nil.
func problemOf(err error) *stack.Problem {
	p, _ := errors.AsType[*stack.Problem](err)
	return p
}

func releaseName(a *delivery.Addon) string {
	return kubenestv1.ObjectName(a.Target.App, a.Component.Name)
}
