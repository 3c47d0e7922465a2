// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/kubenest/kubenest/api/wire"
)

// Audience is the aud of every token, so that a token for another of the
// issuer's audiences is of no use here.
const Audience = "kubenest-hub"

// Claims are what a token says.
type Claims struct {
	// ClusterID is the sub claim.
	ClusterID string
	// Generation is compared with the record's floor; it starts at 1.
	Generation int64
	// ID is the jti claim: the token's name in logs.
	ID string
	// KeyID names the key that signed.
	KeyID string
	// IssuedAt and ExpiresAt have a resolution of one second.
	IssuedAt, ExpiresAt time.Time
}

// payload is the JWT's body.
type payload struct {
	jwt.RegisteredClaims
	Generation int64 `json:"gen"`
}

// Mint signs a token for a cluster with the newest key, valid from now on for
// lifetime.
func (k *Keyset) Mint(clusterID string, generation int64, lifetime time.Duration, now time.Time) (Token, Claims, error) {
	switch {
	case clusterID == "" || len(clusterID) > wire.MaxName:
		return Token{}, Claims{}, fmt.Errorf("mint token: cluster id must have 1 to %d bytes", wire.MaxName)
	case generation < 1:
		return Token{}, Claims{}, fmt.Errorf("mint token for cluster %s: generation %d, want at least 1", clusterID, generation)
	case lifetime < time.Second:
		return Token{}, Claims{}, fmt.Errorf("mint token for cluster %s: lifetime %v, want at least 1s", clusterID, lifetime)
	}
	now = now.UTC().Truncate(time.Second)
	claims := Claims{
		ClusterID: clusterID, Generation: generation, ID: rand.Text(), KeyID: k.signer,
		IssuedAt: now, ExpiresAt: now.Add(lifetime).Truncate(time.Second),
	}
	signer := k.keys[k.signer]
	unsigned := jwt.NewWithClaims(signer.method, &payload{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: k.issuer, Audience: jwt.ClaimStrings{Audience}, Subject: claims.ClusterID, ID: claims.ID,
			IssuedAt:  jwt.NewNumericDate(claims.IssuedAt),
			NotBefore: jwt.NewNumericDate(claims.IssuedAt),
			ExpiresAt: jwt.NewNumericDate(claims.ExpiresAt),
		},
		Generation: claims.Generation,
	})
	unsigned.Header["kid"] = k.signer
	raw, err := unsigned.SignedString(signer.private)
	if err != nil {
		return Token{}, Claims{}, fmt.Errorf("mint token for cluster %s: %w", clusterID, err)
	}
	if len(raw) > wire.MaxToken {
		return Token{}, Claims{}, fmt.Errorf("mint token for cluster %s: %w", clusterID, errTooLong)
	}
	return Conceal(raw), claims, nil
}

var errTooLong = errors.New("token is too long")
