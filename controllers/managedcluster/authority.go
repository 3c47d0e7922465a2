// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/token"
)

// DefaultTokenLifetime is a token's lifetime where the record names none.
const DefaultTokenLifetime = 365 * 24 * time.Hour

// Keys gives the signing keys in force.
type Keys interface{ Keyset() *token.Keyset }

// Replicas tells which hub replicas live.
type Replicas interface {
	// Alive reports whether a replica, as status.session names it, lives, and when
	// that may have changed.
	Alive(replica string) (alive bool, checkAgain time.Duration)
}

// AuthorityOptions are what an Authority works with.
type AuthorityOptions struct {
	// Client reads from the cache, with this package's indexes, and writes.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// Events records what happens to clusters.
	Events events.EventRecorder
	// Keys verify and sign tokens.
	Keys Keys
	// Replicas tells whether a session's holder lives.
	Replicas Replicas
	// Replica is this replica, as status.session names it.
	Replica string
	// Clock judges tokens and handovers.
	Clock clock.PassiveClock
}

// Authority answers the session server's questions about clusters from their
// records. It holds nothing but a bounded memory of refused contenders.
type Authority struct {
	AuthorityOptions
	writer     sessionWriter
	contenders *lru.Cache
}

// contendersRemembered bounds the memory of refused operators.
const contendersRemembered = 4096

// NewAuthority makes the hub's session.Authority.
func NewAuthority(o AuthorityOptions) *Authority {
	return &Authority{
		AuthorityOptions: o,
		writer:           sessionWriter{client: o.Client, events: o.Events},
		contenders:       lru.New(contendersRemembered),
	}
}

// Authenticate verifies a bearer token against the signing keys and its
// cluster's record.
func (a *Authority) Authenticate(ctx context.Context, bearer string) (session.Identity, error) {
	claims, expired, err := a.Keys.Keyset().Verify(bearer, a.Clock.Now())
	if err != nil {
		return session.Identity{}, err
	}
	id := identityOf(claims, expired)
	record, err := clusters.ByID(ctx, a.Client, claims.ClusterID)
	switch {
	case err != nil:
		return id, err
	case record == nil:
		return id, unknownCluster()
	}
	err = admit(record, &id)
	return id, err
}

// Renew makes a token of the same generation as the one that the session used.
func (a *Authority) Renew(ctx context.Context, id session.Identity) (string, session.Identity, error) {
	record, err := clusters.ByID(ctx, a.Client, id.ClusterID)
	switch {
	case err != nil:
		return "", id, err
	case record == nil:
		return "", id, unknownCluster()
	}
	if err := admit(record, &id); err != nil {
		return "", id, err
	}
	renewed, claims, err := a.Keys.Keyset().Mint(id.ClusterID, id.Generation, lifetimeOf(record), a.Clock.Now())
	if err != nil {
		return "", id, err
	}
	return renewed.Reveal(), identityOf(claims, false), nil
}

func identityOf(c token.Claims, expired bool) session.Identity {
	return session.Identity{
		ClusterID: c.ClusterID, Generation: c.Generation, TokenID: c.ID, KeyID: c.KeyID,
		IssuedAt: c.IssuedAt, ExpiresAt: c.ExpiresAt, Expired: expired,
	}
}

func lifetimeOf(record *kubenestv1.ManagedCluster) time.Duration {
	if t := record.Spec.Token; t != nil && t.Lifetime != nil {
		return t.Lifetime.Duration
	}
	return DefaultTokenLifetime
}
