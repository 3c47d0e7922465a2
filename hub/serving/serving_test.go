// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kubenest/kubenest/hub/serving"
)

// journal keeps what is logged.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) into(ctx context.Context) context.Context {
	return log.IntoContext(ctx, funcr.New(func(_, args string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, args)
	}, funcr.Options{}))
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

// bundles keeps what callbacks are told.
type bundles struct {
	mu   sync.Mutex
	told []string
}

func (b *bundles) tell(bundle string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, bundle)
}

func (b *bundles) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.told)
}

// listen serves TLS handshakes of the source and returns the address.
func listen(source *serving.Source) (address string, stop func()) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	secure := tls.NewListener(listener, source.TLSConfig())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := secure.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	return listener.Addr().String(), func() { _ = secure.Close(); wg.Wait() }
}

// shake makes a TLS handshake as an operator with the bundle does, and returns
// the certificate that it was shown.
func shake(address, host, bundle string, now time.Time) (*x509.Certificate, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(bundle)) {
		return nil, errors.New("no certificates in the bundle")
	}
	dialer := tls.Dialer{Config: &tls.Config{
		RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		Time: func() time.Time { return now },
	}}
	c, err := dialer.DialContext(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	state := c.(*tls.Conn).ConnectionState()
	if state.NegotiatedProtocol != "http/1.1" {
		return nil, errors.New("negotiated " + state.NegotiatedProtocol)
	}
	return state.PeerCertificates[0], nil
}

// on is a folder with the three files.
type on struct{ dir string }

func (o on) path(name string) string { return filepath.Join(o.dir, name) }

