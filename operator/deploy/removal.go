// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/health"
	"github.com/kubenest/kubenest/operator/stack"
)

// removed removes components that the spec has no more, and reports those of which
// something is left. It depends on nothing that is still wanted. may is false where
// nothing can be done in the namespace; nor is it while the App is paused.
func (a *app) removed(ctx context.Context, may bool) []kubenestv1.ComponentStatus {
	wanted := map[string]bool{}
	for i := range a.stack.Spec.Components {
		wanted[a.stack.Spec.Components[i].Name] = true
	}
	old := map[string]kubenestv1.ComponentType{}
	for name := range a.live.owned {
		old[name] = kubenestv1.ComponentWorkload
		if a.live.addons[name] {
			old[name] = kubenestv1.ComponentAddon
		}
	}
	for name, before := range a.before {
		if before.Type == kubenestv1.ComponentAddon {
			old[name] = kubenestv1.ComponentAddon
		}
	}
	var left []kubenestv1.ComponentStatus
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if wanted[name] {
			continue
		}
		c := &kubenestv1.Component{Name: name, Type: old[name]}
		if !may || a.stack.Spec.Paused {
			if before := a.before[name]; before != nil {
				left = append(left, *before)
			}
			continue
		}
		waiting, err := a.removeComponent(ctx, c)
		var problem *stack.Problem
		switch {
		case errors.As(err, &problem):
			waiting = append(waiting, problem.Message)
		case err != nil:
			a.errs = append(a.errs, fmt.Errorf("remove component %s: %w", name, err))
			waiting = append(waiting, "it is tried again")
		}
		if len(waiting) > 0 {
			left = append(left, leaving(c, a.before[name], waiting, a))
		}
	}
	return left
}

// leaving is the status of a component that is being removed.
func leaving(c *kubenestv1.Component, before *kubenestv1.ComponentStatus, waiting []string, a *app) kubenestv1.ComponentStatus {
	o := &observation{begun: true, changed: before == nil || before.Reason != kubenestv1.ReasonRemoving, health: a.live.health(c.Name)}
	s := componentStatus(c, o, before, a.timeout(), a.now)
	s.Phase, s.Reason = kubenestv1.AppDeploying, kubenestv1.ReasonRemoving
	s.Message = wire.Line("it is being removed: "+strings.Join(waiting, "; "), wire.MaxText)
	if before != nil && before.Phase == s.Phase && before.Reason == s.Reason {
		s.Since = before.Since
	}
	return s
}

// removeComponent removes what a component has, and says what is still there. With
// argocd it is Argo CD that removes, when the next publication lacks the component;
// what was installed in another way before is removed all the same.
func (a *app) removeComponent(ctx context.Context, c *kubenestv1.Component) (waiting []string, err error) {
	if c.Type == kubenestv1.ComponentAddon {
		addon := a.bareAddon(c)
		waiting, err = a.r.o.Addons.Remove(ctx, addon)
		if err != nil || len(waiting) > 0 {
			return waiting, err
		}
		if err := a.r.o.Exports.Remove(ctx, addon); err != nil {
			return nil, err
		}
	}
	pruned, err := a.r.o.Objects.Prune(ctx, &a.target, func(o client.Object) bool { return componentOf(o) == c.Name })
	return append(waiting, pruned...), err
}

// remove removes everything of the StackDeploy, and then itself.
func (p *pass) remove(ctx context.Context) error {
	var (
		waiting []string
		err     error
	)
	if p.stack.Spec.NamespaceSettings != nil {
		waiting, err = p.removeProject(ctx)
	} else {
		waiting, err = p.removeApp(ctx)
	}
	if problem, ok := errors.AsType[*stack.Problem](err); ok {
		waiting, err = append(waiting, problem.Message), nil
	}
	if err != nil {
		p.keep()
		return fmt.Errorf("remove what %s has: %w", p.stack.Name, err)
	}
	if len(waiting) == 0 {
		return p.forget(ctx)
	}
	p.again(removing)
	for _, w := range waiting[:min(len(waiting), maxWaitingFor)] {
		p.status.Waiting = append(p.status.Waiting, wire.Line(w, maxWaiting))
	}
	p.status.Components = p.stack.Status.Components
	p.conclude(summary{
		phase: kubenestv1.AppDeploying, reason: kubenestv1.ReasonRemoving,
		message: "it is being removed: " + strings.Join(p.status.Waiting, "; "),
	})
	return nil
}

// forget deletes the StackDeploy, of which nothing is left.
func (p *pass) forget(ctx context.Context) error {
	if err := p.r.o.Inputs.Prune(ctx, p.stack.Name, nil); err != nil {
		return err
	}
	uid := p.stack.UID
	if err := client.IgnoreNotFound(p.r.o.Client.Delete(ctx, p.stack, client.Preconditions{UID: &uid})); err != nil {
		return fmt.Errorf("delete StackDeploy %s: %w", p.stack.Name, err)
	}
	p.gone = true
	return nil
}

