// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrSuperseded ends a Keeper whose Lease was taken by another incarnation of
// the same name: this process has been replaced, and its sessions are no longer
// its own.
var ErrSuperseded = errors.New("another process has taken over this replica's name")

// Keeper renews this replica's Lease.
type Keeper struct {
	client client.Client
	ref    types.NamespacedName
	id     ID
	log    logr.Logger
	clock  clock.WithTicker

	// Of the goroutine in Run.
	lease *coordinationv1.Lease // as last read or written; nil: read it first
	held  bool                  // once it was ours, only a later incarnation takes it

	mu      sync.Mutex
	renewed time.Time
}

// NewKeeper makes a Keeper of the Lease of id in the hub's namespace. c must not
// be a cached client.
func NewKeeper(c client.Client, namespace string, id ID, log logr.Logger) *Keeper {
	return &Keeper{
		client: c, ref: types.NamespacedName{Namespace: namespace, Name: leaseName(id.Name)},
		id: id, log: log.WithValues("replica", id.String()), clock: clock.RealClock{},
	}
}

// Run takes the Lease, from an earlier incarnation at once, renews it until ctx
// ends, and releases it: whoever holds sessions under it must have closed them
// by then. The error is ErrSuperseded or nil.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := k.clock.NewTicker(RenewEvery)
	defer ticker.Stop()
	failing := false
	for {
		err := k.renew(ctx)
		switch {
		case errors.Is(err, ErrSuperseded):
			k.setRenewed(time.Time{})
			return fmt.Errorf("keep Lease %s: %w", k.ref, err)
		case ctx.Err() != nil:
			return k.release(ctx)
		case err != nil && !failing:
			failing = true
			k.log.Error(err, "Replica's Lease could not be renewed, trying again", "lastRenewed", k.LastRenewed())
		case err == nil && failing:
			failing = false
			k.log.Info("Replica's Lease is renewed again")
		}
		select {
		case <-ctx.Done():
			return k.release(ctx)
		case <-ticker.C():
		}
	}
}

// CanRenew reports whether the Lease was renewed within RenewalDeadline. A
// replica that cannot must not take sessions: others may think it dead.
func (k *Keeper) CanRenew() bool {
	renewed := k.LastRenewed()
	return !renewed.IsZero() && k.clock.Since(renewed) < RenewalDeadline
}

// LastRenewed is when the Lease was last renewed; zero before the first time and
// when the Lease is no longer held.
func (k *Keeper) LastRenewed() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.renewed
}

func (k *Keeper) setRenewed(t time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewed = t
}

// renew makes one attempt, and a second if somebody else wrote in between.
func (k *Keeper) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, RenewEvery)
	defer cancel()
	err := k.write(ctx)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		err = k.write(ctx)
	}
	return err
}

func (k *Keeper) write(ctx context.Context) error {
	if k.lease == nil {
		if err := k.read(ctx); err != nil {
			return err
		}
	}
	holder := holderOf(k.lease)
	if k.held && holder != "" && holder != k.id.String() {
		return fmt.Errorf("%w: %s", ErrSuperseded, holder)
	}
	next := k.lease.DeepCopy()
	k.lease = nil // until the write is known to have succeeded
	now := k.clock.Now()
	if holder != k.id.String() {
		next.Spec.AcquireTime = new(metav1.NewMicroTime(now))
		next.Spec.LeaseTransitions = new(ptr.Deref(next.Spec.LeaseTransitions, -1) + 1)
		next.Spec.HolderIdentity = new(k.id.String())
	}
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	next.Labels[Label] = "true"
	next.Spec.RenewTime = new(metav1.NewMicroTime(now))
	next.Spec.LeaseDurationSeconds = new(int32(LeaseDuration / time.Second))
	var err error
	if next.ResourceVersion == "" {
		err = k.client.Create(ctx, next)
	} else {
		err = k.client.Update(ctx, next)
	}
	if err != nil {
		return fmt.Errorf("write Lease %s: %w", k.ref, err)
	}
	k.lease, k.held = next, true
	k.setRenewed(now)
	return nil
}

// read gets the Lease; one that does not exist has no resourceVersion.
func (k *Keeper) read(ctx context.Context) error {
	var found coordinationv1.Lease
	err := k.client.Get(ctx, k.ref, &found)
	switch {
	case apierrors.IsNotFound(err):
		k.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: k.ref.Namespace, Name: k.ref.Name}}
	case err != nil:
		return fmt.Errorf("read Lease %s: %w", k.ref, err)
	default:
		k.lease = &found
	}
	return nil
}

// release gives the Lease up, so that nobody waits for it to lapse. When that
// fails it lapses.
func (k *Keeper) release(ctx context.Context) error {
	k.setRenewed(time.Time{})
	if !k.held {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RenewEvery)
	defer cancel()
	if err := k.read(ctx); err != nil {
		k.log.Info("Replica's Lease was not released and will lapse", "reason", err.Error())
		return nil
	}
	if holderOf(k.lease) != k.id.String() {
		return nil
	}
	k.lease.Spec.HolderIdentity = nil
	if err := k.client.Update(ctx, k.lease); err != nil {
		k.log.Info("Replica's Lease was not released and will lapse", "reason", err.Error())
	}
	return nil
}

func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }
