// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"time"

	"helm.sh/helm/v4/pkg/kube"
)

// client is Helm's, which gives its turn to others while it waits for hooks to end, for
// objects to be ready, or to be gone: that may take as long as the App allows.
type client struct {
	*kube.Client
	turn  *turn
	begin func() error
}

// yielding makes Helm's client one that gives its turn to others. ctx ends Helm's calls.
func yielding(ctx context.Context, c *kube.Client, t *turn) *client {
	return &client{Client: c, turn: t, begin: func() error { return t.begin(ctx) }}
}

// GetWaiter is Helm's, without options.
func (c *client) GetWaiter(s kube.WaitStrategy) (kube.Waiter, error) {
	return c.GetWaiterWithOptions(s)
}

// GetWaiterWithOptions is Helm's.
func (c *client) GetWaiterWithOptions(s kube.WaitStrategy, o ...kube.WaitOption) (kube.Waiter, error) {
	w, err := c.Client.GetWaiterWithOptions(s, o...)
	if err != nil {
		return nil, err
	}
	return &waiter{client: c, next: w}, nil
}

type waiter struct {
	client *client
	next   kube.Waiter
}

// Wait waits without a slot.
func (w *waiter) Wait(l kube.ResourceList, t time.Duration) error {
	return w.client.yield(func() error { return w.next.Wait(l, t) })
}

// WaitWithJobs waits without a slot.
func (w *waiter) WaitWithJobs(l kube.ResourceList, t time.Duration) error {
	return w.client.yield(func() error { return w.next.WaitWithJobs(l, t) })
}

// WaitForDelete waits without a slot.
func (w *waiter) WaitForDelete(l kube.ResourceList, t time.Duration) error {
	return w.client.yield(func() error { return w.next.WaitForDelete(l, t) })
}

// WatchUntilReady waits without a slot.
func (w *waiter) WatchUntilReady(l kube.ResourceList, t time.Duration) error {
	return w.client.yield(func() error { return w.next.WatchUntilReady(l, t) })
}

func (c *client) yield(wait func() error) error {
	c.turn.end()
	err := wait()
	if beginErr := c.begin(); err == nil {
		err = beginErr
	}
	return err
}
