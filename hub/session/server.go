// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/kubenest/kubenest/api/wire"
)

const (
	// readBuffer is small: what is larger is read past it. There is one a session.
	readBuffer = 512
	// writeBuffer fits most messages. A few are shared by all sessions.
	writeBuffer = 4 << 10
)

// Options of a Server.
type Options struct {
	// Authority is the hub's memory of its clusters.
	Authority Authority
	// Replica and HubVersion are said in the welcome.
	Replica, HubVersion string
	// Timing of the sessions; the zero value is wire.DefaultTiming.
	Timing wire.Timing
	// Limits on what connections and sessions may use; those that are zero are
	// DefaultLimits.
	Limits Limits
	// Logger gets what happens, and never a token.
	Logger logr.Logger
	// Metrics are registered here; nil registers none.
	Metrics prometheus.Registerer
	// TrustedProxies are those whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// RenewAt says when a token is to be renewed, zero for never. It is asked at each
	// beat, so that it may change its mind, and must not block; nil is TwoThirds.
	RenewAt func(Identity) time.Time
	// Deployments takes what operators say of deployments; nil drops it.
	Deployments Deployments
}

// Server accepts and holds the sessions of operators.
type Server struct {
	// Static.
	o           Options
	upgrader    websocket.Upgrader
	admission   *admission
	connections *budgets // by cluster
	failures    *budgets // by failureKey
	said        *rate.Limiter
	registry    *Registry
	metrics     *metrics
	ctx         context.Context //nolint:containedctx // the life of the server: sessions outlive the requests that open them
	stop        context.CancelFunc

	draining atomic.Pointer[wire.Moving] // what each session is told while Drain runs
	door     door
}

// New makes a server that accepts sessions.
func New(o Options) (*Server, error) {
	if o.Timing == (wire.Timing{}) {
		o.Timing = wire.DefaultTiming
	}
	if err := o.Timing.Validate(); err != nil {
		return nil, fmt.Errorf("session timing: %w", err)
	}
	if o.Authority == nil {
		return nil, errors.New("a session server needs an authority")
	}
	if o.RenewAt == nil {
		o.RenewAt = TwoThirds
	}
	o.Limits = o.Limits.orDefaults()
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register session metrics: %w", err)
	}
	s := &Server{
		o: o,
		upgrader: websocket.Upgrader{
			HandshakeTimeout: wire.OpeningTimeout,
			ReadBufferSize:   readBuffer,
			WriteBufferSize:  writeBuffer,
			WriteBufferPool:  &sync.Pool{},
			Subprotocols:     []string{wire.Subprotocol},
		},
		admission:   newAdmission(o.Limits),
		connections: newBudgets(o.Limits.Connections),
		failures:    newBudgets(o.Limits.Failures),
		said:        rate.NewLimiter(strangersLogged, 10*strangersLogged),
		registry:    newRegistry(m),
		metrics:     m,
	}
	s.upgrader.Error = s.notUpgraded
	s.ctx, s.stop = context.WithCancel(context.Background()) //nolint:forbidigo // ends with Close
	return s, nil
}

// Registry of the sessions held here.
func (s *Server) Registry() *Registry { return s.registry }

// SetAccepting says whether new sessions are accepted; why is for the operators
// that are not, as in "the hub is starting". Sessions that are held stay.
func (s *Server) SetAccepting(ok bool, why string) {
	if ok {
		why = ""
	} else if why == "" {
		why = "it takes none now"
	}
	if s.door.set(why) {
		s.o.Logger.Info("Changed whether sessions are accepted", "accepting", ok, "reason", why)
	}
}

// SetTrust sets the CA bundle that welcomes carry. A change is sent to every
// session.
func (s *Server) SetTrust(bundle string) {
	for _, held := range s.registry.setTrust(bundle) {
		held.trust(bundle)
	}
}

// Close ends all sessions as wire.EndMoving, and accepts no more. It returns when
// nothing of them is left, or with ctx's error.
func (s *Server) Close(ctx context.Context) error {
	s.door.close()
	s.stop()
	for _, held := range s.registry.sessions() {
		held.conn.Close(wire.EndMoving, "the hub is stopping")
	}
	gone := make(chan struct{})
	go func() {
		s.door.inside.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for sessions to end: %w", ctx.Err())
	}
}
