// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/inputs"
)

// pageSize is how many copies are read at once: some may be of a megabyte.
const pageSize = 50

// Options of an Inbox; all are required.
type Options struct {
	// Cache follows the StackDeploys in Namespace.
	Cache cache.Cache
	// Client reads from the API server, not from a cache: a copy that was stored just
	// now must not be missing in an inventory, or the hub would take it for removed.
	Client client.Client
	// Projects gives a client that reads from the API server with the rights of the
	// Project in a namespace. Exports are read with them: the operator by itself may
	// read no Secrets there.
	Projects func(namespace string) (client.Client, error)
	// Inputs keeps what travels beside the StackDeploys.
	Inputs inputs.Store
	// Namespace is the operator's.
	Namespace string
	// Log gets what happens; never data.
	Log logr.Logger
}

// Inbox is the agent.Deployments of a cluster.
type Inbox struct {
	// Static.
	o Options

	mu sync.Mutex // held while copies or inputs are written
}

// New makes an inbox.
func New(o Options) (*Inbox, error) {
	if o.Cache == nil || o.Client == nil || o.Projects == nil || o.Inputs.Client == nil || o.Namespace == "" {
		return nil, errors.New("inbox without a cache, clients, inputs or namespace")
	}
	return &Inbox{o: o}, nil
}

// Inventory reads all copies, and removes inputs of which there is no copy: what was
// removed while there was no session has left them.
func (b *Inbox) Inventory(ctx context.Context) (wire.Inventory, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	inventory := wire.Inventory{Stacks: []wire.Held{}}
	kept := map[string][]kubenestv1.StackInput{}
	var page kubenestv1.StackDeployList
	for {
		err := b.o.Client.List(ctx, &page, client.InNamespace(b.o.Namespace), client.Limit(pageSize), client.Continue(page.Continue))
		if err != nil {
			// A list that expired on the way is read anew, too: half of it is none.
			return wire.Inventory{}, fmt.Errorf("list the StackDeploys in namespace %s: %w", b.o.Namespace, err)
		}
		for i := range page.Items {
			s := &page.Items[i]
			kept[s.Name] = delivery.Kept(s)
			if !isCopy(s) {
				continue
			}
			inventory.Stacks = append(inventory.Stacks, wire.Held{
				Stack: stackOf(s.Spec.Source), Delivery: deliveryOf(s.Spec.Source), Removing: s.Spec.Removed,
			})
		}
		if page.Continue == "" {
			break
		}
	}
	err := b.o.Inputs.Sweep(ctx, func(local string, in kubenestv1.StackInput) bool { return slices.Contains(kept[local], in) })
	if err != nil {
		b.o.Log.Error(err, "Could not remove inputs that nothing uses, trying again with the next session")
	}
	return inventory, nil
}

// Remove marks a copy. Who deploys removes what it made, and then the copy.
func (b *Inbox) Remove(ctx context.Context, r *wire.Remove) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s kubenestv1.StackDeploy
	err := b.o.Client.Get(ctx, b.keyOf(r.Stack), &s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the copy of StackDeploy %s: %w", r.Stack, err)
	}
	if !isCopy(&s) || s.Spec.Removed {
		return nil
	}
	before := s.DeepCopy()
	s.Spec.Removed = true
	err = b.o.Client.Patch(ctx, &s, client.MergeFrom(before), client.FieldOwner(kubenestv1.FieldManagerOperator))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("mark the copy of StackDeploy %s for removal: %w", r.Stack, err)
	}
	b.o.Log.Info("The hub asks for a removal", "stack", r.Stack)
	return nil
}

// keyOf the copy of a hub's StackDeploy.
func (b *Inbox) keyOf(s wire.Stack) client.ObjectKey {
	return client.ObjectKey{
		Namespace: b.o.Namespace, Name: kubenestv1.LocalName(&kubenestv1.StackSource{Namespace: s.Namespace, Name: s.Name}),
	}
}

// isCopy tells what the hub delivered from what somebody else put there: it can be
// said to the hub, and has the name that a delivery would look for.
func isCopy(s *kubenestv1.StackDeploy) bool {
	if s.Spec.Source == nil || kubenestv1.LocalName(s.Spec.Source) != s.Name {
		return false
	}
	stack := stackOf(s.Spec.Source)
	return stack.Validate() == nil
}

func stackOf(s *kubenestv1.StackSource) wire.Stack {
	return wire.Stack{Namespace: s.Namespace, Name: s.Name}
}

// unknown stands for a uid or digest that is not recorded: it differs from every real
// one.
const unknown = "unknown"

// deliveryOf is what a source says, in a form that can be sent.
func deliveryOf(s *kubenestv1.StackSource) wire.Delivery {
	d := wire.Delivery{UID: s.UID, Generation: max(0, s.Generation), Digest: s.Digest}
	if d.Validate() != nil {
		d.UID, d.Digest = unknown, unknown
	}
	return d
}
