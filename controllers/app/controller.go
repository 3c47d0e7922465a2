// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app looks after Apps on the leader: it splits each into one StackDeploy a
// target cluster, keeps its revisions, and sums up what the clusters report.
package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

const (
	// again is when something is tried again that met an object newer than the one in
	// the cache. The newer one is on its way, and brings the next try on as a rule.
	again = 200 * time.Millisecond
	// lookAgain is how often something is looked at that nothing tells of: a Secret
	// with a Git credential, and why an App was refused.
	lookAgain = 5 * time.Minute
	// orphanGrace is how long StackDeploys stay whose App nobody has seen: a backup that
	// is being restored may bring the App after them.
	orphanGrace = time.Hour
	// keptDigests bounds the digests of charts that are remembered.
	keptDigests = 1024
)

// Reconciler looks after Apps. It runs on the leader. What it reads and decides is
// level-triggered: everything follows from the objects as they are now.
//
//	observe.go    reads everything that decides about an App
//	accept.go     whether the spec can be deployed at all
//	split.go      spec → one StackDeploy a cluster; exports.go, moving.go
//	write.go      applies those that differ
//	aggregate.go  what the clusters report → the App's status
//	revisions.go  the last revisions, and which one runs
//	release.go    deletion
//	setup.go      what brings a reconcile on; index.go, inputs.go
type Reconciler struct {
	// Client reads from the cache, which has the indexes of Index.
	Client client.Client
	// Live reads from the API server itself.
	Live   client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock

	// inputs reads what is cached for this controller alone, see newInputs.
	inputs client.Reader
	// known are the Apps that were seen here. What is left of them is removed at once.
	known sync.Map
	// digests of charts, by UID and resourceVersion of their ConfigMaps.
	digests *lru.Cache
}

// Reconcile looks after one App.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var app kubenestv1.App
	err := r.Client.Get(ctx, req.NamespacedName, &app)
	switch {
	case apierrors.IsNotFound(err):
		wait, err := r.removeOrphans(ctx, req.NamespacedName)
		return ctrl.Result{RequeueAfter: wait}, err
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read App %s: %w", req.NamespacedName, err)
	}
	r.known.Store(req.NamespacedName, true)
	var result ctrl.Result
	if app.DeletionTimestamp.IsZero() {
		result, err = r.deploy(ctx, &app)
	} else {
		err = r.release(ctx, &app)
	}
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return result, err
}

// deploy rolls an App out, and writes what is known of it.
func (r *Reconciler) deploy(ctx context.Context, app *kubenestv1.App) (ctrl.Result, error) {
	v, err := r.observe(ctx, app)
	if err != nil {
		return ctrl.Result{}, err
	}
	refused := accept(v)
	if refused == nil {
		refused, err = r.rollOut(ctx, v)
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.writeStatus(ctx, app, aggregate(v, refused)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: v.nextLook(refused)}, nil
}

// rollOut writes what an accepted App asks for. Everything is computed before the
// first write. A refusal here is the API server's.
func (r *Reconciler) rollOut(ctx context.Context, v *view) (*refusal, error) {
	p, refused := makePlan(v)
	if refused != nil {
		return refused, nil
	}
	if err := r.hold(ctx, v.app); err != nil {
		return nil, err
	}
	if err := r.keepRevision(ctx, v); err != nil {
		return nil, err
	}
	err := r.write(ctx, v, p)
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return refuse(kubenestv1.ReasonInvalid, "What this App is on a cluster can not be stored: %v", err), nil
	}
	return nil, err
}

// nextLook is when to look again though nothing has happened; 0 is never.
func (v *view) nextLook(refused *refusal) time.Duration {
	var next time.Duration
	soonest := func(d time.Duration) {
		if d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	if refused != nil {
		soonest(lookAgain)
	}
	for _, record := range v.records {
		soonest(v.untilUnknown(record))
		if v.delivery(record) == kubenestv1.DeliveryArgoCD {
			soonest(lookAgain)
		}
	}
	return next
}
