// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// maxIssuer bounds an issuer, in bytes: it is in every token.
const maxIssuer = 256

// keyIDs are what also fits a Secret's keys, a JWT's header and a log line.
var keyIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Keyset holds the keys whose tokens are accepted, and the one that signs. It
// never changes, so it is safe for concurrent use; a changed set of keys is
// another Keyset.
type Keyset struct {
	issuer string
	signer string
	keys   map[string]key
}

// key is one accepted key. The method is pinned to the key's type, never taken
// from a token.
type key struct {
	method  jwt.SigningMethod
	public  crypto.PublicKey
	private crypto.PrivateKey // nil: accepted, never signs
}

// Parse makes a Keyset of PEM blocks by key id: PKCS#8 private keys, or public
// keys, which are accepted and never sign. Keys are Ed25519, or ECDSA on P-256.
// The private key with the greatest id in lexical order signs; NewKey's ids
// sort by time.
//
// Errors name the key id and never hold key material.
func Parse(issuer string, pems map[string][]byte) (*Keyset, error) {
	if issuer == "" || len(issuer) > maxIssuer {
		return nil, fmt.Errorf("issuer must have 1 to %d bytes", maxIssuer)
	}
	k := &Keyset{issuer: issuer, keys: make(map[string]key, len(pems))}
	var errs []error
	for kid, block := range pems {
		if !keyIDs.MatchString(kid) {
			errs = append(errs, fmt.Errorf("key id %.80q must be 1 to 64 letters, digits, '.', '_' or '-'", kid))
			continue
		}
		parsed, err := parseKey(block)
		if err != nil {
			errs = append(errs, fmt.Errorf("key %s: %w", kid, err))
			continue
		}
		k.keys[kid] = parsed
		if parsed.private != nil && kid > k.signer {
			k.signer = kid
		}
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(errs...)
	}
	if k.signer == "" {
		return nil, errors.New("no private key, so no token could be signed")
	}
	return k, nil
}

func parseKey(data []byte) (key, error) {
	block, rest := pem.Decode(data)
	if block == nil {
		return key{}, errors.New("not PEM")
	}
	if second, _ := pem.Decode(rest); second != nil {
		return key{}, errors.New("more than one PEM block: each key has an entry of its own")
	}
	switch block.Type {
	case "PRIVATE KEY":
		private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return key{}, errors.New("not a PKCS#8 private key")
		}
		signer, ok := private.(crypto.Signer)
		if !ok {
			return key{}, fmt.Errorf("a %T cannot sign", private)
		}
		k, err := acceptKey(signer.Public())
		k.private = private
		return k, err
	case "PUBLIC KEY":
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return key{}, errors.New("not a PKIX public key")
		}
		return acceptKey(public)
	default:
		return key{}, fmt.Errorf("PEM block is %.40q, want \"PRIVATE KEY\" (PKCS#8; openssl pkcs8 -topk8 -nocrypt converts) or \"PUBLIC KEY\"", block.Type)
	}
}

func acceptKey(public crypto.PublicKey) (key, error) {
	switch p := public.(type) {
	case ed25519.PublicKey:
		return key{method: jwt.SigningMethodEdDSA, public: p}, nil
	case *ecdsa.PublicKey:
		if p.Curve == elliptic.P256() {
			return key{method: jwt.SigningMethodES256, public: p}, nil
		}
	}
	return key{}, errors.New("must be an Ed25519 key, or an ECDSA key on the curve P-256")
}

// NewKey makes an Ed25519 key: its id, which sorts by time, such as
// "20261201T080000Z-9f3c", and its PKCS#8 PEM, which is secret.
func NewKey(now time.Time) (kid string, block []byte, err error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("generate signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", nil, fmt.Errorf("encode signing key: %w", err)
	}
	var suffix [2]byte
	_, _ = rand.Read(suffix[:]) // never fails: it ends the process instead
	kid = now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(suffix[:])
	return kid, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// Issuer is the iss of the tokens that are minted and accepted.
func (k *Keyset) Issuer() string { return k.issuer }

// SigningKeyID is the id of the key that signs. A token under another one works
// as long as that key is in the set, and is worth issuing anew.
func (k *Keyset) SigningKeyID() string { return k.signer }

// Equal reports whether both sets accept and sign the same.
func (k *Keyset) Equal(other *Keyset) bool {
	if k.issuer != other.issuer || k.signer != other.signer || len(k.keys) != len(other.keys) {
		return false
	}
	for kid, a := range k.keys {
		b, ok := other.keys[kid]
		public, known := a.public.(interface{ Equal(crypto.PublicKey) bool })
		if !ok || !known || !public.Equal(b.public) || (a.private == nil) != (b.private == nil) {
			return false
		}
	}
	return true
}

// KeyIDs are the ids of all accepted keys, sorted.
func (k *Keyset) KeyIDs() []string { return slices.Sorted(maps.Keys(k.keys)) }
