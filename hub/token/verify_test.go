// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/token"
)

func TestVerify_times(t *testing.T) {
	k := newKeyset(t, map[string][]byte{"a": privatePEM(t, newEd25519(t))})
	raw, claims := mint(t, k, time.Hour)
	expiry := noon.Add(time.Hour)
	for name, tt := range map[string]struct {
		now   time.Time
		class wire.Class
		renew bool
	}{
		"fresh":                       {noon, "", false},
		"just before it expires":      {expiry.Add(-time.Second), "", false},
		"begins in 60 s":              {noon.Add(-token.Leeway), "", false},
		"begins in 61 s":              {noon.Add(-token.Leeway - time.Second), wire.ClassNotYetValid, false},
		"expired 59 s ago":            {expiry.Add(token.Leeway - time.Second), "", false},
		"expired a minute ago":        {expiry.Add(token.Leeway), "", true},
		"expired 90 days ago, nearly": {expiry.Add(token.RenewalGrace - time.Second), "", true},
		"expired 90 days ago":         {expiry.Add(token.RenewalGrace), wire.ClassExpired, false},
		"expired years ago":           {expiry.Add(20 * year), wire.ClassExpired, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, renew, err := k.Verify(raw, tt.now)
			if tt.class == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got).To(Equal(claims))
				g.Expect(renew).To(Equal(tt.renew))
				return
			}
			rejection := wantRejection(t, err)
			g.Expect(rejection.Refusal.Class).To(Equal(tt.class))
			g.Expect(string(rejection.Reason)).To(Equal(string(tt.class)))
			g.Expect(rejection.Subject).To(Equal(cluster))
			g.Expect(rejection.TokenID).To(Equal(claims.ID))
			g.Expect(got).To(BeZero())
			if tt.class == wire.ClassNotYetValid {
				g.Expect(rejection.Refusal.RetryAfter).To(BeNumerically(">", 0))
			}
		})
	}
}

func wantRejection(t *testing.T, err error) *token.Rejection {
	t.Helper()
	g := NewWithT(t)
	var rejection *token.Rejection
	var refusal *wire.Refusal
	g.Expect(errors.As(err, &rejection)).To(BeTrue(), "%v", err)
	g.Expect(errors.As(err, &refusal)).To(BeTrue())
	g.Expect(refusal).To(BeIdenticalTo(rejection.Refusal))
	g.Expect(refusal.Validate()).To(Succeed())
	for _, text := range []string{rejection.Subject, rejection.KeyID, rejection.TokenID} {
		g.Expect(len(text)).To(BeNumerically("<=", wire.MaxName))
		g.Expect(text).To(MatchRegexp(`^[!-~]*$`), "nothing that could forge a log line")
	}
	return rejection
}

