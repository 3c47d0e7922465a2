// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/inputs"
	"github.com/kubenest/kubenest/operator/stack"
	"github.com/kubenest/kubenest/operator/workload"
)

// inputLabel is ExportsLabel's value on the copies of exports from other clusters.
const inputLabel = "input"

// workloadObjects of a component, with the revisions of what its pods read.
func (a *app) workloadObjects(ctx context.Context, c *kubenestv1.Component) ([]*unstructured.Unstructured, error) {
	w := workload.Workload{Target: a.target, Component: c, RestartedAt: a.stack.Spec.RestartedAt, Revisions: map[string]string{}}
	ours := map[string]string{}
	for _, ref := range c.ExportRefs() {
		name := kubenestv1.ExportsSecretName(a.target.App, ref.Component)
		if problem := a.unusable[name]; problem != nil {
			return nil, problem
		}
		if in := a.input(kubenestv1.InputExports, name); in != nil {
			ours[name] = in.Revision
		}
		if e := a.exports[ref.Component]; e.revision != "" {
			ours[name] = e.revision
		}
	}
	for _, name := range w.Secrets() {
		if ours[name] != "" {
			w.Revisions[name] = ours[name]
			continue
		}
		revision, err := a.r.o.Objects.Revision(ctx, &a.target, name)
		if err != nil {
			return nil, err
		}
		w.Revisions[name] = revision
	}
	return w.Objects()
}

// addonOf a component, with its chart if the hub sent it.
func (a *app) addonOf(ctx context.Context, c *kubenestv1.Component) (*delivery.Addon, error) {
	addon := a.bareAddon(c)
	ref := c.AddonSpec.Chart.ConfigMapRef
	if ref == nil {
		return addon, nil
	}
	in := a.input(kubenestv1.InputChart, ref.Name)
	if in == nil {
		return nil, stack.Wait(kubenestv1.ReasonChartUnavailable, "the chart in ConfigMap %s has not come from the hub yet", ref.Name)
	}
	key := a.stack.Name + "/" + in.Name + "/" + in.Revision
	if chart, ok := a.r.charts.Get(key); ok {
		addon.Chart = chart.([]byte)
		return addon, nil
	}
	data, err := a.r.o.Inputs.Get(ctx, a.stack.Name, *in)
	switch {
	case errors.Is(err, inputs.ErrMissing):
		return nil, stack.Wait(kubenestv1.ReasonChartUnavailable, "the chart in ConfigMap %s has not come from the hub yet", ref.Name)
	case err != nil:
		return nil, err
	case len(data) != 1:
		return nil, stack.Refuse(kubenestv1.ReasonChartUnavailable, "ConfigMap %s has %d keys: "+
			"it must hold one chart, as helm package makes it, under one key of binaryData", ref.Name, len(data))
	}
	for _, chart := range data {
		addon.Chart = chart
	}
	a.r.charts.Add(key, addon.Chart)
	return addon, nil
}

func (p *pass) bareAddon(c *kubenestv1.Component) *delivery.Addon {
	return &delivery.Addon{
		Stack: p.name(), Target: p.target, Component: c, Timeout: p.timeout(), Revision: p.stack.Spec.Revision,
	}
}

// copied is a copy of exports that was made, and when it was looked at.
type copied struct {
	revision string
	at       time.Time
}

// copyInputs has the exports of other clusters be in the namespace, where pods can read
// them, and no others. Components whose exports are not there yet wait by themselves.
func (a *app) copyInputs(ctx context.Context) {
	if a.stack.Spec.Paused {
		return
	}
	for i := range a.stack.Spec.Inputs {
		in := &a.stack.Spec.Inputs[i]
		if in.Kind != kubenestv1.InputExports || in.Revision == "" {
			continue
		}
		var problem *stack.Problem
		switch err := a.copyExports(ctx, in); {
		case errors.As(err, &problem):
			a.unusable[in.Name] = problem
		case err != nil:
			a.errs = append(a.errs, err)
		}
	}
	if a.stack.Status.ObservedGeneration == a.stack.Generation {
		return
	}
	if err := a.dropExports(ctx); err != nil {
		a.errs = append(a.errs, err)
	}
}

func (a *app) copyExports(ctx context.Context, in *kubenestv1.StackInput) error {
	key := a.stack.Name + "/" + in.Name
	if c, ok := a.r.copied.Get(key); ok {
		if c := c.(copied); c.revision == in.Revision && a.now.Sub(c.at) < resync {
			return nil
		}
	}
	data, err := a.r.o.Inputs.Get(ctx, a.stack.Name, *in)
	if errors.Is(err, inputs.ErrMissing) {
		a.again(removing)
		return stack.Wait(kubenestv1.ReasonWaitingForExport, "%s has not come from the hub yet", in.Name)
	}
	if err != nil {
		return err
	}
	secret := &unstructured.Unstructured{Object: map[string]any{"type": string(corev1.SecretTypeOpaque)}}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	secret.SetNamespace(a.target.Namespace)
	secret.SetName(in.Name)
	labels := a.target.Labels("")
	delete(labels, kubenestv1.ComponentLabel)
	labels[kubenestv1.ManagedByLabel], labels[kubenestv1.ExportsLabel] = kubenestv1.ManagedBy, inputLabel
	secret.SetLabels(labels)
	secret.SetAnnotations(map[string]string{
		kubenestv1.OwnerAnnotation: a.target.Owner, kubenestv1.ExportsRevisionAnnotation: in.Revision,
	})
	content := map[string]any{}
	for name, value := range data {
		content[name] = encode(value)
	}
	secret.Object["data"] = content
	if _, err := a.r.o.Objects.Apply(ctx, &a.target, []*unstructured.Unstructured{secret}); err != nil {
		return fmt.Errorf("copy exports %s: %w", in.Name, err)
	}
	a.r.copied.Add(key, copied{revision: in.Revision, at: a.now})
	return nil
}

// dropExports removes copies that are wanted no more.
func (a *app) dropExports(ctx context.Context) error {
	secrets, err := a.r.o.Objects.Secrets(ctx, &a.target, client.MatchingLabels{kubenestv1.ExportsLabel: inputLabel})
	if err != nil {
		return err
	}
	var errs []error
	for _, secret := range secrets {
		if a.input(kubenestv1.InputExports, secret.GetName()) == nil {
			errs = append(errs, a.r.o.Objects.Delete(ctx, &a.target, secret))
		}
	}
	return errors.Join(errs...)
}

// prune deletes what a component had and has no more.
func (a *app) prune(ctx context.Context, component string, keep []*unstructured.Unstructured) {
	kept := map[string]bool{}
	for _, o := range keep {
		kept[o.GetKind()+"/"+o.GetName()] = true
	}
	_, err := a.r.o.Objects.Prune(ctx, &a.target, func(o client.Object) bool {
		return o.GetLabels()[kubenestv1.ComponentLabel] == kubenestv1.LabelValue(component) &&
			!kept[o.GetObjectKind().GroupVersionKind().Kind+"/"+o.GetName()]
	})
	if err != nil {
		a.errs = append(a.errs, fmt.Errorf("component %s: %w", component, err))
	}
}
