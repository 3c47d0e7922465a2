// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/health"
	"github.com/kubenest/kubenest/operator/stack"
)

// app is a pass over the StackDeploy of an App.
type app struct {
	*pass
	live   *live
	before map[string]*kubenestv1.ComponentStatus
	// found out in this pass, by component.
	observed map[string]*observation
	objects  map[string][]*unstructured.Unstructured // of addons, and of all with argocd
	reached  map[string]kubenestv1.AppPhase
	exports  map[string]exported
	unusable map[string]*stack.Problem // inputs, by name
	// unpublished: with argocd, what the repository holds is still what was before.
	unpublished bool
	errs        []error
}

// exported are the exports of an addon of this cluster.
type exported struct {
	keys     []string
	revision string
}

// app makes and keeps the components of an App.
func (p *pass) app(ctx context.Context) error {
	a := &app{
		pass: p, before: map[string]*kubenestv1.ComponentStatus{}, observed: map[string]*observation{},
		objects: map[string][]*unstructured.Unstructured{}, reached: map[string]kubenestv1.AppPhase{}, exports: map[string]exported{},
		unusable: map[string]*stack.Problem{},
	}
	for i := range p.stack.Status.Components {
		c := &p.stack.Status.Components[i]
		a.before[c.Name] = c
	}
	var err error
	if a.live, err = p.r.look(ctx, &p.target); err != nil {
		p.keep()
		return err
	}
	ordered, cyclic := order(p.stack.Spec.Components)
	for _, c := range cyclic {
		o := &observation{begun: a.begun(c), problem: stack.Refuse(kubenestv1.ReasonDependencyCycle,
			"it depends on itself, or on components that do (%s): take one of dependsOn or exportRef away", names(cyclic))}
		a.look(c, o)
		a.observed[c.Name] = o
	}
	ready := p.r.o.Namespaces.Ready(ctx, &p.target, p.projectOwner())
	if ready == nil {
		ready = a.release(ctx)
	}
	var problem *stack.Problem
	switch {
	case errors.As(ready, &problem):
		a.blocked(ordered, problem)
	case ready != nil:
		p.keep()
		return ready
	default:
		a.copyInputs(ctx)
		a.bring(ctx, ordered)
	}
	removing := a.removed(ctx, problem == nil && !a.unpublished)
	a.finish(ctx, removing)
	return errors.Join(a.errs...)
}

// blocked: nothing can be done in the namespace.
func (a *app) blocked(ordered []*kubenestv1.Component, problem *stack.Problem) {
	if problem.Waiting {
		a.again(removing)
	}
	for _, c := range ordered {
		o := &observation{begun: a.begun(c), problem: problem}
		a.look(c, o)
		a.observed[c.Name] = o
	}
}

// bring brings every component to what the spec says, as far as it may be.
func (a *app) bring(ctx context.Context, ordered []*kubenestv1.Component) {
	argocd := a.stack.Spec.Delivery == kubenestv1.DeliveryArgoCD
	for _, c := range ordered {
		if before := a.before[c.Name]; argocd && before != nil { // what runs is known after the sync
			a.reached[c.Name] = before.Phase
			a.exports[c.Name] = exported{keys: before.Exports, revision: before.ExportsRevision}
		}
		o := a.one(ctx, c, argocd)
		a.observed[c.Name] = o
		if argocd {
			continue
		}
		status := componentStatus(c, o, a.before[c.Name], a.timeout(), a.now)
		a.reached[c.Name] = status.Phase
	}
	if argocd && !a.stack.Spec.Paused {
		a.publish(ctx)
	}
}

// begun reports whether something of a component is on the cluster, or was on its way
// there: health is reported from then on, also of what the cache does not show.
func (a *app) begun(c *kubenestv1.Component) bool {
	before := a.before[c.Name]
	return a.live.owned[c.Name] || (before != nil && before.DesiredReplicas != nil)
}

// look tells how a component is that has been begun, whatever is wanted of it now.
func (a *app) look(c *kubenestv1.Component, o *observation) {
	if o.begun {
		o.health = a.live.health(c.Name)
		a.asBefore(c, o)
	}
}

// one looks at one component.
func (a *app) one(ctx context.Context, c *kubenestv1.Component, argocd bool) *observation {
	o := &observation{begun: a.begun(c), paused: a.stack.Spec.Paused}
	held := a.held(c)
	switch {
	case o.paused || (held != nil && o.begun && !argocd): // what is published has to have all
		a.look(c, o)
		return o
	case held != nil && !o.begun:
		o.problem = stack.Wait(held.Reason, "%s", held.Message)
		return o
	case !o.begun:
		if o.problem = a.waits(c); o.problem != nil {
			return o
		}
	}
	switch {
	case argocd:
		a.render(ctx, c, o)
	case c.Type == kubenestv1.ComponentAddon:
		a.addon(ctx, c, o)
	default:
		a.workload(ctx, c, o)
	}
	return o
}

