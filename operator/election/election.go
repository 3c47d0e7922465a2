// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package election makes sure that only one operator pod of a cluster dials the
// hub.
//
// It is client-go's leader election with one difference. An elector that can't
// renew its Lease concludes that it no longer leads; here, losing contact with
// the API server ends nothing, since the session with the hub does not depend on
// it and somebody may want to see why the API server is away. What the elected
// one does ends only when another holder was seen, or on purpose.
package election

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// LeaseName is the name of the Lease.
const LeaseName = "kubenest-operator"

// Timing of a Lease, as in client-go.
type Timing struct {
	// Lease is how long others wait after the holder's last renewal.
	Lease time.Duration
	// Renew is how long the holder tries to renew before it begins anew.
	Renew time.Duration
	// Retry is the pace of both.
	Retry time.Duration
}

// DefaultTiming has a second pod take over within 20 s of the first one's sudden
// death; one that stops in order hands over within Retry.
var DefaultTiming = Timing{Lease: 20 * time.Second, Renew: 12 * time.Second, Retry: 3 * time.Second}

// Election is one candidate.
type Election struct {
	// Leases of the cluster.
	Leases coordinationv1client.LeasesGetter
	// Namespace of the Lease.
	Namespace string
	// Identity of this candidate. The pod's name is best: a container that restarts
	// is then the holder still, and waits for nobody.
	Identity string
	// Timing is DefaultTiming if zero.
	Timing Timing
	// OnHolder is told who holds the Lease, when that changes. It must not block, and
	// may be nil.
	OnHolder func(identity string)
	Log      logr.Logger
}

// Run takes part until ctx ends. Each time it acquires the Lease anew it calls
// lead, whose context ends when somebody else holds it, or with ctx. The Lease is
// released only after lead has returned.
func (e *Election) Run(ctx context.Context, lead func(context.Context)) error {
	if e.Timing == (Timing{}) {
		e.Timing = DefaultTiming
	}
	// The Lease must outlive what it guards.
	electing, release := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard())) // lock logs
	defer release()
	events := make(chan struct{})
	elector, err := e.elector(electing, events)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() {
		for electing.Err() == nil {
			elector.Run(electing) // returns when it can't renew
		}
	})

	var stop func() // waits; nil while not leading
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-events:
			// Callbacks may arrive out of order; the elector knows the present holder.
			holder := elector.GetLeader()
			switch {
			case holder == e.Identity && stop == nil:
				e.Log.Info("Holding the Lease: this is the operator that connects")
				stop = start(ctx, lead)
			case holder != e.Identity && holder != "" && stop != nil:
				e.Log.Info("Another operator holds the Lease", "holder", holder)
				stop()
				stop = nil
			}
			if e.OnHolder != nil {
				e.OnHolder(holder)
			}
		}
	}
	if stop != nil {
		stop()
	}
	release()
	running.Wait()
	return nil
}

// start runs lead and returns how to end it.
func start(ctx context.Context, lead func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lead(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (e *Election) elector(ctx context.Context, events chan<- struct{}) (*leaderelection.LeaderElector, error) {
	tell := func() {
		select {
		case events <- struct{}{}:
		case <-ctx.Done():
		}
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lock{log: e.Log, Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: LeaseName},
			Client:     e.Leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		}},
		LeaseDuration: e.Timing.Lease, RenewDeadline: e.Timing.Renew, RetryPeriod: e.Timing.Retry,
		ReleaseOnCancel: true, Name: LeaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { tell() },
			OnStoppedLeading: func() {}, // says only that renewing failed
			OnNewLeader:      func(string) { tell() },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the election: %w", err)
	}
	return elector, nil
}
