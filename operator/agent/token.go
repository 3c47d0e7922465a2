// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/kubenest/kubenest/api/wire"
)

// Token is a cluster's JWT as its bearer sees it. The claims are read without
// checking the signature: only the hub judges tokens, by its own clock. Printing
// or logging a Token never shows what it is made of.
type Token struct {
	raw string

	// Issuer and Subject say whose it is: the hub's and the cluster's id.
	Issuer, Subject string
	// ID and KeyID are what may be logged of a token.
	ID, KeyID string
	// Generation orders tokens: the hub revokes those below a floor.
	Generation int64
	// Expires is zero for a token without an end.
	Expires time.Time
}

// errNotAToken says nothing of the cause: the parser's errors quote their input.
var errNotAToken = errors.New("it is not a JSON Web Token: copy the whole value of the key \"token\", and nothing else")

type claims struct {
	jwt.RegisteredClaims
	Generation int64 `json:"gen"`
}

// ParseToken reads a token. The error never quotes it.
func ParseToken(raw string) (Token, error) {
	if len(raw) > wire.MaxToken {
		return Token{}, errNotAToken
	}
	var c claims
	parsed, _, err := jwt.NewParser().ParseUnverified(raw, &c)
	if err != nil || c.Issuer == "" || c.Subject == "" {
		return Token{}, errNotAToken
	}
	t := Token{raw: raw, Issuer: c.Issuer, Subject: c.Subject, ID: c.ID, Generation: c.Generation}
	t.KeyID, _ = parsed.Header["kid"].(string)
	if c.ExpiresAt != nil {
		t.Expires = c.ExpiresAt.Time
	}
	return t, nil
}

// Raw is the token itself, for the Authorization header and for storing.
func (t Token) Raw() string { return t.raw }

// String does not show the token.
func (t Token) String() string { return "[redacted]" }

// GoString does not show the token either.
func (t Token) GoString() string { return t.String() }

// MarshalLog is what a logger shows of a token.
func (t Token) MarshalLog() any {
	shown := map[string]any{"jti": t.ID, "kid": t.KeyID, "generation": t.Generation}
	if !t.Expires.IsZero() {
		shown["expires"] = t.Expires.UTC().Format(time.RFC3339)
	}
	return shown
}

// sameOwner reports whether two tokens are from one hub for one cluster.
func (t Token) sameOwner(other Token) bool {
	return t.Issuer == other.Issuer && t.Subject == other.Subject
}

// newer orders tokens: the higher generation first, and of one generation the one
// that lasts longer.
func (t Token) newer(other Token) bool {
	switch {
	case t.Generation != other.Generation:
		return t.Generation > other.Generation
	case t.Expires.IsZero() || other.Expires.IsZero():
		return t.Expires.IsZero() && !other.Expires.IsZero()
	default:
		return t.Expires.After(other.Expires)
	}
}

// Candidates are the tokens to try, in order: the one that the chart gives and the
// one that the hub handed over, if it is from the same hub for the same cluster. A
// reinstallation under another record must not come back as the old one.
func Candidates(chart Token, stored *Token) []Token {
	switch {
	case stored == nil, !stored.sameOwner(chart), stored.raw == chart.raw:
		return []Token{chart}
	case stored.newer(chart):
		return []Token{*stored, chart}
	default:
		return []Token{chart, *stored}
	}
}
