// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kubenest/kubenest/operator/agent"
)

// off is an address that turns a server off.
const off = "0"

// active is the agent of this process, if it is the one that dials.
type active struct {
	started time.Time

	mu     sync.Mutex
	agent  *agent.Agent
	holder string // of the Lease; empty while that is not known
}

func (a *active) set(now *agent.Agent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.agent = now
}

func (a *active) setHolder(identity string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holder = identity
}

func (a *active) get() (now *agent.Agent, holder string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.agent, a.holder
}

// ready fails when there is no session. A pod that stands by is ready: a rollout
// waits for that before it stops the one that holds the Lease.
func (a *active) ready() error {
	now, holder := a.get()
	switch {
	case now != nil:
		return now.Ready()
	case holder == "" && time.Since(a.started) > agent.ReadyGrace:
		return errors.New("the operator's Lease can not be read: does the API server answer, and may the operator use Leases in its namespace?")
	default:
		return nil
	}
}

// alive fails when a restart is worth a try.
func (a *active) alive() error {
	if now, _ := a.get(); now != nil {
		return now.Alive()
	}
	return nil
}

func probes(a *active) http.Handler {
	handler := func(check func() error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			text := "ok"
			if err := check(); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				text = err.Error()
			}
			_, _ = fmt.Fprintln(w, text) // whoever asked has gone
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", handler(a.alive))
	mux.Handle("GET /readyz", handler(a.ready))
	return mux
}

// serve answers on an address until ctx ends.
func serve(ctx context.Context, address string, handler http.Handler) error {
	if address == off {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	const timeout = 10 * time.Second
	server := &http.Server{Handler: handler, ReadHeaderTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", address, err)
	}
	return nil
}
