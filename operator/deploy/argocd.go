// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/inputs"
	"github.com/kubenest/kubenest/operator/stack"
)

// render makes the objects of a component that is to be published, and asks the API
// server whether the Project may have them: Argo CD has more rights than it.
func (a *app) render(ctx context.Context, c *kubenestv1.Component, o *observation) {
	objects, err := a.rendered(ctx, c, o)
	if err == nil {
		err = a.r.o.Objects.DryRun(ctx, &a.target, c.Name, objects)
	}
	if err != nil {
		a.look(c, o)
		a.asBefore(c, o)
		a.fail(c, o, err)
		return
	}
	o.begun = true
	o.health = a.live.healthOf(c.Name, objects)
	a.objects[c.Name] = objects
	if before := a.before[c.Name]; before != nil { // until publishing it tells anew
		o.exports, o.exportsRevision = before.Exports, before.ExportsRevision
	}
	if s := c.WorkloadSpec; s != nil && s.Autoscaling != nil {
		o.enough = new(max(s.Autoscaling.MinReplicas, 1))
	}
}

func (a *app) rendered(ctx context.Context, c *kubenestv1.Component, o *observation) ([]*unstructured.Unstructured, error) {
	if c.Type == kubenestv1.ComponentWorkload {
		return a.workloadObjects(ctx, c)
	}
	addon, err := a.addonOf(ctx, c)
	if err != nil {
		return nil, err
	}
	objects, err := a.r.o.Addons.Render(ctx, addon)
	if err != nil {
		return nil, err
	}
	o.image = c.AddonSpec.Chart.Version
	return objects, nil
}

// publish has Argo CD apply the components that have been begun. While one of them can
// not be rendered nothing is published: it would be taken for removed.
func (a *app) publish(ctx context.Context) {
	var published, secrets []*unstructured.Unstructured
	for i := range a.stack.Spec.Components {
		c := &a.stack.Spec.Components[i]
		objects, ok := a.objects[c.Name]
		if !ok && a.observed[c.Name].begun {
			a.unpublished = true
			return
		}
		for _, object := range objects {
			if object.GroupVersionKind().Group == "" && object.GetKind() == "Secret" {
				secrets = append(secrets, object)
			} else {
				published = append(published, object)
			}
		}
	}
	if len(published) == 0 && len(secrets) == 0 && len(a.live.owned) == 0 && !a.reported() {
		return // there has never been anything
	}
	sync, err := a.sync(ctx, published, secrets)
	a.unpublished = err != nil
	for i := range a.stack.Spec.Components {
		c := &a.stack.Spec.Components[i]
		o := a.observed[c.Name]
		if _, ok := a.objects[c.Name]; !ok {
			continue
		}
		if err != nil {
			a.fail(c, o, err)
			continue
		}
		o.working = !sync.Synced
		if sync.Problem != nil {
			o.problem = sync.Problem
		}
		if c.Type == kubenestv1.ComponentAddon && o.problem == nil {
			a.export(ctx, c, a.bareAddon(c), a.objects[c.Name], o)
		}
	}
	if err == nil && !sync.Synced {
		a.again(removing)
	}
}

// reported reports whether anything has been begun before, also of components that the
// spec has no more.
func (a *app) reported() bool {
	for _, before := range a.before {
		if before.DesiredReplicas != nil {
			return true
		}
	}
	return false
}

// sync applies Secrets, which never stand in a repository, and publishes the rest.
func (a *app) sync(ctx context.Context, published, secrets []*unstructured.Unstructured) (*delivery.Sync, error) {
	result, err := a.r.o.Objects.Apply(ctx, &a.target, secrets)
	a.drifted(result.Drift...)
	if err != nil {
		return nil, err
	}
	pub, err := a.publication(ctx, published)
	if err != nil {
		return nil, err
	}
	if err := a.giveAway(ctx, published); err != nil {
		return nil, err
	}
	if err := a.mark(ctx, a.with()); err != nil { // first: what is there has to be found again
		return nil, err
	}
	sync, err := a.r.o.GitOps.Publish(ctx, pub)
	if err != nil {
		return nil, err
	}
	if sync == nil {
		return nil, errors.New("publish: no answer")
	}
	return sync, a.pruneSecrets(ctx, secrets)
}

// pruneSecrets deletes Secrets that were applied beside a publication and are in none
// any more. It looks when the set has changed, and once after a start.
func (a *app) pruneSecrets(ctx context.Context, keep []*unstructured.Unstructured) error {
	names := make([]string, 0, len(keep))
	for _, o := range keep {
		names = append(names, o.GetName())
	}
	slices.Sort(names)
	set := strings.Join(names, ",")
	if pruned, ok := a.r.secrets.Get(a.stack.Name); ok && pruned == set {
		return nil
	}
	have, err := a.r.o.Objects.Secrets(ctx, &a.target, nil)
	if err != nil {
		return err
	}
	for _, secret := range have {
		if _, exports := secret.GetLabels()[kubenestv1.ExportsLabel]; exports || slices.Contains(names, secret.GetName()) {
			continue
		}
		if err := a.r.o.Objects.Delete(ctx, &a.target, secret); err != nil {
			return err
		}
	}
	a.r.secrets.Add(a.stack.Name, set)
	return nil
}

// publication of objects, with the credential for the repository.
func (p *pass) publication(ctx context.Context, objects []*unstructured.Unstructured) (*delivery.Publication, error) {
	if p.stack.Spec.GitOps == nil {
		return nil, stack.Refuse(kubenestv1.ReasonGitOpsMissing, "delivery is argocd, and the cluster has no spec.gitops")
	}
	pub := &delivery.Publication{
		Stack: p.name(), Target: p.target, Source: *p.stack.Spec.Source, GitOps: *p.stack.Spec.GitOps, Objects: objects,
	}
	if pub.GitOps.SecretRef == nil {
		return pub, nil
	}
	if in := p.credential(); in != nil {
		data, err := p.r.o.Inputs.Get(ctx, p.stack.Name, *in)
		if errors.Is(err, inputs.ErrMissing) {
			return nil, p.noCredential()
		}
		if err != nil {
			return nil, fmt.Errorf("read the credential of the repository: %w", err)
		}
		pub.Credential = data
		return pub, nil
	}
	return nil, p.noCredential()
}

func (p *pass) noCredential() error {
	g := p.stack.Spec.GitOps
	return stack.Wait(kubenestv1.ReasonGitFailed, "the credential %s of repository %s has not come from the hub yet", g.SecretRef.Name, g.RepoURL)
}

// credential is the input that opens the repository; nil if none is listed.
func (p *pass) credential() *kubenestv1.StackInput {
	g := p.stack.Spec.GitOps
	for i := range p.stack.Spec.Inputs {
		if in := &p.stack.Spec.Inputs[i]; g.SecretRef != nil && in.Kind == kubenestv1.InputGitCredential && in.Name == g.SecretRef.Name {
			return in
		}
	}
	return nil
}

// with is what the spec has it published with.
func (p *pass) with() *delivery.Published {
	return &delivery.Published{GitOps: *p.stack.Spec.GitOps, Credential: p.credential()}
}
