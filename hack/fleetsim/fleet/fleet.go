// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/version"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/credentials"
)

// Member is one simulated cluster.
type Member struct {
	// Name of its record.
	Name string
	// Given is what its operator was installed with.
	Given credentials.Given
}

// Options of a fleet.
type Options struct {
	// Members are the clusters.
	Members []Member
	// Moving is the share of the clusters, 0 to 1, whose usage moves a little at each
	// heartbeat, as a real cluster's does. The others' figures rest.
	Moving float64
	// Ramp spreads the operators' starts over this time.
	Ramp time.Duration
	// OnDelivered is told of each StackDeploy that comes to a cluster; nil tells nobody.
	// It must not block, and is called by many goroutines.
	OnDelivered func(Delivered)
	// Log takes what all agents have to say; nothing by default, since thousands of
	// them have much to say.
	Log logr.Logger
}

// Fleet is the operators of many clusters.
type Fleet struct {
	// Static.
	agents   []*agent.Agent
	ramp     time.Duration
	registry *prometheus.Registry

	mu        sync.Mutex
	began     time.Time
	complete  time.Time // when all were connected for the first time
	states    []agent.State
	connected int
	changed   chan struct{} // closed, and made anew, each time all are connected
}

// New makes a fleet; Run makes it work. It fails if this process may not open a
// connection for each cluster.
func New(o Options) (*Fleet, error) {
	if o.Moving < 0 || o.Moving > 1 {
		return nil, fmt.Errorf("share of moving clusters %v: give a number from 0 to 1", o.Moving)
	}
	if err := CheckDescriptors(len(o.Members)); err != nil {
		return nil, err
	}
	f := &Fleet{
		ramp: o.Ramp, registry: prometheus.NewRegistry(),
		states: make([]agent.State, len(o.Members)), changed: make(chan struct{}),
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	metrics := agent.NewMetrics(f.registry)
	for i, m := range o.Members {
		token, err := agent.ParseToken(m.Given.Token)
		if err != nil {
			return nil, fmt.Errorf("token of cluster %s: %w", m.Name, err)
		}
		a, err := agent.New(agent.Options{
			Credentials:     credentials.NewMemory(m.Given),
			ClusterUID:      clusterUID(token.Subject),
			OperatorVersion: version.String(),
			Facts:           newFigures(i, moves(i, o.Moving)).facts,
			Deployments:     newDeployments(m.Name, o.OnDelivered),
			Schema:          kubenestv1.StackDeploySchema,
			OnState:         func(s agent.State) { f.note(i, s) },
			Metrics:         metrics,
			Log:             o.Log.WithValues("cluster", m.Name),
		})
		if err != nil {
			return nil, fmt.Errorf("make operator of cluster %s: %w", m.Name, err)
		}
		f.agents = append(f.agents, a)
	}
	return f, nil
}

// clusterUID is the UID of the simulated kube-system namespace. It is the same in
// each run, because the hub pins it at the first connection.
func clusterUID(clusterID string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("kubenest fleet "+clusterID)).String()
}

// Run runs all operators until ctx ends, and returns when nothing of them is left.
func (f *Fleet) Run(ctx context.Context) error {
	f.mu.Lock()
	f.began = time.Now()
	f.mu.Unlock()
	var (
		group sync.WaitGroup
		errs  = make([]error, len(f.agents))
	)
	pace := time.NewTicker(max(f.ramp/time.Duration(max(len(f.agents), 1)), time.Nanosecond))
	defer pace.Stop()
	for i, a := range f.agents {
		if f.ramp > 0 {
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() { errs[i] = a.Run(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// note takes a change of one agent's state.
func (f *Fleet) note(i int, s agent.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch was := f.states[i].Connected; {
	case s.Connected && !was:
		f.connected++
	case !s.Connected && was:
		f.connected--
	}
	f.states[i] = s
	if f.connected < len(f.states) {
		return
	}
	if f.complete.IsZero() {
		f.complete = time.Now()
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// Await waits until every cluster is connected by a session that began after
// since, and returns when the last of them did. The error says how many are not,
// and what keeps one of them.
func (f *Fleet) Await(ctx context.Context, since time.Time) (last time.Time, err error) {
	for {
		f.mu.Lock()
		last, missing, trouble := f.missingLocked(since)
		changed := f.changed
		f.mu.Unlock()
		if missing == 0 {
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%d of %d clusters are not connected (one of them: %s): %w",
				missing, len(f.states), trouble, context.Cause(ctx))
		}
	}
}

func (f *Fleet) missingLocked(since time.Time) (last time.Time, missing int, trouble string) {
	for i := range f.states {
		s := &f.states[i]
		switch {
		case s.Connected && s.Since.After(since):
			if s.Since.After(last) {
				last = s.Since
			}
		case s.Connected:
			missing, trouble = missing+1, "its session is of before"
		default:
			missing, trouble = missing+1, s.Trouble()
		}
	}
	return last, missing, trouble
}
