// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	servingLifetime   = 90 * 24 * time.Hour
	// skew is how far an operator's clock may be behind and still accept a
	// certificate that was just made.
	skew = time.Hour
)

// authority is a CA that can sign, and the bundle it is part of.
type authority struct {
	certificate *x509.Certificate
	key         any
	bundle      string
}

// makeAuthority makes the first content of the Secret.
func makeAuthority(now time.Time) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate CA key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"kubenest"}, CommonName: "kubenest hub CA " + now.UTC().Format("2006-01-02")},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign CA: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode CA key: %w", err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return map[string][]byte{
		KeyCertificate: certificate,
		KeyPrivateKey:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		KeyBundle:      certificate,
	}, nil
}

// parseAuthority reads the Secret.
func parseAuthority(data map[string][]byte) (*authority, error) {
	pair, err := tls.X509KeyPair(data[KeyCertificate], data[KeyPrivateKey])
	if err != nil {
		return nil, fmt.Errorf("entries %s and %s: %w", KeyCertificate, KeyPrivateKey, err)
	}
	if !pair.Leaf.IsCA || !pair.Leaf.BasicConstraintsValid {
		return nil, fmt.Errorf("the certificate in entry %s is not a CA's", KeyCertificate)
	}
	bundle, pool, err := parseBundle(data[KeyBundle])
	if err != nil {
		return nil, fmt.Errorf("entry %s %w", KeyBundle, err)
	}
	ca := &authority{certificate: pair.Leaf, key: pair.PrivateKey, bundle: bundle}
	if !ca.isIn(pool) {
		return nil, fmt.Errorf("the CA in entry %s is not in the bundle in entry %s: no operator would accept what it signs. "+
			"Add it to the bundle first", KeyCertificate, KeyBundle)
	}
	return ca, nil
}

// isIn reports whether the CA itself is one of the pool's.
func (a *authority) isIn(pool *x509.CertPool) bool {
	with := pool.Clone()
	with.AddCert(a.certificate)
	return with.Equal(pool)
}

// signsAs reports whether both are the same CA, whatever their bundles.
func (a *authority) signsAs(b *authority) bool {
	return bytes.Equal(a.certificate.Raw, b.certificate.Raw)
}

// sign makes a serving certificate for hosts.
func (a *authority) sign(hosts []string, now time.Time) (*tls.Certificate, error) {
	if !now.Before(a.certificate.NotAfter) {
		return nil, errors.New("the CA has expired")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate serving key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"kubenest"}, CommonName: "kubenest hub"},
		NotBefore:    now.Add(-skew),
		NotAfter:     slices.MinFunc([]time.Time{now.Add(servingLifetime), a.certificate.NotAfter}, time.Time.Compare),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign serving certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

func serialNumber() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	return serial, nil
}
