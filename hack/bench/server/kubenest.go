// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/setup"
	"github.com/kubenest/kubenest/hub/token"
)

// kubenest is the hub's session server, over a memory in place of Kubernetes.
type kubenest struct {
	*session.Server
	registry *prometheus.Registry
}

// unlimited messages: a saturated session would be ended as flooding otherwise,
// after the heartbeats over its budget had only been decoded.
var unlimited = socket.Budget{PerSecond: 1e9, Burst: 1e9}

func newKubenest(keys *token.Keyset, bundle string) (*kubenest, error) {
	k := &kubenest{registry: prometheus.NewRegistry()}
	var err error
	k.Server, err = session.New(session.Options{
		Authority: &authority{keys: keys, epochs: map[string]int64{}},
		Replica:   "bench", HubVersion: "bench",
		Limits:  session.Limits{Messages: unlimited, Heartbeats: unlimited},
		Logger:  setup.Logger("info").WithName("session"),
		Metrics: k.registry,
	})
	if err != nil {
		return nil, err
	}
	k.SetTrust(bundle)
	// A hub has one that listens.
	k.Registry().Subscribe(func(session.Event) {})
	return k, nil
}

func (k *kubenest) counts() (sessions, heartbeats int64, err error) {
	families, err := k.registry.Gather()
	if err != nil {
		return 0, 0, fmt.Errorf("gather metrics: %w", err)
	}
	for _, family := range families {
		if family.GetName() != "kubenest_hub_session_messages_received_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == "heartbeat" {
				heartbeats = int64(m.GetCounter().GetValue())
			}
		}
	}
	return int64(k.Registry().Len()), heartbeats, nil
}

// authority is a hub's memory in memory. Tokens are verified as a hub does.
type authority struct {
	keys *token.Keyset

	mu     sync.Mutex
	epochs map[string]int64
}

func (a *authority) Authenticate(_ context.Context, bearer string) (session.Identity, error) {
	c, expired, err := a.keys.Verify(bearer, time.Now())
	return identityOf(c, expired), err
}

func (a *authority) Claim(_ context.Context, c session.Claim) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epochs[c.Identity.ClusterID]++
	return a.epochs[c.Identity.ClusterID], nil
}

func (a *authority) Renew(_ context.Context, id session.Identity) (string, session.Identity, error) {
	renewed, c, err := a.keys.Mint(id.ClusterID, id.Generation, tokenLife, time.Now())
	return renewed.Reveal(), identityOf(c, false), err
}

func identityOf(c token.Claims, expired bool) session.Identity {
	return session.Identity{
		ClusterID: c.ClusterID, Generation: c.Generation, TokenID: c.ID, KeyID: c.KeyID,
		IssuedAt: c.IssuedAt, ExpiresAt: c.ExpiresAt, Expired: expired,
	}
}

// both servers.
type sessionServer interface {
	http.Handler
	counts() (sessions, heartbeats int64, err error)
}
