// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Credentials are where the agent learns whom to dial as whom, and where it keeps
// what the hub hands over. All methods are safe for concurrent use.
type Credentials interface {
	// Load reads everything anew. Its error is for a person and says what to do.
	Load(ctx context.Context) (Identity, error)
	// StoreToken keeps a renewed token; it returns nil only when a restart would
	// find it. It never deletes one that the chart gave.
	StoreToken(ctx context.Context, token Token) error
	// StoreCA keeps the hub's CA bundle, empty for public authorities; it returns nil
	// only when a restart would find it. It does nothing when that is known already.
	StoreCA(ctx context.Context, bundle string) error
	// Changed receives when somebody else changed what Load reads.
	Changed() <-chan struct{}
}

// Identity is whom to dial as whom.
type Identity struct {
	// HubURL as the user gave it.
	HubURL string
	// ClusterID is the cluster's id at the hub.
	ClusterID string
	// Tokens to try, in order.
	Tokens []Token
	// Authorities to check the hub's certificate against.
	Authorities Authorities
}

// sameTarget reports whether two identities lead to the same session.
func (i *Identity) sameTarget(other *Identity) bool {
	return i.HubURL == other.HubURL && i.ClusterID == other.ClusterID &&
		len(i.Tokens) > 0 && len(other.Tokens) > 0 && i.Tokens[0].raw == other.Tokens[0].raw
}

// Authorities is a union of bundles, each of which is PEM, or empty for the
// system's. A new authority is trusted beside the old one before it is used.
type Authorities []string

// Pool of the authorities' certificates.
func (a Authorities) Pool() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for _, bundle := range a {
		if strings.TrimSpace(bundle) != "" {
			continue
		}
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
		}
		pool = system
		break
	}
	for _, bundle := range a {
		if err := addBundle(pool, bundle); err != nil {
			return nil, err
		}
	}
	return pool, nil
}

// CheckBundle refuses a CA bundle in which any part is not a certificate. An empty
// one is fine.
func CheckBundle(bundle string) error { return addBundle(x509.NewCertPool(), bundle) }

// SameBundle reports whether two bundles say the same but for white space around
// them.
func SameBundle(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

func addBundle(pool *x509.CertPool, bundle string) error {
	rest := []byte(strings.TrimSpace(bundle))
	for len(rest) > 0 {
		block, after := pem.Decode(rest)
		if block == nil {
			return errors.New("the CA bundle is not PEM: it must be certificates, each between BEGIN CERTIFICATE and END CERTIFICATE")
		}
		rest = after
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("the CA bundle holds a %.40q: it must hold certificates only", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("the CA bundle holds a certificate that can not be read: %w", err)
		}
		pool.AddCert(certificate)
	}
	return nil
}