func (o on) write(t *testing.T, name string, data ...[]byte) {
	t.Helper()
	if err := os.WriteFile(o.path(name), bytes.Join(data, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

func authority(t *testing.T, now time.Time) map[string][]byte {
	t.Helper()
	data, err := serving.MakeAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sign(t *testing.T, ca map[string][]byte, now time.Time) (cert, key []byte) {
	t.Helper()
	cert, key, err := serving.Sign(ca, []string{"hub.example.com"}, now)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestFiles(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	clock := clocktesting.NewFakeClock(now)
	first, next := authority(t, now), authority(t, now)
	cert, key := sign(t, first, now)
	nextCert, nextKey := sign(t, next, now)
	dir := on{t.TempDir()}
	dir.write(t, "tls.crt", cert)
	dir.write(t, "tls.key", key)
	dir.write(t, "ca.crt", first["ca.crt"])

	source, err := serving.FilesWithClock(dir.path("tls.crt"), dir.path("tls.key"), dir.path("ca.crt"), clock)
	g.Expect(err).NotTo(HaveOccurred())
	told, logs := &bundles{}, &journal{}
	source.OnBundleChange(told.tell)
	running, stop := context.WithCancel(logs.into(t.Context()))
	done := make(chan error, 1)
	go func() { done <- source.Run(running) }()
	defer func() {
		stop()
		g.Eventually(done).Should(Receive(BeNil()))
	}()
	address, closeListener := listen(source)
	defer closeListener()
	old := source.Bundle()
	g.Expect(old).To(Equal(string(first["ca.crt"])))
	accepted := func(bundle string) func() error {
		return func() error {
			clock.Step(serving.LookEvery)
			_, err := shake(address, "hub.example.com", bundle, now)
			return err
		}
	}
	g.Expect(accepted(old)()).To(Succeed())

	// The next CA is announced; the old one still signs.
	dir.write(t, "ca.crt", first["ca.crt"], []byte("# the next one\n"), next["ca.crt"])
	g.Eventually(func() []string { clock.Step(serving.LookEvery); return told.all() }).Should(HaveLen(1))
	both := source.Bundle()
	g.Expect(both).To(Equal(string(first["ca.crt"]) + string(next["ca.crt"])))
	g.Expect(told.all()).To(HaveExactElements(both))
	g.Expect(accepted(old)()).To(Succeed(), "an operator that has not heard of the next CA yet")

	// Replacements that cannot be used, in every order in which files may change.
	for name, spoil := range map[string]func(){
		"no match":               func() { dir.write(t, "tls.crt", nextCert) },
		"The CAs do not verify":  func() { dir.write(t, "ca.crt", next["ca.crt"]) },
		"holds no certificate":   func() { dir.write(t, "ca.crt", []byte("oops")) },
		"holds a PEM block":      func() { dir.write(t, "ca.crt", key) },
		"failed to find any PEM": func() { dir.write(t, "tls.key", []byte("oops")) },
		"is missing":             func() { g.Expect(os.Remove(dir.path("tls.crt"))).To(Succeed()) },
	} {
		spoil()
		want := map[string]string{"no match": "private key does not match", "The CAs do not verify": "no operator would accept"}[name]
		if want == "" {
			want = name
		}
		g.Eventually(func() string { clock.Step(serving.LookEvery); return logs.String() }).Should(ContainSubstring(want))
		g.Expect(accepted(old)()).To(Succeed(), name)
		g.Expect(source.Bundle()).To(Equal(both), name)
		dir.write(t, "tls.crt", cert)
		dir.write(t, "tls.key", key)
		dir.write(t, "ca.crt", first["ca.crt"], next["ca.crt"])
	}
	g.Expect(logs.String()).NotTo(ContainSubstring("PRIVATE KEY-----"))

	// The next CA signs, and then is the only one.
	dir.write(t, "tls.crt", nextCert)
	dir.write(t, "tls.key", nextKey)
	g.Eventually(accepted(string(next["ca.crt"]))).Should(Succeed())
	g.Expect(accepted(old)()).NotTo(Succeed())
	g.Expect(told.all()).To(HaveLen(1), "the bundle has not changed")
	dir.write(t, "ca.crt", next["ca.crt"])
	g.Eventually(func() []string { clock.Step(serving.LookEvery); return told.all() }).Should(HaveExactElements(both, string(next["ca.crt"])))
	g.Expect(accepted(string(next["ca.crt"]))()).To(Succeed())
}

func TestFiles_asKubernetesMountsThem(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	clock := clocktesting.NewFakeClock(now)
	dir := t.TempDir()
	mount := func(version string, ca map[string][]byte) {
		t.Helper()
		cert, key := sign(t, ca, now)
		folder := on{filepath.Join(dir, version)}
		g.Expect(os.Mkdir(folder.dir, 0o700)).To(Succeed())
		folder.write(t, "tls.crt", cert)
		folder.write(t, "tls.key", key)
		folder.write(t, "ca.crt", ca["ca.crt"])
		g.Expect(os.Symlink(version, filepath.Join(dir, "..new"))).To(Succeed())
		g.Expect(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data"))).To(Succeed())
	}
	first, next := authority(t, now), authority(t, now)
	mount("1", first)
	data := on{filepath.Join(dir, "..data")}
	source, err := serving.FilesWithClock(data.path("tls.crt"), data.path("tls.key"), data.path("ca.crt"), clock)
	g.Expect(err).NotTo(HaveOccurred())
	go func() { _ = source.Run(t.Context()) }()
	mount("2", next)
	g.Eventually(func() string { clock.Step(serving.LookEvery); return source.Bundle() }).Should(Equal(string(next["ca.crt"])))
}

func TestFiles_refuses(t *testing.T) {
	now := time.Now()
	first, next := authority(t, now), authority(t, now)
	cert, key := sign(t, first, now)
	old := authority(t, now.AddDate(-1, 0, 0))
	expired, expiredKey := sign(t, old, now.AddDate(0, -6, 0))
	for name, tt := range map[string]struct {
		cert, key, ca []byte
		want          string
	}{
		"good":                      {cert, key, first["ca.crt"], ""},
		"public CA":                 {cert, key, nil, ""},
		"expired, but nothing else": {expired, expiredKey, old["ca.crt"], ""},
		"no certificate":            {nil, key, first["ca.crt"], "failed to find any PEM data"},
		"the key is another's":      {cert, next["tls.key"], first["ca.crt"], "private key does not match"},
		"another's CA":              {cert, key, next["ca.crt"], "no operator would accept certificate"},
		"the CA file holds a key":   {cert, key, key, `holds a PEM block "PRIVATE KEY"`},
		"the CA file holds nothing": {cert, key, []byte("\n"), "holds no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := on{t.TempDir()}
			dir.write(t, "tls.crt", tt.cert)
			dir.write(t, "tls.key", tt.key)
			ca := ""
			if tt.ca != nil {
				dir.write(t, "ca.crt", tt.ca)
				ca = dir.path("ca.crt")
			}
			source, err := serving.Files(dir.path("tls.crt"), dir.path("tls.key"), ca)
			if tt.want != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tt.want)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(source.Bundle()).To(Equal(string(tt.ca)))
		})
	}
	t.Run("missing", func(t *testing.T) {
		_, err := serving.Files(filepath.Join(t.TempDir(), "tls.crt"), "x", "")
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("file is missing")))
	})
}
