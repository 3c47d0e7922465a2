// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving gives the hub its TLS certificate, and the operators the CA
// bundle to check it against: from files, or of a CA that the hub makes for
// itself. Both change while the hub runs, without a restart.
//
// A certificate is never used that the bundle does not verify: every operator
// would refuse it. So a CA is replaced in this order: add the next one to the
// bundle, which goes to every operator over its session; sign with the next one;
// remove the old one.
package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Source is where the certificate and the bundle come from.
type Source struct {
	run   func(ctx context.Context, s *Source) error
	state atomic.Pointer[state]

	mu       sync.Mutex
	onBundle []func(bundle string)
}

// state changes as a whole: a certificate and the bundle that verifies it.
type state struct {
	certificate *tls.Certificate
	bundle      string
}

// TLSConfig is for the server. It serves the certificate in force at each
// handshake, and HTTP/1.1 only, since WebSockets are opened with it.
func (s *Source) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.state.Load().certificate, nil
		},
	}
}

// Bundle is the PEM bundle that operators check the certificate against; empty
// if they are to use the public authorities.
func (s *Source) Bundle() string { return s.state.Load().bundle }

// OnBundleChange adds a function that is called once for each change of the
// bundle. It must return soon: the next change waits for it.
func (s *Source) OnBundleChange(fn func(bundle string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onBundle = append(s.onBundle, fn)
}

// Run looks for changes until ctx ends, and returns nil then. One that cannot
// be used is logged, and what is in force stays.
func (s *Source) Run(ctx context.Context) error { return s.run(ctx, s) }

// swap puts a state in force.
func (s *Source) swap(next *state, log logr.Logger) {
	before := s.state.Swap(next)
	if before == nil || !slices.EqualFunc(before.certificate.Certificate, next.certificate.Certificate, slices.Equal) {
		leaf := next.certificate.Leaf
		log.Info("Serving certificate in force", "subject", leaf.Subject.String(), "dnsNames", leaf.DNSNames,
			"ipAddresses", leaf.IPAddresses, "notAfter", leaf.NotAfter)
	}
	if before == nil || before.bundle == next.bundle {
		return
	}
	log.Info("CA bundle changed", "certificates", strings.Count(next.bundle, "BEGIN CERTIFICATE"))
	s.mu.Lock()
	callbacks := slices.Clone(s.onBundle)
	s.mu.Unlock()
	for _, fn := range callbacks {
		fn(next.bundle)
	}
}

// parseBundle reads PEM certificates and writes them again without what stands
// between them, so that equal bundles are equal texts.
func parseBundle(data []byte) (bundle string, pool *x509.CertPool, err error) {
	pool = x509.NewCertPool()
	var text strings.Builder
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return "", nil, fmt.Errorf("holds a PEM block %.40q, want certificates only", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", nil, fmt.Errorf("holds a certificate that cannot be read: %w", err)
		}
		pool.AddCert(certificate)
		text.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
	if text.Len() == 0 {
		return "", nil, errors.New("holds no certificate in PEM")
	}
	return text.String(), pool, nil
}

// verifies reports whether an operator with the bundle accepts the certificate.
// Whether it has expired is another matter: that is no reason to keep an even
// older one.
func verifies(pool *x509.CertPool, certificate *tls.Certificate) error {
	intermediates := x509.NewCertPool()
	for _, der := range certificate.Certificate[1:] {
		if intermediate, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(intermediate)
		}
	}
	at := time.Now()
	if expired := certificate.Leaf.NotAfter.Before(at); expired {
		at = certificate.Leaf.NotAfter
	}
	_, err := certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: intermediates, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// loggerFrom names the package in the caller's logger.
func loggerFrom(ctx context.Context) logr.Logger { return log.FromContext(ctx).WithName("serving") }
