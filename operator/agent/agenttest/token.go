// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Claims of a token; the zero value of each but Generation and Expires has a
// default.
type Claims struct {
	Issuer, ClusterID, ID string
	Generation            int64
	Expires               time.Time
}

// Defaults of Claims.
const (
	Issuer    = "https://hub.test"
	ClusterID = "6f1c2f0e-0000-4000-8000-000000000017"
)

// Token looks like a hub's. Operators do not check signatures, and this hub takes
// any token.
func Token(tb testing.TB, c Claims) string {
	tb.Helper()
	if c.Issuer == "" {
		c.Issuer = Issuer
	}
	if c.ClusterID == "" {
		c.ClusterID = ClusterID
	}
	claims := jwt.MapClaims{"iss": c.Issuer, "sub": c.ClusterID, "jti": c.ID, "gen": c.Generation}
	if !c.Expires.IsZero() {
		claims["exp"] = c.Expires.Unix()
	}
	unsigned := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	unsigned.Header["kid"] = "test-key"
	signed, err := unsigned.SignedString([]byte("not a secret, only a signature of the right shape"))
	if err != nil {
		tb.Fatalf("sign a token: %v", err)
	}
	return signed
}
