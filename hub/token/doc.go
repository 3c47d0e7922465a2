// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package token mints and checks the JWTs that operators authenticate with. It
// is pure: it knows neither Kubernetes nor a clock. Where the keys are kept is
// the business of package store, and whether a genuine token was revoked is
// for who knows the cluster's record.
//
// A Keyset holds every key that is accepted. The newest private one signs, so
// a key is replaced in three steps that never lock anybody out: add the new key,
// wait until every token has been issued anew, remove the old one.
//
// # Claims
//
//	iss  the keyset's issuer: this hub's installation
//	aud  "kubenest-hub"
//	sub  the cluster's id
//	gen  the token's generation; revocation is a floor under it
//	jti  the token's own id, for logs
//	iat, nbf, exp
package token
