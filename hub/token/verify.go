// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/kubenest/kubenest/api/wire"
)

const (
	// Leeway is how far a token's times may be off before it is refused.
	Leeway = time.Minute
	// RenewalGrace is how long after its expiry a token may still be renewed: a
	// shop that was closed for a season comes back by itself.
	RenewalGrace = 90 * 24 * time.Hour
)

// methods are the signature algorithms that keys of a Keyset can have.
var methods = []string{jwt.SigningMethodEdDSA.Alg(), jwt.SigningMethodES256.Alg()}

// Verify checks a token's signature, issuer, audience and times. renew is true
// for a token that expired within RenewalGrace: it is accepted, and has to be
// replaced.
//
// The error is a *Rejection, which holds the *wire.Refusal to answer with and,
// for the hub's own log, why. The refusal is the same for every token whose
// signature does not verify.
func (k *Keyset) Verify(raw string, now time.Time) (claims Claims, renew bool, err error) {
	if raw == "" || len(raw) > wire.MaxToken {
		return Claims{}, false, reject(ReasonMalformed, raw)
	}
	var body payload
	// The claims are checked below: they decide what the bearer may be told.
	parser := jwt.NewParser(jwt.WithValidMethods(methods), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())
	parsed, err := parser.ParseWithClaims(raw, &body, k.find)
	if err != nil {
		return Claims{}, false, reject(reasonOf(err), raw)
	}
	claims = body.claims(parsed.Header)
	renew, rejection := k.check(&body, now)
	if rejection != nil {
		rejection.Subject, rejection.KeyID, rejection.TokenID = printable(claims.ClusterID), printable(claims.KeyID), printable(claims.ID)
		return Claims{}, false, rejection
	}
	return claims, renew, nil
}

var (
	errUnknownKey = errors.New("unknown key")
	errAlgorithm  = errors.New("algorithm is not the key's")
	errHeader     = errors.New("unsupported header")
)

// find returns the key that a token's header names, if its algorithm is the
// key's own.
func (k *Keyset) find(t *jwt.Token) (any, error) {
	if _, critical := t.Header["crit"]; critical { // RFC 7515: extensions that must be understood
		return nil, errHeader
	}
	kid, _ := t.Header["kid"].(string)
	named, ok := k.keys[kid]
	switch {
	case !ok:
		return nil, errUnknownKey
	case t.Method.Alg() != named.method.Alg():
		return nil, errAlgorithm
	}
	return named.public, nil
}

// check judges the claims of a token whose signature verifies.
func (k *Keyset) check(body *payload, now time.Time) (renew bool, rejection *Rejection) {
	if reason := k.misfit(body); reason != "" {
		return false, &Rejection{Refusal: unauthorized(), Reason: reason}
	}
	begins, expires := body.NotBefore.Time, body.ExpiresAt.Time
	if body.IssuedAt.After(begins) {
		begins = body.IssuedAt.Time
	}
	switch {
	case begins.Sub(now) > Leeway:
		return false, &Rejection{Reason: ReasonNotYetValid, Refusal: wire.Refuse(wire.ClassNotYetValid,
			"The token is valid from %s on, and the hub's clock says %s. If that is wrong, correct the hub's clock; the operator's does not matter.",
			stamp(begins), stamp(now)).After(begins.Sub(now))}
	case now.Sub(expires) >= RenewalGrace:
		return false, &Rejection{Reason: ReasonExpired, Refusal: wire.Refuse(wire.ClassExpired,
			"The token expired at %s, too long ago to be renewed. Install the operator again with the values of the cluster's present connection Secret.",
			stamp(expires))}
	}
	return now.Sub(expires) >= Leeway, nil
}

// misfit says what makes a genuine token one that this hub did not issue for
// this use; empty if nothing does.
func (k *Keyset) misfit(body *payload) Reason {
	switch {
	case body.Issuer != k.issuer:
		return ReasonIssuer
	case len(body.Audience) != 1 || body.Audience[0] != Audience:
		return ReasonAudience
	case body.Subject == "" || len(body.Subject) > wire.MaxName,
		body.ID == "" || len(body.ID) > wire.MaxName,
		body.Generation < 1,
		body.IssuedAt == nil, body.NotBefore == nil, body.ExpiresAt == nil:
		return ReasonClaims
	}
	return ""
}

func (p *payload) claims(header map[string]any) Claims {
	c := Claims{ClusterID: p.Subject, Generation: p.Generation, ID: p.ID}
	c.KeyID, _ = header["kid"].(string)
	if p.IssuedAt != nil {
		c.IssuedAt = p.IssuedAt.UTC()
	}
	if p.ExpiresAt != nil {
		c.ExpiresAt = p.ExpiresAt.UTC()
	}
	return c
}

// Peek reads a token without checking anything, for decisions that have to fall
// before the signature is checked, such as whom to slow down. Its texts are
// bounded and printable; nothing else may rely on them.
func Peek(raw string) (claims Claims, issuer string, err error) {
	if len(raw) > wire.MaxToken {
		return Claims{}, "", errTooLong
	}
	var body payload
	parsed, _, err := jwt.NewParser().ParseUnverified(raw, &body)
	if err != nil {
		return Claims{}, "", fmt.Errorf("read token: %w", errors.New(string(ReasonMalformed)))
	}
	claims = body.claims(parsed.Header)
	claims.ClusterID, claims.ID, claims.KeyID = printable(claims.ClusterID), printable(claims.ID), printable(claims.KeyID)
	return claims, printable(body.Issuer), nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