// forge signs anything at all.
func forge(t *testing.T, method jwt.SigningMethod, key any, header map[string]any, claims jwt.MapClaims) string {
	t.Helper()
	unsigned := jwt.NewWithClaims(method, claims)
	maps.Copy(unsigned.Header, header)
	for name, value := range header {
		if value == nil {
			delete(unsigned.Header, name)
		}
	}
	raw, err := unsigned.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// with is a good token's claims with changes; nil removes one.
func with(changes jwt.MapClaims) jwt.MapClaims {
	claims := jwt.MapClaims{
		"iss": issuer, "aud": token.Audience, "sub": cluster, "gen": 4, "jti": "J",
		"iat": noon.Unix(), "nbf": noon.Unix(), "exp": noon.Add(year).Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

func TestVerify_forgeries(t *testing.T) {
	ed, ec, stranger := newEd25519(t), newECDSA(t, elliptic.P256()), newEd25519(t)
	k := newKeyset(t, map[string][]byte{"ed": privatePEM(t, ed), "ec": publicPEM(t, ec.Public())})
	der, err := x509.MarshalPKIXPublicKey(ed.Public())
	if err != nil {
		t.Fatal(err)
	}
	edKid, ecKid := map[string]any{"kid": "ed"}, map[string]any{"kid": "ec"}
	good := forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(nil))
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"ed"}`))

	for name, tt := range map[string]struct {
		raw    string
		reason token.Reason // empty: accepted
	}{
		"a good one":                     {good, ""},
		"by an accepted ES256 key":       {forge(t, jwt.SigningMethodES256, ec, ecKid, with(nil)), ""},
		"empty":                          {"", token.ReasonMalformed},
		"not a JWT":                      {"hello", token.ReasonMalformed},
		"two parts":                      {parts[0] + "." + parts[1], token.ReasonMalformed},
		"four parts":                     {good + ".x", token.ReasonMalformed},
		"over the limit":                 {good + strings.Repeat("A", wire.MaxToken), token.ReasonMalformed},
		"just over the limit, genuine":   {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"pad": strings.Repeat("x", wire.MaxToken)})), token.ReasonMalformed},
		"padding":                        {good + "==", token.ReasonMalformed},
		"a space":                        {good + " ", token.ReasonMalformed},
		"alg none":                       {none + "." + parts[1] + ".", token.ReasonAlgorithm},
		"alg none, old signature":        {none + "." + parts[1] + "." + parts[2], token.ReasonAlgorithm},
		"HS256 with the public key":      {forge(t, jwt.SigningMethodHS256, []byte(ed.Public().(ed25519.PublicKey)), edKid, with(nil)), token.ReasonAlgorithm},
		"HS256 with the public key, DER": {forge(t, jwt.SigningMethodHS256, der, edKid, with(nil)), token.ReasonAlgorithm},
		"ES256 token, Ed25519 key's id":  {forge(t, jwt.SigningMethodES256, ec, edKid, with(nil)), token.ReasonAlgorithm},
		"EdDSA token, ES256 key's id":    {forge(t, jwt.SigningMethodEdDSA, ed, ecKid, with(nil)), token.ReasonAlgorithm},
		"no kid":                         {forge(t, jwt.SigningMethodEdDSA, ed, nil, with(nil)), token.ReasonUnknownKey},
		"kid is a number":                {forge(t, jwt.SigningMethodEdDSA, ed, map[string]any{"kid": 7}, with(nil)), token.ReasonUnknownKey},
		"kid is unknown":                 {forge(t, jwt.SigningMethodEdDSA, ed, map[string]any{"kid": "x\nkid=ed" + strings.Repeat("k", 99)}, with(nil)), token.ReasonUnknownKey},
		"critical extension":             {forge(t, jwt.SigningMethodEdDSA, ed, map[string]any{"kid": "ed", "crit": []string{"b64"}}, with(nil)), token.ReasonMalformed},
		"a stranger's key":               {forge(t, jwt.SigningMethodEdDSA, stranger, edKid, with(nil)), token.ReasonSignature},
		"claims changed":                 {parts[0] + "." + change(t, parts[1]) + "." + parts[2], token.ReasonSignature},
		"signature cut":                  {parts[0] + "." + parts[1] + "." + parts[2][:8], token.ReasonSignature},
		"no signature":                   {parts[0] + "." + parts[1] + ".", token.ReasonSignature},
		"another issuer":                 {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"iss": "kubenest/other"})), token.ReasonIssuer},
		"no issuer":                      {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"iss": nil})), token.ReasonIssuer},
		"another audience":               {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"aud": "kubenest-rest"})), token.ReasonAudience},
		"one audience too many":          {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"aud": []string{token.Audience, "x"}})), token.ReasonAudience},
		"no audience":                    {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"aud": nil})), token.ReasonAudience},
		"no subject":                     {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"sub": nil})), token.ReasonClaims},
		"long subject":                   {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"sub": "\u202e" + strings.Repeat("s", 99)})), token.ReasonClaims},
		"no generation":                  {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"gen": nil})), token.ReasonClaims},
		"generation 0":                   {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"gen": 0})), token.ReasonClaims},
		"generation is a text":           {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"gen": "4"})), token.ReasonMalformed},
		"no id":                          {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"jti": nil})), token.ReasonClaims},
		"no exp":                         {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"exp": nil})), token.ReasonClaims},
		"no nbf":                         {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"nbf": nil})), token.ReasonClaims},
		"no iat":                         {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"iat": nil})), token.ReasonClaims},
		"issued in the future":           {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"iat": noon.Add(time.Hour).Unix()})), token.ReasonNotYetValid},
		"expired at the epoch":           {forge(t, jwt.SigningMethodEdDSA, ed, edKid, with(jwt.MapClaims{"exp": 0})), token.ReasonExpired},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			claims, _, err := k.Verify(tt.raw, noon)
			if tt.reason == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(claims.ClusterID).To(Equal(cluster))
				return
			}
			rejection := wantRejection(t, err)
			g.Expect(rejection.Reason).To(Equal(tt.reason))
			g.Expect(claims).To(BeZero())
			if tt.reason != token.ReasonNotYetValid && tt.reason != token.ReasonExpired {
				uniform := wantRejection(t, errOf(k.Verify("hello", noon)))
				g.Expect(*rejection.Refusal).To(Equal(*uniform.Refusal), "one answer for all")
			}
			if len(tt.raw) > 40 {
				g.Expect(err.Error()).NotTo(ContainSubstring(tt.raw[len(tt.raw)-20:]))
			}
		})
	}
}

func errOf(_ token.Claims, _ bool, err error) error { return err }

// change raises the generation in an encoded body.
func change(t *testing.T, part string) string {
	t.Helper()
	body, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(body, &claims); err != nil {
		t.Fatal(err)
	}
	claims["gen"] = 9
	if body, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(body)
}

func TestVerify_rotation(t *testing.T) {
	g := NewWithT(t)
	first, second := newEd25519(t), newECDSA(t, elliptic.P256())
	before := newKeyset(t, map[string][]byte{"1": privatePEM(t, first)})
	during := newKeyset(t, map[string][]byte{"1": privatePEM(t, first), "2": privatePEM(t, second)})
	after := newKeyset(t, map[string][]byte{"2": privatePEM(t, second)})

	old, _ := mint(t, before, year)
	renewed, claims := mint(t, during, year)
	g.Expect(claims.KeyID).To(Equal("2"), "the newest signs")
	g.Expect(errOf(during.Verify(old, noon))).NotTo(HaveOccurred(), "the old key is still accepted")
	g.Expect(errOf(during.Verify(renewed, noon))).NotTo(HaveOccurred())
	g.Expect(errOf(after.Verify(renewed, noon))).NotTo(HaveOccurred())
	g.Expect(wantRejection(t, errOf(after.Verify(old, noon))).Reason).To(Equal(token.ReasonUnknownKey))
	g.Expect(wantRejection(t, errOf(before.Verify(renewed, noon))).Reason).To(Equal(token.ReasonUnknownKey))

	retired := newKeyset(t, map[string][]byte{"1": publicPEM(t, first.Public()), "2": privatePEM(t, second)})
	g.Expect(errOf(retired.Verify(old, noon))).NotTo(HaveOccurred(), "a public key is accepted")
}

func TestPeek(t *testing.T) {
	g := NewWithT(t)
	k := newKeyset(t, map[string][]byte{"a": privatePEM(t, newEd25519(t))})
	raw, claims := mint(t, k, year)
	peeked, by, err := token.Peek(raw[:strings.LastIndex(raw, ".")+1])
	g.Expect(err).NotTo(HaveOccurred(), "the signature does not matter")
	g.Expect(peeked).To(Equal(claims))
	g.Expect(by).To(Equal(issuer))

	hostile := forge(t, jwt.SigningMethodEdDSA, crypto.PrivateKey(newEd25519(t)), nil, with(jwt.MapClaims{"sub": "a\nb\x1b[31m" + strings.Repeat("s", 999)}))
	peeked, _, err = token.Peek(hostile)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(peeked.ClusterID).To(MatchRegexp(`^a\?b\?\[31ms+\?$`))
	g.Expect(len(peeked.ClusterID)).To(BeNumerically("<=", wire.MaxName))

	for _, bad := range []string{"", "hello", "a.b.c", strings.Repeat("A", wire.MaxToken+1)} {
		_, _, err := token.Peek(bad)
		g.Expect(err).To(HaveOccurred(), "%.10q", bad)
	}
}

func FuzzVerify(f *testing.F) {
	k := newKeyset(f, map[string][]byte{"ed": privatePEM(f, newEd25519(f)), "ec": privatePEM(f, newECDSA(f, elliptic.P256()))})
	minted, _ := mint(f, k, year)
	signed := minted[:strings.LastIndex(minted, ".")]
	f.Add(minted)
	f.Add(signed + ".")
	f.Add("e30.e30.")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"ed"}`)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1e300,"iat":-1,"nbf":null,"aud":[],"sub":"\u0000"}`)) + ".AA")
	f.Fuzz(func(t *testing.T, raw string) {
		g := NewWithT(t)
		_, _, err := k.Verify(raw, noon)
		if err == nil {
			g.Expect(raw).To(HavePrefix(signed+"."), "only what was signed is accepted")
			return
		}
		wantRejection(t, err)
	})
}
