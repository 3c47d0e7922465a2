// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/serving"
	"github.com/kubenest/kubenest/hub/token"
)

// Kind of server.
type Kind string

// Kinds of servers.
const (
	// Bare is gorilla as its examples use it.
	Bare Kind = "bare"
	// Frugal is gorilla with all that saves memory.
	Frugal Kind = "frugal"
	// Kubenest is the hub's session server.
	Kubenest Kind = "kubenest"
)

// Options of a server.
type Options struct {
	Kind Kind
	// Address for sessions and Control for the one who measures, host:port.
	Address, Control string
	// CertFile and KeyFile are the certificate, which verifies itself.
	CertFile, KeyFile string
}

const (
	issuer    = "bench"
	tokenLife = 365 * 24 * time.Hour
	// maxHeaderBytes and idle are as the hub's.
	maxHeaderBytes = 16 << 10
	idle           = time.Minute
)

// Run serves until ctx ends.
func Run(ctx context.Context, o Options) error {
	source, err := serving.Files(o.CertFile, o.KeyFile, o.CertFile)
	if err != nil {
		return err
	}
	keys, err := newKeys()
	if err != nil {
		return err
	}
	var sessions sessionServer
	switch o.Kind {
	case Bare, Frugal:
		sessions = newBare(o.Kind == Frugal)
	case Kubenest:
		if sessions, err = newKubenest(keys, source.Bundle()); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown kind of server %q", o.Kind)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return fmt.Errorf("listen for sessions: %w", err)
	}
	control, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Control)
	if err != nil {
		return fmt.Errorf("listen for control: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(wire.Path, sessions)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serve(ctx, tls.NewListener(listener, source.TLSConfig()), mux)
	})
	group.Go(func() error { return serve(ctx, control, (&controller{sessions: sessions, keys: keys}).handler()) })
	return group.Wait()
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: wire.OpeningTimeout, IdleTimeout: idle, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // the process ends, and all sessions with it
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func newKeys() (*token.Keyset, error) {
	kid, block, err := token.NewKey(time.Now())
	if err != nil {
		return nil, err
	}
	return token.Parse(issuer, map[string][]byte{kid: block})
}

// mint makes tokens for clusters that have never been seen.
func mint(keys *token.Keyset, count int) ([]string, error) {
	tokens := make([]string, count)
	for i := range tokens {
		t, _, err := keys.Mint(uuid.NewString(), 1, tokenLife, time.Now())
		if err != nil {
			return nil, err
		}
		tokens[i] = t.Reveal()
	}
	return tokens, nil
}
