// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/token"
)

const (
	issuer  = "kubenest/4b0e6f4a-3f8e-4f0e-9a39-6d1d3b1f9d10"
	cluster = "6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11"
	year    = 365 * 24 * time.Hour
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func encode(tb testing.TB, kind string, der []byte, err error) []byte {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func privatePEM(tb testing.TB, key crypto.PrivateKey) []byte {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encode(tb, "PRIVATE KEY", der, err)
}

func publicPEM(tb testing.TB, key crypto.PublicKey) []byte {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	return encode(tb, "PUBLIC KEY", der, err)
}

func newEd25519(tb testing.TB) ed25519.PrivateKey {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func newECDSA(tb testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func newKeyset(tb testing.TB, pems map[string][]byte) *token.Keyset {
	tb.Helper()
	k, err := token.Parse(issuer, pems)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func mint(tb testing.TB, k *token.Keyset, lifetime time.Duration) (string, token.Claims) {
	tb.Helper()
	minted, claims, err := k.Mint(cluster, 4, lifetime, noon)
	if err != nil {
		tb.Fatal(err)
	}
	return minted.Reveal(), claims
}

func TestToken_isNeverPrinted(t *testing.T) {
	g := NewWithT(t)
	k := newKeyset(t, map[string][]byte{"a": privatePEM(t, newEd25519(t))})
	minted, _, err := k.Mint(cluster, 1, year, noon)
	g.Expect(err).NotTo(HaveOccurred())
	signature := minted.Reveal()[strings.LastIndex(minted.Reveal(), "."):]

	type holder struct{ secret token.Token } // fmt cannot call methods on unexported fields
	marshalled, err := json.Marshal(struct{ Token token.Token }{minted})
	g.Expect(err).NotTo(HaveOccurred())
	text, err := minted.MarshalText()
	g.Expect(err).NotTo(HaveOccurred())
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("Minted", "token", minted)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("Minted", "token", minted, "held", holder{minted})

	for name, printed := range map[string]string{
		"s": fmt.Sprintf("%s", minted), "v": fmt.Sprintf("%v", minted), "+v": fmt.Sprintf("%+v", minted),
		"#v": fmt.Sprintf("%#v", minted), "q": fmt.Sprintf("%q", minted), "x": fmt.Sprintf("%x", minted), "d": fmt.Sprintf("%d", minted),
		"pointer": fmt.Sprintf("%v %+v %#v", &minted, &minted, &minted), "String": minted.String(), "GoString": minted.GoString(),
		"json": string(marshalled), "text": string(text), "slog": logged.String(), "logr": fmt.Sprint(minted.MarshalLog()),
	} {
		g.Expect(printed).To(ContainSubstring("[redacted]"), name)
		g.Expect(printed).NotTo(ContainSubstring(signature), name)
	}
	g.Expect(fmt.Sprintf("%v %+v %#v", holder{minted}, holder{minted}, holder{minted})).NotTo(ContainSubstring(signature))
	g.Expect(format.Object(holder{minted}, 1)).NotTo(ContainSubstring(signature))

	g.Expect(token.Token{}.Reveal()).To(BeEmpty())
	g.Expect(token.Conceal("raw").Reveal()).To(Equal("raw"))
}

func TestParse(t *testing.T) {
	ed, ec := newEd25519(t), newECDSA(t, elliptic.P256())
	sec1, err := x509.MarshalECPrivateKey(ec)
	rsaKey, rsaErr := rsa.GenerateKey(rand.Reader, 2048)
	if rsaErr != nil {
		t.Fatal(rsaErr)
	}
	good := privatePEM(t, ed)
	for name, tt := range map[string]struct {
		issuer string
		pems   map[string][]byte
		signer string
		want   string
	}{
		"ed25519":                            {issuer, map[string][]byte{"a": good}, "a", ""},
		"es256":                              {issuer, map[string][]byte{"a": privatePEM(t, ec)}, "a", ""},
		"the newest signs":                   {issuer, map[string][]byte{"20260101T000000Z-ffff": good, "20261201T080000Z-0000": privatePEM(t, ec)}, "20261201T080000Z-0000", ""},
		"a public key never signs":           {issuer, map[string][]byte{"a": good, "b": publicPEM(t, ec.Public())}, "a", ""},
		"public keys alone":                  {issuer, map[string][]byte{"b": publicPEM(t, ec.Public())}, "", "no private key, so no token could be signed"},
		"no keys":                            {issuer, nil, "", "no private key"},
		"no issuer":                          {"", map[string][]byte{"a": good}, "", "issuer must have 1 to 256 bytes"},
		"long issuer":                        {strings.Repeat("i", 257), map[string][]byte{"a": good}, "", "issuer must have"},
		"not PEM":                            {issuer, map[string][]byte{"a": []byte("secret stuff")}, "", "key a: not PEM"},
		"not a key":                          {issuer, map[string][]byte{"a": encode(t, "PRIVATE KEY", []byte{1, 2}, nil)}, "", "key a: not a PKCS#8 private key"},
		"not a public key":                   {issuer, map[string][]byte{"a": encode(t, "PUBLIC KEY", []byte{1, 2}, nil)}, "", "key a: not a PKIX public key"},
		"sec1":                               {issuer, map[string][]byte{"a": encode(t, "EC PRIVATE KEY", sec1, err)}, "", "openssl pkcs8 -topk8"},
		"rsa":                                {issuer, map[string][]byte{"a": privatePEM(t, rsaKey)}, "", "must be an Ed25519 key, or an ECDSA key on the curve P-256"},
		"p384":                               {issuer, map[string][]byte{"a": privatePEM(t, newECDSA(t, elliptic.P384()))}, "", "must be an Ed25519 key"},
		"two blocks":                         {issuer, map[string][]byte{"a": append(append([]byte{}, good...), good...)}, "", "more than one PEM block"},
		"key id with a slash":                {issuer, map[string][]byte{"a/b": good}, "", `key id "a/b" must be`},
		"empty key id":                       {issuer, map[string][]byte{"": good}, "", `key id "" must be`},
		"one bad key makes the set unusable": {issuer, map[string][]byte{"a": good, "b": nil}, "", "key b: not PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			k, err := token.Parse(tt.issuer, tt.pems)
			if tt.want != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tt.want)))
				g.Expect(err.Error()).NotTo(ContainSubstring("secret stuff"))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(k.SigningKeyID()).To(Equal(tt.signer))
			g.Expect(k.Issuer()).To(Equal(tt.issuer))
		})
	}
}

func TestNewKey(t *testing.T) {
	g := NewWithT(t)
	kid, block, err := token.NewKey(noon.In(time.FixedZone("east", 3600)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kid).To(MatchRegexp(`^20261201T120000Z-[0-9a-f]{4}$`))
	later, next, err := token.NewKey(noon.Add(time.Second))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(newKeyset(t, map[string][]byte{kid: block, later: next}).SigningKeyID()).To(Equal(later))
}

func TestKeyset_Equal(t *testing.T) {
	g := NewWithT(t)
	a, b := newEd25519(t), newEd25519(t)
	one := newKeyset(t, map[string][]byte{"a": privatePEM(t, a)})
	g.Expect(one.Equal(newKeyset(t, map[string][]byte{"a": privatePEM(t, a)}))).To(BeTrue())
	for name, pems := range map[string]map[string][]byte{
		"another key under the id": {"a": privatePEM(t, b)},
		"another id":               {"b": privatePEM(t, a)},
		"one more":                 {"a": privatePEM(t, a), "0": publicPEM(t, b.Public())},
	} {
		g.Expect(one.Equal(newKeyset(t, pems))).To(BeFalse(), name)
	}
	both := map[string][]byte{"a": privatePEM(t, a), "0": privatePEM(t, b)}
	retired := map[string][]byte{"a": privatePEM(t, a), "0": publicPEM(t, b.Public())}
	g.Expect(newKeyset(t, both).Equal(newKeyset(t, retired))).To(BeFalse(), "a private key became public")
}

func TestMint(t *testing.T) {
	k := newKeyset(t, map[string][]byte{"a": privatePEM(t, newEd25519(t))})
	for name, tt := range map[string]struct {
		cluster    string
		generation int64
		lifetime   time.Duration
		want       string
	}{
		"good":             {cluster, 1, time.Second, ""},
		"no cluster":       {"", 1, year, "cluster id must have"},
		"long cluster":     {strings.Repeat("c", wire.MaxName+1), 1, year, "cluster id must have"},
		"generation 0":     {cluster, 0, year, "generation 0, want at least 1"},
		"no lifetime":      {cluster, 1, 0, "lifetime 0s, want at least 1s"},
		"negative":         {cluster, 1, -year, "want at least 1s"},
		"under one second": {cluster, 1, time.Millisecond, "want at least 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			minted, claims, err := k.Mint(tt.cluster, tt.generation, tt.lifetime, noon.Add(700*time.Millisecond))
			if tt.want != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tt.want)))
				g.Expect(minted.Reveal()).To(BeEmpty())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			verified, renew, err := k.Verify(minted.Reveal(), noon)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(renew).To(BeFalse())
			g.Expect(verified).To(Equal(claims), "what is minted is what is verified, to the second")
		})
	}
	t.Run("every token has an id of its own", func(t *testing.T) {
		g := NewWithT(t)
		_, first := mint(t, k, year)
		_, second := mint(t, k, year)
		g.Expect(first.ID).NotTo(Equal(second.ID))
	})
}
