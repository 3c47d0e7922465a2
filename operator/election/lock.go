// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock logs what goes wrong with a Lease once, where client-go would at each try.
type lock struct {
	resourcelock.Interface
	log logr.Logger

	mu      sync.Mutex
	failing bool
	reason  metav1.StatusReason // of the failure that was logged
}

// Get reads the Lease.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.note(ctx, err)
	return record, raw, err
}

// Create makes the Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	l.note(ctx, err)
	return err
}

// Update changes the Lease.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	l.note(ctx, err)
	return err
}

func (l *lock) note(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return // stopping, or another candidate was faster
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	reason := apierrors.ReasonForError(err)
	switch {
	case err == nil && l.failing:
		l.log.Info("The Lease can be used again")
	case err != nil && apierrors.IsForbidden(err) && (!l.failing || reason != l.reason):
		l.log.Error(err, "The operator may not use its Lease: a \"helm upgrade\" of its chart restores its permissions")
	case err != nil && (!l.failing || reason != l.reason):
		l.log.Error(err, "Can not use the Lease, trying on")
	}
	l.failing, l.reason = err != nil, reason
}
