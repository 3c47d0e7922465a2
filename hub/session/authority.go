// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// Identity is what a verified token says.
type Identity struct {
	// ClusterID is the token's subject.
	ClusterID string
	// Generation of the token; only a higher one takes its place.
	Generation int64
	// TokenID and KeyID name the token in logs.
	TokenID, KeyID string
	// IssuedAt and ExpiresAt bound the token's life, by the hub's clock.
	IssuedAt, ExpiresAt time.Time
	// Expired is set within the renewal grace: the session may be held, and its
	// token is renewed at once.
	Expired bool
}

// Authority is the hub's memory of its clusters. Errors that are not
// *wire.Refusal mean "cannot tell now", and are answered with wire.ClassBusy.
type Authority interface {
	// Authenticate verifies a bearer token, before the connection becomes a
	// WebSocket. A bearer that does not verify gets wire.ClassUnauthorized.
	Authenticate(ctx context.Context, bearer string) (Identity, error)
	// Claim decides whether the operator may have the session, and writes it down,
	// with an epoch higher than any before, before it returns.
	Claim(ctx context.Context, c Claim) (epoch int64, err error)
	// Renew makes a token of the same generation.
	Renew(ctx context.Context, id Identity) (token string, renewed Identity, err error)
}

// Claim is what an operator asks for with its hello.
type Claim struct {
	// Identity of the token.
	Identity Identity
	// Hello says which cluster and process it is.
	Hello wire.Hello
	// SessionID is the id that the session will have.
	SessionID string
	// ReceivedAt is when Hello came, by the hub's clock.
	ReceivedAt time.Time
	// Live is the session of that cluster that is held here, if any.
	Live *Info
}

// Info describes a session. It is a copy: nothing in it changes.
type Info struct {
	// ClusterID and SessionID name the session.
	ClusterID, SessionID string
	// Process is the operator process, ClusterUID the kube-system namespace's UID.
	Process, ClusterUID string
	// Epoch counts the cluster's sessions.
	Epoch int64
	// Identity is the token's in use.
	Identity Identity
	// OperatorVersion is the operator's release.
	OperatorVersion string
	// Schema is the version of the operator's StackDeploy schema.
	Schema int
	// Streams says that the operator accepts byte streams.
	Streams bool
	// Facts are the newest figures, of FactsAt.
	Facts   wire.Facts
	FactsAt time.Time
	// ConnectedAt is when the session was welcomed, LastHeard when the last frame
	// came.
	ConnectedAt, LastHeard time.Time
	// ClockOffset is how far the operator's clock is ahead. It is shown, and never
	// acted on.
	ClockOffset time.Duration
}