// asBefore keeps what only doing something would tell anew.
func (a *app) asBefore(c *kubenestv1.Component, o *observation) {
	if before := a.before[c.Name]; before != nil && c.Type == kubenestv1.ComponentAddon {
		o.exports, o.exportsRevision, o.image = before.Exports, before.ExportsRevision, before.Image
		a.exports[c.Name] = exported{keys: before.Exports, revision: before.ExportsRevision}
	}
}

func (a *app) held(c *kubenestv1.Component) *kubenestv1.HeldComponent {
	for i := range a.stack.Spec.Held {
		if h := &a.stack.Spec.Held[i]; h.Name == c.Name {
			return h
		}
	}
	return nil
}

// waits says what a component waits for before it is begun.
func (a *app) waits(c *kubenestv1.Component) *stack.Problem {
	for _, d := range dependencies(c, a.stack.Spec.Components) {
		if a.reached[d] != kubenestv1.AppRunning {
			return stack.Wait(kubenestv1.ReasonWaitingForDependency, "component %s, which it depends on, does not run yet", d)
		}
	}
	for _, ref := range c.ExportRefs() {
		if problem := a.lacks(&ref); problem != nil {
			return problem
		}
	}
	return nil
}

// lacks says what of an export is not there yet.
func (a *app) lacks(ref *kubenestv1.ExportReference) *stack.Problem {
	here := slices.ContainsFunc(a.stack.Spec.Components, func(c kubenestv1.Component) bool { return c.Name == ref.Component })
	if here {
		keys := a.exports[ref.Component].keys
		if slices.Contains(keys, ref.Key) {
			return nil
		}
		return stack.Wait(kubenestv1.ReasonWaitingForExport, "addon %s has no export %s (it has: %s)",
			ref.Component, ref.Key, strings.Join(keys, ", "))
	}
	name := kubenestv1.ExportsSecretName(a.target.App, ref.Component)
	if in := a.input(kubenestv1.InputExports, name); in != nil && in.Revision != "" {
		return a.unusable[name]
	}
	return stack.Wait(kubenestv1.ReasonWaitingForExport, "the exports of addon %s, on another cluster, are not there yet", ref.Component)
}

func (a *app) input(kind kubenestv1.InputKind, name string) *kubenestv1.StackInput {
	for i := range a.stack.Spec.Inputs {
		if in := &a.stack.Spec.Inputs[i]; in.Kind == kind && in.Name == name {
			return in
		}
	}
	return nil
}

// fail takes an error: a *stack.Problem is the component's, others are worth another
// try, which changes nothing of what is known of the component.
func (a *app) fail(c *kubenestv1.Component, o *observation, err error) {
	if err == nil {
		return
	}
	if problem, ok := errors.AsType[*stack.Problem](err); ok {
		o.problem = problem
		return
	}
	a.errs = append(a.errs, fmt.Errorf("component %s: %w", c.Name, err))
	o.unknown = true
	if a.stack.Status.ObservedGeneration != a.stack.Generation {
		o.unapplied = err.Error()
	}
}

// workload applies a component of type workload.
func (a *app) workload(ctx context.Context, c *kubenestv1.Component, o *observation) {
	objects, err := a.workloadObjects(ctx, c)
	if err != nil {
		a.look(c, o)
		a.fail(c, o, err)
		return
	}
	result, err := a.r.o.Objects.Apply(ctx, &a.target, objects)
	a.drifted(result.Drift...)
	o.changed, o.working = result.Changed, result.Behind
	if err == nil || result.Changed || o.begun {
		o.begun = true
		o.health = a.live.healthOf(c.Name, objects)
	}
	a.fail(c, o, err)
	if s := c.WorkloadSpec.Autoscaling; s != nil {
		o.enough = new(max(s.MinReplicas, 1))
	}
	if err == nil {
		a.prune(ctx, c.Name, objects)
	}
}

