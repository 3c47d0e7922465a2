// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"sync"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
)

// gate is the agent's way to deployments that are not there yet: an operator connects
// at once, even if its API server does not answer, and says what it has when it can.
type gate struct {
	opened chan struct{}
	once   sync.Once
	behind agent.Deployments
}

var _ agent.Deployments = (*gate)(nil)

func newGate() *gate { return &gate{opened: make(chan struct{})} }

// open lets everything through. It counts once.
func (g *gate) open(to agent.Deployments) {
	g.once.Do(func() {
		g.behind = to
		close(g.opened)
	})
}

func (g *gate) await(ctx context.Context) (agent.Deployments, error) {
	select {
	case <-g.opened:
		return g.behind, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("what deploys has not begun: %w", context.Cause(ctx))
	}
}

// Inventory waits until there is something to ask.
func (g *gate) Inventory(ctx context.Context) (wire.Inventory, error) {
	to, err := g.await(ctx)
	if err != nil {
		return wire.Inventory{}, err
	}
	return to.Inventory(ctx)
}

// Deliver comes after an inventory, so that the gate is open.
func (g *gate) Deliver(ctx context.Context, d *wire.Deliver) wire.Delivered {
	to, err := g.await(ctx)
	if err != nil {
		return wire.Delivered{Stack: d.Stack, Delivery: d.Delivery, Failure: wire.DeliveryUnavailable, Message: err.Error()}
	}
	return to.Deliver(ctx, d)
}

// Remove comes after an inventory.
func (g *gate) Remove(ctx context.Context, r *wire.Remove) error {
	to, err := g.await(ctx)
	if err != nil {
		return err
	}
	return to.Remove(ctx, r)
}

// Follow comes after an inventory.
func (g *gate) Follow(ctx context.Context, note func(agent.Topic)) error {
	to, err := g.await(ctx)
	if err != nil {
		return err
	}
	return to.Follow(ctx, note)
}

// News comes after Follow.
func (g *gate) News(ctx context.Context, t agent.Topic) (message any, ok bool, err error) {
	to, err := g.await(ctx)
	if err != nil {
		return nil, false, err
	}
	return to.News(ctx, t)
}
