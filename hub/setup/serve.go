// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubenest/kubenest/api/wire"
)

const (
	// maxHeaderBytes holds a token of wire.MaxToken and what proxies add.
	maxHeaderBytes = 16 << 10
	// acceptEvery is how often it is judged whether sessions may be accepted.
	acceptEvery = time.Second
)

// serve listens for operators. It begins when the caches are there, since a
// token whose record is not in them yet would be refused.
func (h *hub) serve(ctx context.Context) error {
	if !h.manager.GetCache().WaitForCacheSync(ctx) {
		return nil
	}
	var config *tls.Config
	if h.tls != nil {
		config = h.tls.TLSConfig()
	}
	listener, err := h.options.Server.listen(ctx, config)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(wire.Path, h.sessions)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: wire.OpeningTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          quietLog(h.log.WithName("http")),
	}
	// An answer here is a refusal: nobody has a second request to send at once, and
	// who waits holds a file descriptor.
	server.SetKeepAlivesEnabled(false)
	h.log.Info("Listening for operators", "address", listener.Addr().String(), "externalURL", h.options.Server.ExternalURL)
	go wait.UntilWithContext(ctx, h.judgeAccepting, acceptEvery)
	unwatch := context.AfterFunc(ctx, func() {
		// Hijacked connections are the session server's to close.
		_ = server.Close()
	})
	defer unwatch()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve operators: %w", err)
	}
	return nil
}

// judgeAccepting refuses new sessions while this replica cannot make itself
// known: others would take it for dead, and its sessions for orphans. Sessions
// that it holds stay.
func (h *hub) judgeAccepting(context.Context) {
	if h.leaving.Load() {
		return
	}
	if h.keeper.CanRenew() {
		h.sessions.SetAccepting(true, "")
		return
	}
	h.sessions.SetAccepting(false, "this hub replica cannot reach its API server")
}

func (h *hub) bundle() string {
	if h.tls == nil {
		return ""
	}
	return h.tls.Bundle()
}

// onChanged lets the registration controllers of successive leaders hear of
// changed keys and CA bundles.
func (h *hub) onChanged() func(func()) (cancel func()) {
	var mu sync.Mutex
	next, subscribers := 0, map[int]func(){}
	notify := func() {
		mu.Lock()
		called := make([]func(), 0, len(subscribers))
		for _, f := range subscribers {
			called = append(called, f)
		}
		mu.Unlock()
		for _, f := range called {
			f()
		}
	}
	h.keys.OnChange(notify)
	if h.tls != nil {
		h.tls.OnBundleChange(func(string) { notify() })
	}
	return func(f func()) func() {
		mu.Lock()
		defer mu.Unlock()
		id := next
		next++
		subscribers[id] = f
		return func() {
			mu.Lock()
			defer mu.Unlock()
			delete(subscribers, id)
		}
	}
}
