// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// Limits of what is fetched.
const (
	// MaxIndex is how many bytes a repository's index may have.
	MaxIndex = 20 << 20
	// MaxPacked is how many bytes a packaged chart may have.
	MaxPacked = 10 << 20
	// fetchTimeout is how long a fetch may take, index and chart together.
	fetchTimeout = 60 * time.Second
	// maxManifest is how many bytes an image manifest may have, and any answer about
	// tokens.
	maxManifest = 1 << 20
)

// Keys of the Secret that chart.secretRef names.
const (
	KeyUsername = "username"
	KeyPassword = "password"
	KeyCA       = "ca.crt"
)

// Access is what opens a repository or registry. The zero value opens those that are
// open to everybody.
type Access struct {
	Username string
	Password string
	// CA in PEM, trusted beside the system's.
	CA []byte
}

// AccessFrom reads the data of a Secret.
func AccessFrom(data map[string][]byte) Access {
	return Access{Username: string(data[KeyUsername]), Password: string(data[KeyPassword]), CA: data[KeyCA]}
}

// Fetcher fetches charts, and keeps those that were used last. It is safe for
// concurrent use.
type Fetcher struct {
	charts *cache
	index  chan struct{} // one index is parsed at a time: the largest take 100 MB
}

// NewFetcher makes a fetcher.
func NewFetcher() *Fetcher {
	return &Fetcher{charts: newCache(), index: make(chan struct{}, 1)}
}

// Fetch is the packaged chart that c names by repo or oci. Errors are *stack.Problem.
func (f *Fetcher) Fetch(ctx context.Context, c *kubenestv1.Chart, access *Access) ([]byte, error) {
	key := cacheKey(c, access)
	if data, ok := f.charts.get(key); ok {
		return data, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var data []byte
	var err error
	if c.OCI != "" {
		data, err = fetchImage(ctx, c.OCI, c.Version, access)
	} else {
		data, err = f.fetchFromRepository(ctx, c, access)
	}
	if err != nil {
		return nil, err
	}
	f.charts.put(key, data)
	return data, nil
}

// cacheKey has the credentials in it, so that nobody gets what others may fetch.
func cacheKey(c *kubenestv1.Chart, access *Access) string {
	text, err := json.Marshal([]any{c.Repo, c.Name, c.OCI, c.Version, access.Username, access.Password, access.CA})
	if err != nil {
		text = nil // strings and bytes can be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// unavailable is the Problem of a chart that can't be fetched.
func unavailable(format string, args ...any) *stack.Problem {
	return stack.Refuse(kubenestv1.ReasonChartUnavailable, format, args...)
}

// shown is a URL without what may be secret in it.
func shown(u *url.URL) string {
	plain := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return plain.String()
}

// tooLarge is the Problem of an answer over a limit.
func tooLarge(what, where string, limit int64) *stack.Problem {
	return unavailable("%s at %s has over %d MiB, which is the limit", what, where, limit>>20)
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func mismatch(where, want, got string) *stack.Problem {
	return unavailable("the chart at %s is not the one that its repository lists: sha256 %s, expected %s; "+
		"the file was changed after the index was made, or on the way", where, short(got), short(want))
}

func short(digest string) string {
	const enough = 12
	if len(digest) <= enough {
		return digest
	}
	return fmt.Sprintf("%s…", digest[:enough])
}