// removeProject waits for the Apps in the namespace: deleting it would take them along
// behind their backs.
func (p *pass) removeProject(ctx context.Context) (waiting []string, err error) {
	var list kubenestv1.StackDeployList
	if err := p.r.o.Client.List(ctx, &list, client.InNamespace(p.r.o.Namespace), client.MatchingFields{namespaceIndex: p.target.Namespace}); err != nil {
		return nil, fmt.Errorf("list the Apps in namespace %s: %w", p.target.Namespace, err)
	}
	for i := range list.Items {
		if o := &list.Items[i]; o.Spec.App != "" && o.Spec.Project == p.target.Project && o.Spec.ClusterID == p.stack.Spec.ClusterID {
			waiting = append(waiting, "App "+o.Spec.App+" is still in namespace "+p.target.Namespace)
		}
	}
	if len(waiting) > 0 {
		return waiting, nil
	}
	return p.r.o.Namespaces.Remove(ctx, &p.target)
}

// removeApp removes all components at once.
func (p *pass) removeApp(ctx context.Context) (waiting []string, err error) {
	was := delivery.PublishedOf(p.stack)
	if was == nil && p.stack.Spec.Delivery == kubenestv1.DeliveryArgoCD && p.stack.Spec.GitOps != nil {
		was = p.with() // it may have been published under a StackDeploy that was deleted
	}
	if was != nil {
		// First, or Argo CD would make anew what is removed here.
		pub, err := p.published(ctx, was)
		if err != nil {
			return nil, err
		}
		waiting, err := p.r.o.GitOps.Remove(ctx, pub)
		if err != nil || len(waiting) > 0 {
			return waiting, err
		}
	}
	there, err := p.r.o.Namespaces.Has(ctx, &p.target, p.projectOwner())
	if err != nil || !there {
		return nil, err
	}
	return p.removeAll(ctx)
}

// removeAll removes what is in the namespace: workloads, then addons, then the Secrets
// that they might need to end.
func (p *pass) removeAll(ctx context.Context) (waiting []string, err error) {
	l, err := p.r.look(ctx, &p.target)
	if err != nil {
		return nil, err
	}
	waiting, err = p.r.o.Objects.Prune(ctx, &p.target, func(client.Object) bool { return true })
	if err != nil {
		return waiting, err
	}
	for _, addon := range p.addons(l) {
		left, err := p.r.o.Addons.Remove(ctx, addon)
		if err != nil {
			return append(waiting, left...), err
		}
		if len(left) > 0 {
			waiting = append(waiting, left...)
			continue
		}
		if err := p.r.o.Exports.Remove(ctx, addon); err != nil {
			return waiting, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.components)) {
		left, err := p.removePods(ctx, l.components[name])
		if err != nil {
			return waiting, err
		}
		waiting = append(waiting, left...)
	}
	if len(waiting) > 0 {
		return waiting, nil
	}
	secrets, err := p.r.o.Objects.Secrets(ctx, &p.target, nil)
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets {
		if err := p.r.o.Objects.Delete(ctx, &p.target, secret); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// removePods deletes the Jobs that Helm leaves of its hooks, and names the pods that
// are ending. Those that nobody ends, since a chart keeps what owns them or somebody
// made them by hand, are not waited for.
func (p *pass) removePods(ctx context.Context, o *health.Objects) (waiting []string, err error) {
	for i := range o.Jobs {
		if err := p.r.o.Objects.Delete(ctx, &p.target, &o.Jobs[i]); err != nil {
			return nil, err
		}
	}
	for i := range o.Pods {
		if ends(&o.Pods[i], o) {
			waiting = append(waiting, "Pod "+p.target.Namespace+"/"+o.Pods[i].Name+" is ending")
		}
	}
	return waiting, nil
}

// ends reports whether a pod is being ended, or will be, since what owns it is gone.
func ends(pod *corev1.Pod, o *health.Objects) bool {
	owner := metav1.GetControllerOf(pod)
	switch {
	case !pod.DeletionTimestamp.IsZero():
		return true
	case owner == nil, pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return false
	}
	kept := func(name string, deleted *metav1.Time) bool { return name == owner.Name && deleted.IsZero() }
	switch owner.Kind {
	case "StatefulSet":
		return !slices.ContainsFunc(o.StatefulSets, func(s appsv1.StatefulSet) bool { return kept(s.Name, s.DeletionTimestamp) })
	case "DaemonSet":
		return !slices.ContainsFunc(o.DaemonSets, func(s appsv1.DaemonSet) bool { return kept(s.Name, s.DeletionTimestamp) })
	case "ReplicaSet": // named after its Deployment
		return !slices.ContainsFunc(o.Deployments, func(d appsv1.Deployment) bool {
			return d.DeletionTimestamp.IsZero() && strings.HasPrefix(owner.Name, d.Name+"-")
		})
	case "Job":
		return true // they have been deleted
	}
	return false // of a controller that is not known here
}

// addons that there are, or have been.
func (p *pass) addons(l *live) []*delivery.Addon {
	var list []*delivery.Addon
	seen := map[string]bool{}
	add := func(c *kubenestv1.Component) {
		if !seen[c.Name] {
			seen[c.Name] = true
			list = append(list, p.bareAddon(c))
		}
	}
	for i := range p.stack.Spec.Components {
		if c := &p.stack.Spec.Components[i]; c.Type == kubenestv1.ComponentAddon {
			add(c)
		}
	}
	for i := range p.stack.Status.Components {
		if c := &p.stack.Status.Components[i]; c.Type == kubenestv1.ComponentAddon {
			add(&kubenestv1.Component{Name: c.Name, Type: c.Type})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.addons)) {
		add(&kubenestv1.Component{Name: name, Type: kubenestv1.ComponentAddon})
	}
	return list
}
