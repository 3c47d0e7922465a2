// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/kubenest/kubenest/operator/chart"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

const (
	// maxWork is how many releases Helm may be at work on, and workShare how many of them
	// in one namespace; most of the time it waits until something is ready. As many may
	// be removed at the same time.
	maxWork   = 64
	workShare = 4
	// maxBusy is how many of these may fetch, render and apply at a time.
	maxBusy   = 4
	busyShare = 2
	// maxRendering is how many charts are rendered at a time, one for a namespace: each
	// in a process that may take half a GiB.
	maxRendering = 2
	// grace is how long Helm may take beyond the timeout, to record what happened.
	grace = 2 * time.Minute
	// Clients are not held back more than API priority and fairness does.
	clientQPS   = 50
	clientBurst = 100
)

var (
	// helmBackoff is between tries of what Helm could not install.
	helmBackoff = backoff{first: 5 * time.Minute, last: time.Hour}
	// planBackoff is between tries of what never got as far as Helm.
	planBackoff = backoff{first: 15 * time.Second, last: 10 * time.Minute}
)

// Options of a Manager. All but Changed are needed.
type Options struct {
	// Config is the operator's own; everything is done as a Project's ServiceAccount.
	Config *rest.Config
	// Mapper of the cluster's kinds.
	Mapper meta.RESTMapper
	// Rules that objects are checked against.
	Rules *stack.Rules
	// Charts fetches them.
	Charts *chart.Fetcher
	// Clock tells when a retry is due.
	Clock clock.PassiveClock
	// Log gets what Helm says, at V(1).
	Log logr.Logger
	// Changed is told when work on an addon of this StackDeploy has ended. It must not
	// block.
	Changed func(types.NamespacedName)
}

// Manager installs addons by Helm. It is safe for concurrent use. Only one may be
// active on a cluster: it takes what others have begun for abandoned.
type Manager struct {
	// Static.
	config  *rest.Config
	mapper  meta.RESTMapper
	rules   *stack.Rules
	charts  *chart.Fetcher
	clock   clock.PassiveClock
	log     logr.Logger
	changed func(types.NamespacedName)
	// Bounds of what is done at a time.
	work      *slots // installs, upgrades and rollbacks
	removal   *slots
	busy      *slots // those of both that do more than wait
	rendering *slots

	mu      sync.Mutex
	stopped bool
	jobs    sync.WaitGroup
	states  map[types.NamespacedName]*state // by namespace and name of the release
}

// state is what is known of a release beside what is stored.
type state struct {
	job *job // nil while nothing is done
	// Of the last try that did not get as far as Helm.
	failed   *stack.Problem
	digest   string
	failures int
	failedAt time.Time
	// What is deployed, and which resource versions of it were as they should be.
	deployed *deployed
	// leaving are objects of a release that was uninstalled, until they are gone.
	leaving []*unstructured.Unstructured
}

// deployed is a revision's manifest.
type deployed struct {
	version int
	chart   string
	objects []*unstructured.Unstructured
	clean   map[string]string // resource versions by key
	fixes   map[string]int    // corrections by key
}

// job is something that is done in the background.
type job struct {
	digest string
	cancel context.CancelCauseFunc
	// What is being applied; nil until it is known.
	objects []*unstructured.Unstructured
	chart   string
}

var (
	// errStopping: the operator stops. What Helm was at is taken up by the next one.
	errStopping = errors.New("the operator stops")
	// errSuperseded: something else is wanted now.
	errSuperseded = errors.New("something else is wanted now")
)

// New makes a Manager. Start must run for it to work in the background.
func New(o *Options) *Manager {
	m := &Manager{
		config: rest.CopyConfig(o.Config), mapper: o.Mapper, rules: o.Rules, charts: o.Charts, clock: o.Clock, log: o.Log,
		changed: o.Changed, states: map[types.NamespacedName]*state{},
		work: newSlots(maxWork, workShare), removal: newSlots(maxWork, workShare), busy: newSlots(maxBusy, busyShare),
		rendering: newSlots(maxRendering, 1),
	}
	m.config.QPS, m.config.Burst = clientQPS, clientBurst
	if m.changed == nil {
		m.changed = func(types.NamespacedName) {}
	}
	return m
}

// Start ends, when ctx does, what is done in the background, and waits for it.
func (m *Manager) Start(ctx context.Context) error {
	<-ctx.Done()
	m.mu.Lock()
	m.stopped = true
	for _, s := range m.states {
		if s.job != nil {
			s.job.cancel(errStopping)
		}
	}
	m.mu.Unlock()
	m.jobs.Wait()
	return nil
}

// NeedLeaderElection makes the Manager run where releases are installed.
func (m *Manager) NeedLeaderElection() bool { return true }

// stateOf is the state of a release, which is only used with mu held.
func (m *Manager) stateOf(key types.NamespacedName) *state {
	s := m.states[key]
	if s == nil {
		s = &state{}
		m.states[key] = s
	}
	return s
}

// begin does something in the background, unless something is done already.
func (m *Manager) begin(ctx context.Context, a *delivery.Addon, digest string, do func(context.Context) error) {
	key := keyOf(a)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stateOf(key)
	if s.job != nil || m.stopped {
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.job = &job{digest: digest, cancel: cancel}
	slots := m.work
	if digest == removing {
		slots = m.removal
	}
	m.jobs.Go(func() {
		err := slots.with(ctx, key.Namespace, func() error { return do(ctx) })
		cancel(nil)
		m.ended(a, digest, err)
	})
}

// ended keeps what can not be read from what is stored.
func (m *Manager) ended(a *delivery.Addon, digest string, err error) {
	m.mu.Lock()
	s := m.stateOf(keyOf(a))
	s.job = nil
	switch {
	case err == nil:
		s.failed, s.failures = nil, 0
	case errors.Is(err, errStopping), errors.Is(err, errSuperseded):
	default:
		if s.digest != digest {
			s.failures = 0
		}
		s.digest, s.failedAt, s.failures = digest, m.clock.Now(), s.failures+1
		s.failed = problemOf(err)
		if s.failed == nil {
			s.failed = unexpected(err)
		}
	}
	m.mu.Unlock()
	m.log.V(1).Info("Work on release ended", "release", releaseName(a), "namespace", a.Target.Namespace, "failed", err != nil)
	m.changed(a.Stack)
}

func keyOf(a *delivery.Addon) types.NamespacedName {
	return types.NamespacedName{Namespace: a.Target.Namespace, Name: releaseName(a)}
}
