// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

// Options of an agent.
type Options struct {
	// Credentials are required.
	Credentials Credentials
	// ClusterUID is the UID of the cluster's kube-system namespace; required.
	ClusterUID string
	// Process is drawn anew each time this operator becomes the active one of its
	// cluster; New draws one if it is empty.
	Process string
	// OperatorVersion and Schema go into the hello.
	OperatorVersion string
	Schema          int
	// Deployments are what is deployed on this cluster; nil if nothing is, and then the
	// hello's schema is 0, and what the hub delivers is ignored.
	Deployments Deployments
	// Streams serves a byte stream that the hub opened, on a goroutine of its own. ctx
	// ends with the session. When it returns, the stream is closed. Nil: the hello says
	// that this operator takes no streams.
	Streams func(ctx context.Context, stream *socket.Stream)
	// Facts collects the cluster's figures. It is called by one goroutine, with a
	// deadline; nothing waits for it.
	Facts func(context.Context) wire.Facts
	// Dialing is how connections are made.
	Dialing Dialing
	// Watchdog is how long nothing may work before Alive fails; DefaultWatchdog if 0.
	Watchdog time.Duration
	// OnState is told when the agent connects, or stays away for another cause than
	// before. It must not block.
	OnState func(State)
	// Chance is a number of at least 0 and below 1, anew at each call; random if nil.
	Chance func() float64
	// Metrics may be shared by several agents; kept to itself if nil.
	Metrics *Metrics
	// Log gets what happens; never a credential.
	Log logr.Logger
}

// Agent keeps one session with the hub.
type Agent struct {
	// Static.
	o        Options
	log      logr.Logger
	dialing  Dialing
	metrics  *Metrics
	reporter *reporter
	status   *status
	watchdog time.Duration

	latest   atomic.Pointer[session] // that a hub welcomed; sessions are opened one by one
	applying chan struct{}           // holds one while a session uses Deployments

	streams sync.WaitGroup // that are served

	// Owned by Run.
	recheck bool // credentials changed while a move was under way

	mu     sync.Mutex
	stored *Token // the last one that was stored
}

// New makes an agent; Run makes it work.
func New(o Options) (*Agent, error) {
	switch {
	case o.Credentials == nil:
		return nil, errors.New("agent without credentials")
	case o.ClusterUID == "" || len(o.ClusterUID) > wire.MaxName:
		return nil, fmt.Errorf("cluster UID %.80q must be the UID of the kube-system namespace", o.ClusterUID)
	case len(o.Process) > wire.MaxName || len(o.OperatorVersion) > wire.MaxName:
		return nil, fmt.Errorf("process or operator version over %d bytes", wire.MaxName)
	}
	if o.Process == "" {
		o.Process = uuid.NewString()
	}
	if o.Chance == nil {
		o.Chance = rand.Float64
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.Watchdog <= 0 {
		o.Watchdog = DefaultWatchdog
	}
	return &Agent{
		o: o, log: o.Log, dialing: o.Dialing.withDefaults(), metrics: o.Metrics, watchdog: o.Watchdog,
		applying: make(chan struct{}, 1),
		reporter: newReporter(o.Facts), status: newStatus(time.Now(), o.OnState),
	}, nil
}

// Run dials, serves and backs off until ctx ends, and then says goodbye. It
// returns nil, once nothing of the agent is left. It may be called once.
func (a *Agent) Run(ctx context.Context) error {
	var collecting sync.WaitGroup
	collecting.Go(func() { a.reporter.run(ctx) })
	defer collecting.Wait()
	defer a.streams.Wait()
	pause(ctx, firstFacts, a.reporter.first)

	var (
		wait  backoff
		voice voice
		cuts  pattern
	)
	for ctx.Err() == nil {
		s, err := a.connect(ctx)
		if ctx.Err() != nil && s == nil {
			break
		}
		if err != nil {
			a.status.failed(err, time.Now())
		} else {
			voice.reset()
			if a.hold(ctx, s, &cuts) {
				wait.reset()
			}
		}
		a.backOff(ctx, wait.next(asRefusal(err), a.o.Chance()), &voice, err)
	}
	return nil
}

// backOff waits until the next attempt, or until credentials change.
func (a *Agent) backOff(ctx context.Context, wait time.Duration, voice *voice, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		voice.say(a.log, err, "retryIn", wait.Round(time.Millisecond).String())
	}
	if asRefusal(err) != nil {
		a.status.rest(time.Now().Add(wait))
	}
	a.metrics.backoff.Add(wait.Seconds())
	started := time.Now()
	pause(ctx, wait, a.o.Credentials.Changed())
	if ctx.Err() == nil && time.Since(started) < wait {
		a.log.Info("Credentials changed, connecting at once")
	}
}

// connect tries the candidates until one is welcomed. Only refusals that are about
// the token are worth another candidate.
func (a *Agent) connect(ctx context.Context) (*session, error) {
	identity, err := a.o.Credentials.Load(ctx)
	if err == nil && len(identity.Tokens) == 0 {
		err = errors.New("there is no token to connect with")
	}
	var t target
	if err == nil {
		t.url, err = Endpoint(identity.HubURL, a.dialing.InsecurePlainHTTP)
	}
	if err == nil {
		t.roots, err = identity.Authorities.Pool()
	}
	if err != nil {
		err = &Failure{Kind: FailedConfiguration, Err: err}
		a.metrics.attempts.WithLabelValues(resultOf(err)).Inc()
		return nil, err
	}
	var told error
	for _, token := range identity.Tokens {
		t.token = token
		s, err := a.open(ctx, t, identity)
		if ctx.Err() == nil {
			a.metrics.attempts.WithLabelValues(resultOf(err)).Inc()
		}
		if err == nil {
			return s, nil
		}
		told = moreTelling(told, err)
		if !aboutToken(err) {
			break
		}
		a.log.V(1).Info("Token refused, trying the next candidate if there is one", "token", token, "reason", err.Error())
	}
	return nil, told
}

// aboutToken reports whether another token may be welcomed.
func aboutToken(err error) bool {
	var r *wire.Refusal
	if !errors.As(err, &r) {
		return false
	}
	switch r.Class {
	case wire.ClassUnauthorized, wire.ClassNotYetValid, wire.ClassExpired, wire.ClassRevoked:
		return true
	default:
		return false
	}
}

// moreTelling picks what to show of two errors: a class that the hub gives to the
// bearer of a genuine token only says more than the uniform answer.
func moreTelling(first, second error) error {
	var r *wire.Refusal
	if first == nil || errors.As(first, &r) && r.Class == wire.ClassUnauthorized {
		return second
	}
	if errors.As(second, &r) && r.Class == wire.ClassUnauthorized {
		return first
	}
	return second
}

// asRefusal is the refusal in an error, nil if there is none.
func asRefusal(err error) *wire.Refusal {
	var (
		r *wire.Refusal
		f *Failure
	)
	if errors.As(err, &r) {
		return r
	}
	if errors.As(err, &f) {
		return f.refusal()
	}
	return nil
}

// schema is the version of StackDeploys that this operator takes; 0 if it takes none.
func (a *Agent) schema() int {
	if a.o.Deployments == nil {
		return 0
	}
	return a.o.Schema
}
