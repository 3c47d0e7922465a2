// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/inputs"
	"github.com/kubenest/kubenest/operator/stack"
)

// An App may change its way of delivery while it runs. Its objects stay: only who keeps
// them changes, and so who owns their fields.

const (
	// fieldManagerArgoCD is how Argo CD calls itself when it applies.
	fieldManagerArgoCD = "argocd-controller"
	// fieldManagerPublished writes delivery.PublishedAnnotation, which a delivery of the
	// hub must not take away.
	fieldManagerPublished = kubenestv1.FieldManagerOperator + "-published"
	// switching looks again at what a switch waits for.
	switching = time.Second
)

// release has Argo CD let go of an App that is to be delivered directly, or from
// another place. A *stack.Problem says what it waits for.
func (a *app) release(ctx context.Context) error {
	argocd := a.stack.Spec.Delivery == kubenestv1.DeliveryArgoCD
	was := delivery.PublishedOf(a.stack)
	if was == nil || a.stack.Spec.Paused || (argocd && was.At(a.stack.Spec.GitOps)) {
		return nil
	}
	pub, err := a.published(ctx, was)
	if err != nil {
		return err
	}
	waiting, err := a.r.o.GitOps.Release(ctx, pub)
	if err != nil {
		return err
	}
	if len(waiting) > 0 {
		a.again(switching)
		return stack.Wait(kubenestv1.ReasonDeploying, "Argo CD is to let go of it first: %s", strings.Join(waiting, "; "))
	}
	if !argocd {
		if err := a.takeOver(ctx); err != nil {
			return err
		}
	}
	return a.mark(ctx, nil)
}

// takeOver makes what Argo CD applied the operator's own.
func (a *app) takeOver(ctx context.Context) error {
	for i := range a.stack.Spec.Components {
		c := &a.stack.Spec.Components[i]
		objects, err := a.rendered(ctx, c, &observation{})
		if _, refused := errors.AsType[*stack.Problem](err); refused {
			continue // nor is it applied
		}
		if err != nil {
			return fmt.Errorf("component %s: %w", c.Name, err)
		}
		if err := a.r.o.Objects.HandOver(ctx, &a.target, objects, fieldManagerArgoCD, kubenestv1.FieldManagerOperator); err != nil {
			return err
		}
	}
	return nil
}

// giveAway makes what the operator and Helm have applied of an App Argo CD's, once,
// before it is published for the first time. A *stack.Problem says what it waits for.
func (a *app) giveAway(ctx context.Context, published []*unstructured.Unstructured) error {
	if delivery.PublishedOf(a.stack) != nil || (len(a.live.owned) == 0 && !a.reported()) {
		return nil
	}
	for i := range a.stack.Spec.Components {
		c := &a.stack.Spec.Components[i]
		if _, ok := a.objects[c.Name]; !ok || c.Type != kubenestv1.ComponentAddon {
			continue
		}
		waiting, err := a.r.o.Addons.Forget(ctx, a.bareAddon(c))
		if err != nil {
			return err
		}
		if len(waiting) > 0 {
			a.again(switching)
			return stack.Wait(kubenestv1.ReasonDeploying, "it is published when this has ended: %s", strings.Join(waiting, "; "))
		}
	}
	return a.r.o.Objects.HandOver(ctx, &a.target, published, kubenestv1.FieldManagerOperator, fieldManagerArgoCD)
}

// published is a publication as it was made. Without a credential, which may be gone,
// what is in the cluster can still be taken back.
func (p *pass) published(ctx context.Context, was *delivery.Published) (*delivery.Publication, error) {
	pub := &delivery.Publication{Stack: p.name(), Target: p.target, Source: *p.stack.Spec.Source, GitOps: was.GitOps}
	if was.Credential == nil {
		return pub, nil
	}
	data, err := p.r.o.Inputs.Get(ctx, p.stack.Name, *was.Credential)
	if err != nil && !errors.Is(err, inputs.ErrMissing) {
		return nil, fmt.Errorf("read the credential of the repository: %w", err)
	}
	pub.Credential = data
	return pub, nil
}

// mark notes with what the StackDeploy is published; nil when it is no more.
func (p *pass) mark(ctx context.Context, published *delivery.Published) error {
	var value any
	if published != nil {
		text, err := published.Annotation()
		if err != nil {
			return err
		}
		if p.stack.Annotations[delivery.PublishedAnnotation] == text {
			return nil
		}
		value = text
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": p.stack.UID, "annotations": map[string]any{delivery.PublishedAnnotation: value},
	}})
	if err != nil {
		return fmt.Errorf("encode what is published: %w", err)
	}
	marked := p.stack.DeepCopy() // the answer is of no use
	err = p.r.o.Client.Patch(ctx, marked, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManagerPublished))
	if err != nil {
		return fmt.Errorf("note with what StackDeploy %s is published: %w", p.stack.Name, err)
	}
	p.stack.Annotations = marked.Annotations
	return nil
}
