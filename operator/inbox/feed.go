// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
)

// noRevision stands for that of exports that are not there.
const noRevision = "none"

// Follow notes each copy and each addon's exports, and then those that change. Secrets
// are not watched, since the operator may list none: which exports there are, and in
// which revision, stands in the copies' status. An addon's are noted though it has none:
// the hub may know of some that are gone.
func (b *Inbox) Follow(ctx context.Context, note func(agent.Topic)) error {
	informer, err := b.o.Cache.GetInformer(ctx, &kubenestv1.StackDeploy{}, cache.BlockUntilSynced(true))
	if err != nil {
		return fmt.Errorf("watch StackDeploys: %w", err)
	}
	f := &follower{namespace: b.o.Namespace, note: note}
	registration, err := informer.AddEventHandler(f.stacks())
	if err != nil {
		return fmt.Errorf("watch StackDeploys: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // it fails for one that is gone already
	<-ctx.Done()
	return nil
}

// follower makes topics of what happens to copies.
type follower struct {
	namespace string
	note      func(agent.Topic)
}

func (f *follower) stacks() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if s, ok := f.stack(o); ok {
				f.report(s)
				f.exports(s)
			}
		},
		UpdateFunc: func(before, after any) {
			s, ok := f.stack(after)
			if !ok {
				return
			}
			old, ok := f.stack(before)
			if !ok {
				f.report(s)
				f.exports(s)
				return
			}
			if !equality.Semantic.DeepEqual(&old.Status, &s.Status) {
				f.report(s)
			}
			if old.Generation != s.Generation {
				f.exports(s) // the hub takes none of an addon that it did not list
			}
			f.changedExports(old, s)
		},
		DeleteFunc: func(o any) {
			if s, ok := f.stack(o); ok {
				f.note(agent.Topic{Type: wire.TypeRemoved, Stack: stackOf(s.Spec.Source)})
			}
		},
	}
}

// stack is the copy of an event.
func (f *follower) stack(o any) (*kubenestv1.StackDeploy, bool) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	s, ok := o.(*kubenestv1.StackDeploy)
	return s, ok && s.Namespace == f.namespace && isCopy(s)
}

// report notes the status.
func (f *follower) report(s *kubenestv1.StackDeploy) {
	f.note(agent.Topic{Type: wire.TypeReport, Stack: stackOf(s.Spec.Source)})
}

// exports notes those of each addon.
func (f *follower) exports(s *kubenestv1.StackDeploy) {
	for i := range s.Spec.Components {
		if c := &s.Spec.Components[i]; c.Type == kubenestv1.ComponentAddon {
			f.note(agent.Topic{Type: wire.TypeExports, Stack: stackOf(s.Spec.Source), Component: c.Name})
		}
	}
}

// changedExports notes the addons whose exports are others than before, or gone.
func (f *follower) changedExports(before, after *kubenestv1.StackDeploy) {
	revisions := func(s *kubenestv1.StackDeploy) map[string]string {
		of := map[string]string{}
		for i := range s.Status.Components {
			if c := &s.Status.Components[i]; c.ExportsRevision != "" {
				of[c.Name] = c.ExportsRevision
			}
		}
		return of
	}
	had, has := revisions(before), revisions(after)
	for component := range had {
		if _, ok := has[component]; !ok {
			f.note(agent.Topic{Type: wire.TypeExports, Stack: stackOf(after.Spec.Source), Component: component})
		}
	}
	for component, revision := range has {
		if had[component] != revision {
			f.note(agent.Topic{Type: wire.TypeExports, Stack: stackOf(after.Spec.Source), Component: component})
		}
	}
}

// News is what there is to say about a topic now.
func (b *Inbox) News(ctx context.Context, t agent.Topic) (message any, ok bool, err error) {
	if t.Type == wire.TypeRemoved {
		return b.removed(ctx, t.Stack)
	}
	var s kubenestv1.StackDeploy
	err = b.o.Cache.Get(ctx, b.keyOf(t.Stack), &s)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil // the hub hears of the removal
	case err != nil:
		return nil, false, fmt.Errorf("read the copy of StackDeploy %s: %w", t.Stack, err)
	case !isCopy(&s):
		return nil, false, nil
	case t.Type == wire.TypeExports:
		return b.exports(ctx, &s, t.Component)
	}
	return b.report(&s)
}

// report tells a copy's status as of the delivery that it describes, which need not be
// the last.
func (b *Inbox) report(s *kubenestv1.StackDeploy) (message any, ok bool, err error) {
	if s.Status.Source == nil {
		return nil, false, nil // nobody has taken it up
	}
	status, err := fit(s)
	if err != nil {
		return nil, false, err
	}
	return wire.Report{Stack: stackOf(s.Spec.Source), Delivery: deliveryOf(s.Status.Source), Status: status}, true, nil
}

// exports tells those that the copy's status has of an addon, or that there are none.
func (b *Inbox) exports(ctx context.Context, s *kubenestv1.StackDeploy, component string) (message any, ok bool, err error) {
	m := wire.Exports{Stack: stackOf(s.Spec.Source), Component: component, Revision: noRevision}
	if slices.ContainsFunc(s.Status.Components, func(c kubenestv1.ComponentStatus) bool {
		return c.Name == component && c.ExportsRevision != ""
	}) {
		if err := b.readExports(ctx, s, component, &m); err != nil {
			return nil, false, err
		}
	}
	if err := m.Validate(); err != nil { // it repeats no value
		b.o.Log.Error(err, "Exports can not be told to the hub", "StackDeploy", s.Name, "component", component)
		return nil, false, nil
	}
	return m, true, nil
}

// readExports reads an addon's values from the API server, with the Project's rights:
// they are not cached, and the operator may not read them by itself. A Secret that is
// not the copy's is as good as none.
func (b *Inbox) readExports(ctx context.Context, s *kubenestv1.StackDeploy, component string, m *wire.Exports) error {
	project, err := b.o.Projects(s.Spec.Namespace)
	if err != nil {
		return err
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: s.Spec.Namespace, Name: kubenestv1.ExportsSecretName(s.Spec.App, component)}
	err = project.Get(ctx, key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read Secret %s with exports: %w", key, err)
	}
	if secret.Labels[kubenestv1.ExportsLabel] == "true" && secret.DeletionTimestamp.IsZero() &&
		secret.Annotations[kubenestv1.OwnerAnnotation] == kubenestv1.Owner(s.Spec.ClusterID, s.Spec.Source) {
		m.Revision, m.Data = secret.Annotations[kubenestv1.ExportsRevisionAnnotation], secret.Data
	}
	return nil
}

// removed tells that a copy is gone, once nothing is left of it.
func (b *Inbox) removed(ctx context.Context, stack wire.Stack) (message any, ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	there, err := b.read(ctx, stack)
	if err != nil || there != nil && isCopy(there) {
		return nil, false, err
	}
	if there == nil {
		err = b.o.Inputs.Prune(ctx, b.keyOf(stack).Name, nil)
	}
	if err != nil {
		return nil, false, errors.Join(errors.New("inputs are left"), err)
	}
	return wire.Removed{Stack: stack}, true, nil
}
