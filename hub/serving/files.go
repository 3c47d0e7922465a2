// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/utils/clock"
)

// lookEvery is how often the files are read. They are small, and mounted
// Secrets change within a minute anyway; reading them needs no care for the
// ways in which they are replaced, as watching them does.
const lookEvery = 5 * time.Second

// files are the three files, read together.
type files struct {
	cert, key, ca string
	clock         clock.WithTicker
	last          [3][]byte
}

// Files makes a Source of PEM files: the certificate with its intermediates, its
// key, and the CA bundle that operators are to use. caFile is empty if they are
// to use the public authorities. Changed files are used when they fit together.
func Files(certFile, keyFile, caFile string) (*Source, error) {
	return newFiles(certFile, keyFile, caFile, clock.RealClock{})
}

func newFiles(certFile, keyFile, caFile string, c clock.WithTicker) (*Source, error) {
	f := &files{cert: certFile, key: keyFile, ca: caFile, clock: c}
	s := &Source{run: f.run}
	contents, err := f.read()
	if err != nil {
		return nil, err
	}
	first, err := f.parse(contents)
	if err != nil {
		return nil, err
	}
	f.last = contents
	s.state.Store(first)
	return s, nil
}

func (f *files) run(ctx context.Context, s *Source) error {
	log := loggerFrom(ctx)
	ticker := f.clock.NewTicker(lookEvery)
	defer ticker.Stop()
	missing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		contents, err := f.read()
		if err != nil {
			if !missing {
				log.Error(err, "Certificate files cannot be read: what was read before stays in force")
			}
			missing = true
			continue
		}
		missing = false
		if same(contents, f.last) {
			continue
		}
		f.last = contents // what cannot be used is complained of once
		next, err := f.parse(contents)
		if err != nil {
			log.Error(err, "Changed certificate files cannot be used: what was in force stays")
			continue
		}
		s.swap(next, log)
	}
}

func (f *files) read() (contents [3][]byte, err error) {
	for i, name := range []string{f.cert, f.key, f.ca} {
		if name == "" && i == 2 {
			continue
		}
		contents[i], err = os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return contents, fmt.Errorf("certificate, key or CA file is missing: %w", err)
		}
		if err != nil {
			return contents, fmt.Errorf("read certificate files: %w", err)
		}
	}
	return contents, nil
}

func same(a, b [3][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// parse makes a state of the files' contents, if they fit together.
func (f *files) parse(contents [3][]byte) (*state, error) {
	certificate, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: %w", f.cert, f.key, err)
	}
	if f.ca == "" {
		return &state{certificate: &certificate}, nil
	}
	bundle, pool, err := parseBundle(contents[2])
	if err != nil {
		return nil, fmt.Errorf("CA file %s %w", f.ca, err)
	}
	if err := verifies(pool, &certificate); err != nil {
		return nil, fmt.Errorf("no operator would accept certificate %s: the CAs in %s do not verify it: %w", f.cert, f.ca, err)
	}
	return &state{certificate: &certificate, bundle: bundle}, nil
}
