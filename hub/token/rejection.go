// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"errors"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/kubenest/kubenest/api/wire"
)

// Reason names why a token was refused. There are few, so it can label a metric.
type Reason string

// Reasons. Those up to ReasonClaims are answered alike, with
// wire.ClassUnauthorized.
const (
	// ReasonMalformed: not a JWT, or longer than wire.MaxToken.
	ReasonMalformed Reason = "malformed"
	// ReasonAlgorithm: an algorithm that is not accepted, or not the key's own.
	ReasonAlgorithm Reason = "algorithm"
	// ReasonUnknownKey: no key id, or one that is not in the keyset.
	ReasonUnknownKey Reason = "unknown_key"
	// ReasonSignature: the signature is not the key's.
	ReasonSignature Reason = "signature"
	// ReasonIssuer: of another installation, by a key that is accepted here.
	ReasonIssuer Reason = "issuer"
	// ReasonAudience: not meant for a hub.
	ReasonAudience Reason = "audience"
	// ReasonClaims: a claim is missing or impossible.
	ReasonClaims Reason = "claims"
	// ReasonNotYetValid: as wire.ClassNotYetValid.
	ReasonNotYetValid Reason = "not_yet_valid"
	// ReasonExpired: as wire.ClassExpired.
	ReasonExpired Reason = "expired"
)

// Rejection is why a token was refused. Reason and the claimed texts are for the
// hub's log and metrics only; the bearer gets Refusal.
type Rejection struct {
	Refusal *wire.Refusal
	Reason  Reason
	// Subject, KeyID and TokenID are what the token claims, unless it cannot be
	// read: bounded and printable, and not to be believed.
	Subject, KeyID, TokenID string
}

// Error is for the hub's log: it holds nothing of the token but the claimed ids.
func (r *Rejection) Error() string {
	return fmt.Sprintf("token rejected (%s): claimed cluster %q, key %q, token id %q", r.Reason, r.Subject, r.KeyID, r.TokenID)
}

// Unwrap returns the refusal to answer with.
func (r *Rejection) Unwrap() error { return r.Refusal }

func unauthorized() *wire.Refusal {
	return wire.Refuse(wire.ClassUnauthorized,
		"The token is not accepted here. Check that the operator has the token and the hub URL of one and the same connection Secret.")
}

// reject is for tokens whose signature does not verify.
func reject(reason Reason, raw string) *Rejection {
	r := &Rejection{Refusal: unauthorized(), Reason: reason}
	if claims, _, err := Peek(raw); err == nil {
		r.Subject, r.KeyID, r.TokenID = claims.ClusterID, claims.KeyID, claims.ID
	}
	return r
}

// reasonOf tells what the parser complained of. Its texts are not passed on:
// they can quote the token.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, errUnknownKey):
		return ReasonUnknownKey
	case errors.Is(err, errAlgorithm):
		return ReasonAlgorithm
	case errors.Is(err, errHeader), errors.Is(err, jwt.ErrTokenMalformed):
		return ReasonMalformed
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return ReasonAlgorithm
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		if errors.Is(err, jwt.ErrEd25519Verification) || errors.Is(err, jwt.ErrECDSAVerification) {
			return ReasonSignature
		}
		return ReasonAlgorithm
	default:
		return ReasonMalformed
	}
}

// printable bounds a claimed text and leaves of it what can stand in a log line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return '?'
	}, wire.Shorten(s, wire.MaxName))
}
