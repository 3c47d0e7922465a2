// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// renewal is when a session's token is to be renewed.
type renewal struct {
	at       time.Time // zero is never
	underWay bool
	failures int
}

const (
	// A renewal that failed is tried again after renewalRetry, then twice that, up to
	// renewalRetryMax. A third of a token's life is left for it.
	renewalRetry    = time.Minute
	renewalRetryMax = time.Hour
)

// TwoThirds renews a token at two thirds of its life, and an expired one at once.
func TwoThirds(id Identity) time.Time {
	switch {
	case id.ExpiresAt.IsZero():
		return time.Time{}
	case id.Expired:
		return id.ExpiresAt
	}
	return id.IssuedAt.Add(id.ExpiresAt.Sub(id.IssuedAt) / 3 * 2)
}

// startBeating begins at a random moment: sessions that opened together don't have
// to beat together.
func (s *session) startBeating() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewal.at = s.server.o.RenewAt(s.info.Identity)
	first := rand.N(s.server.o.Timing.Heartbeat)
	s.timer = time.AfterFunc(first, s.beat)
}

// beat is what a session does of itself, once each heartbeat. It runs on a
// goroutine of its own.
func (s *session) beat() {
	now := time.Now()
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.server.door.another() // the reader has not left yet
	defer s.server.door.leave()
	s.timer.Reset(s.server.o.Timing.Heartbeat)
	changed := false
	if s.late != nil {
		changed = s.learnLocked(s.late)
		s.late = nil
	}
	if s.renewal.failures == 0 { // else it waits for its retry
		s.renewal.at = s.server.o.RenewAt(s.info.Identity)
	}
	renew := !s.renewal.underWay && !s.renewal.at.IsZero() && !now.Before(s.renewal.at)
	s.renewal.underWay = s.renewal.underWay || renew
	identity := s.info.Identity
	s.mu.Unlock()

	s.conn.Ping()
	if changed {
		s.tellFacts()
	}
	if renew {
		s.renew(identity)
	}
}

// renew hands the operator a new token, and remembers it when it is stored.
func (s *session) renew(identity Identity) {
	ctx, cancel := context.WithTimeout(s.server.ctx, wire.OpeningTimeout)
	token, renewed, err := s.server.o.Authority.Renew(ctx, identity)
	cancel()
	if err == nil {
		err = s.handOver(s.server.ctx, token)
	}
	s.mu.Lock()
	s.renewal.underWay = false
	if err == nil {
		s.info.Identity = renewed
		s.renewal = renewal{at: s.server.o.RenewAt(renewed)}
	} else {
		wait := min(renewalRetry<<min(s.renewal.failures, 10), renewalRetryMax)
		s.renewal.failures++
		s.renewal.at = time.Now().Add(wait)
	}
	s.mu.Unlock()

	switch {
	case err == nil:
		s.server.metrics.renewals.WithLabelValues(renewalStored).Inc()
		s.server.o.Logger.Info("Token renewed", append(s.log(), "kid", renewed.KeyID, "jti", renewed.TokenID, "expiresAt", renewed.ExpiresAt)...)
	case s.conn.Ended() != "":
		// Its next session is renewed instead.
	default:
		s.server.metrics.renewals.WithLabelValues(renewalFailed).Inc()
		s.server.o.Logger.Error(err, "Token not renewed, trying again later", append(s.log(), "kid", identity.KeyID, "jti", identity.TokenID, "expiresAt", identity.ExpiresAt)...)
	}
}
