// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
)

func encodePair(pair *tls.Certificate) (cert, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func FuzzParseBundle(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("no PEM"))
	f.Fuzz(func(t *testing.T, data []byte) {
		bundle, pool, err := parseBundle(data)
		if err != nil {
			return
		}
		again, other, err := parseBundle([]byte(bundle))
		if err != nil || again != bundle || !pool.Equal(other) {
			t.Fatalf("a bundle does not survive its own form: %v", err)
		}
	})
}
