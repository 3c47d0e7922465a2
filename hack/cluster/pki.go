// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime of all certificates: longer than anybody keeps a development cluster.
const lifetime = 10 * 365 * 24 * time.Hour

// authority is a cluster's CA. One CA signs for etcd and the API server, as
// clients and as servers.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// openAuthority reads the CA in a folder, or makes it.
func openAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for keys: %w", err)
	}
	a := &authority{dir: dir}
	err := a.read()
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	if a.key, err = newKey(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "kubenest development CA"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if a.certificate, err = a.sign(template, template, a.key.Public()); err != nil {
		return nil, err
	}
	// The key last: a CA whose key is there is complete.
	if err := writePEM(a.certFile(), "CERTIFICATE", a.certificate.Raw); err != nil {
		return nil, err
	}
	return a, writeKey(a.path("ca.key"), a.key)
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }
func (a *authority) certFile() string        { return a.path("ca.crt") }

func (a *authority) read() error {
	key, err := readPEM(a.path("ca.key"))
	if err != nil {
		return err
	}
	certificate, err := readPEM(a.certFile())
	if err != nil {
		return err
	}
	if a.key, err = x509.ParseECPrivateKey(key); err != nil {
		return fmt.Errorf("parse %s: %w", a.path("ca.key"), err)
	}
	if a.certificate, err = x509.ParseCertificate(certificate); err != nil {
		return fmt.Errorf("parse %s: %w", a.certFile(), err)
	}
	return nil
}

// server makes a pair of files for a server on this machine.
func (a *authority) server(name string) (certFile, keyFile string, err error) {
	return a.pair(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		// etcd is its own peer, and so its own client.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// client makes a pair of files for a user, whom Kubernetes knows by the common
// name and whose groups are the organizations.
func (a *authority) client(name, user string, groups ...string) (certFile, keyFile string, err error) {
	return a.pair(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// pair makes the files anew each time: what they say may have changed, and a
// crash may have left one of them.
func (a *authority) pair(name string, template *x509.Certificate) (certFile, keyFile string, err error) {
	certFile, keyFile = a.path(name+".crt"), a.path(name+".key")
	key, err := newKey()
	if err != nil {
		return "", "", err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	certificate, err := a.sign(template, a.certificate, key.Public())
	if err != nil {
		return "", "", err
	}
	if err := writePEM(certFile, "CERTIFICATE", certificate.Raw); err != nil {
		return "", "", err
	}
	return certFile, keyFile, writeKey(keyFile, key)
}

// serviceAccountKey gives the key of ServiceAccount tokens, made once: tokens
// must outlive restarts.
func (a *authority) serviceAccountKey() (string, error) {
	path := a.path("service-account.key")
	_, err := readPEM(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	key, err := newKey()
	if err != nil {
		return "", err
	}
	return path, writeKey(path, key)
}

func (a *authority) sign(template, parent *x509.Certificate, public crypto.PublicKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write key material: %w", err)
	}
	return nil
}

func readPEM(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key material: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	return block.Bytes, nil
}
