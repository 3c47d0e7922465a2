// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sessiontest has a hub's memory and operators for tests of what works
// with sessions. Connections are pipes in memory, so they work in a synctest
// bubble, and nothing listens.
package sessiontest

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

// Authority is a hub's memory in memory. Set a function to decide otherwise.
type Authority struct {
	OnAuthenticate func(ctx context.Context, bearer string) (session.Identity, error)
	OnClaim        func(ctx context.Context, c session.Claim) (epoch int64, err error)
	OnRenew        func(ctx context.Context, id session.Identity) (token string, renewed session.Identity, err error)

	mu     sync.Mutex
	tokens map[string]session.Identity
	epochs map[string]int64
	claims []session.Claim
}

// Issue makes a token for an identity.
func (a *Authority) Issue(id session.Identity) (token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tokens == nil {
		a.tokens = map[string]session.Identity{}
	}
	token = rand.Text()
	a.tokens[token] = id
	return token
}

// Claims made so far, refused ones too.
func (a *Authority) Claims() []session.Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]session.Claim(nil), a.claims...)
}

// Authenticate knows the tokens that were issued.
func (a *Authority) Authenticate(ctx context.Context, bearer string) (session.Identity, error) {
	if a.OnAuthenticate != nil {
		return a.OnAuthenticate(ctx, bearer)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id, ok := a.tokens[bearer]
	if !ok {
		return session.Identity{}, wire.Refuse(wire.ClassUnauthorized, "The token is not accepted here.")
	}
	return id, nil
}

// Claim counts a cluster's epochs.
func (a *Authority) Claim(ctx context.Context, c session.Claim) (epoch int64, err error) {
	a.mu.Lock()
	a.claims = append(a.claims, c)
	if a.epochs == nil {
		a.epochs = map[string]int64{}
	}
	a.epochs[c.Identity.ClusterID]++
	epoch = a.epochs[c.Identity.ClusterID]
	a.mu.Unlock()
	if a.OnClaim != nil {
		return a.OnClaim(ctx, c)
	}
	return epoch, nil
}

// Renew issues a token that lives as long as the one before.
func (a *Authority) Renew(ctx context.Context, id session.Identity) (token string, renewed session.Identity, err error) {
	if a.OnRenew != nil {
		return a.OnRenew(ctx, id)
	}
	life := id.ExpiresAt.Sub(id.IssuedAt)
	now := time.Now()
	id.IssuedAt, id.ExpiresAt, id.Expired = now, now.Add(life), false
	id.TokenID += "+"
	return a.Issue(id), id, nil
}