// addon installs a component of type addon.
func (a *app) addon(ctx context.Context, c *kubenestv1.Component, o *observation) {
	addon, err := a.addonOf(ctx, c)
	if err != nil {
		a.look(c, o)
		a.fail(c, o, err)
		return
	}
	release, err := a.r.o.Addons.Ensure(ctx, addon)
	if err != nil || release == nil {
		a.look(c, o)
		a.fail(c, o, err)
		return
	}
	o.begun = true
	o.image = release.Chart
	o.problem = release.Problem
	o.working = release.State == delivery.ReleaseWorking
	o.installing = o.working && !ran(a.before[c.Name])
	o.health = a.live.healthOf(c.Name, release.Objects)
	a.objects[c.Name] = release.Objects
	if release.Drift != "" {
		a.drifted(c.Name + ": " + release.Drift)
	}
	if release.State != delivery.ReleaseDeployed {
		a.asBefore(c, o)
		o.image = release.Chart
		return
	}
	a.export(ctx, c, addon, release.Objects, o)
}

// ran reports whether a component was ready before.
func ran(before *kubenestv1.ComponentStatus) bool {
	return before != nil && (before.Phase == kubenestv1.AppRunning || before.Phase == kubenestv1.AppDegraded || before.Phase == kubenestv1.AppPaused)
}

// export publishes the addon's values. What it waits for holds up those that use them,
// and the addon itself.
func (a *app) export(ctx context.Context, c *kubenestv1.Component, addon *delivery.Addon, objects []*unstructured.Unstructured, o *observation) {
	keys, revision, err := a.r.o.Exports.Ensure(ctx, addon, objects)
	if before := a.before[c.Name]; err != nil && before != nil { // what was published stays
		keys, revision = before.Exports, before.ExportsRevision
	}
	o.exports, o.exportsRevision = keys, revision
	if err == nil {
		a.exports[c.Name] = exported{keys: keys, revision: revision}
		return
	}
	if o.problem == nil || o.problem.Waiting {
		a.fail(c, o, err)
	}
}

// finish sums up and says when to look again.
func (a *app) finish(ctx context.Context, removing []kubenestv1.ComponentStatus) {
	for i := range a.stack.Spec.Components {
		c := &a.stack.Spec.Components[i]
		o, before := a.observed[c.Name], a.before[c.Name]
		s := componentStatus(c, o, before, a.timeout(), a.now)
		if o.begun && (s.Phase == kubenestv1.AppDeploying || s.Phase == kubenestv1.AppDegraded || s.Phase == kubenestv1.AppFailed) {
			a.explain(ctx, c, o)
			s = componentStatus(c, o, before, a.timeout(), a.now)
		}
		a.status.Components = append(a.status.Components, s)
		a.pace(&s)
		if a.stack.Spec.Delivery == kubenestv1.DeliveryArgoCD && news(&s, before) {
			a.again(time.Second)
		}
	}
	if len(removing) > 0 {
		a.again(removingPace)
	}
	a.status.Components = append(a.status.Components, removing...)
	if len(a.status.Components) > maxComponents {
		a.status.Components = a.status.Components[:maxComponents]
	}
	a.conclude(summarize(a.status.Components, a.stack.Spec.Paused))
}

// news reports whether others that wait for a component may go on. What is published is
// taken up in the next pass: no event brings that on.
func news(now, before *kubenestv1.ComponentStatus) bool {
	if before == nil {
		before = &kubenestv1.ComponentStatus{}
	}
	return (now.Phase == kubenestv1.AppRunning && before.Phase != kubenestv1.AppRunning) ||
		now.ExportsRevision != before.ExportsRevision || !slices.Equal(now.Exports, before.Exports)
}

const removingPace = removing

// explain adds the last warnings, and a cause that only they tell.
func (a *app) explain(ctx context.Context, c *kubenestv1.Component, o *observation) {
	if o.health == nil {
		return
	}
	events, err := a.r.namespaceWarnings(ctx, &a.target, a.now)
	if err != nil {
		a.errs = append(a.errs, err)
		return
	}
	o.warnings = health.Warnings(a.live.of(c.Name), events)
	o.health.CauseOf(o.warnings)
}

// pace says when a component is to be looked at again without an event.
func (a *app) pace(s *kubenestv1.ComponentStatus) {
	switch s.Phase {
	case kubenestv1.AppDeploying:
		a.again(unwell)
		if s.Since != nil {
			left := a.timeout() - a.now.Sub(s.Since.Time)
			a.again(left + time.Second)
		}
	case kubenestv1.AppDegraded:
		a.again(unwell)
	case kubenestv1.AppFailed:
		a.again(refused)
	case kubenestv1.AppPending:
		a.again(refused)
	default:
	}
}

func names(components []*kubenestv1.Component) string {
	list := make([]string, 0, len(components))
	for _, c := range components {
		list = append(list, c.Name)
	}
	return strings.Join(list, ", ")
}
