// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// index is of a repository's index.yaml what is needed.
type index struct {
	Entries map[string][]listed `json:"entries"`
}

type listed struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// shownVersions are those that a message names.
const shownVersions = 5

// fetchFromRepository looks the chart up in the index and fetches it.
func (f *Fetcher) fetchFromRepository(ctx context.Context, c *kubenestv1.Chart, access *Access) ([]byte, error) {
	base, err := url.Parse(strings.TrimSuffix(c.Repo, "/") + "/")
	if err != nil || base.Host == "" {
		return nil, unavailable("chart.repo is no URL, such as https://charts.example.com/stable")
	}
	found, err := f.lookUp(ctx, base, c, access)
	if err != nil {
		return nil, err
	}
	ref, err := url.Parse(found.URLs[0])
	if err != nil {
		return nil, unavailable("%s lists chart %s %s under a URL that is none", shown(base), c.Name, c.Version)
	}
	at := base.ResolveReference(ref)
	var data []byte
	switch at.Scheme {
	case "http", "https":
		data, err = get(ctx, at, access, base.Host, MaxPacked)
	case "oci":
		data, err = fetchListedImage(ctx, at, c.Version, base.Host, access)
	default:
		return nil, unavailable("%s lists chart %s %s under %s, which is neither http, https nor oci", shown(base), c.Name, c.Version, shown(at))
	}
	if err != nil {
		return nil, err
	}
	want := strings.TrimPrefix(found.Digest, "sha256:")
	if got := checksum(data); want != "" && want != got && at.Scheme != "oci" {
		return nil, mismatch(shown(at), want, got)
	}
	return data, nil
}

// lookUp finds one version of a chart in the index.
func (f *Fetcher) lookUp(ctx context.Context, base *url.URL, c *kubenestv1.Chart, access *Access) (*listed, error) {
	at := base.ResolveReference(&url.URL{Path: "index.yaml"})
	at.RawQuery = base.RawQuery
	data, err := get(ctx, at, access, base.Host, MaxIndex)
	if err != nil {
		return nil, err
	}
	idx, err := f.parse(ctx, data)
	if ctx.Err() != nil {
		return nil, unreachable(shown(base), ctx.Err())
	}
	if err != nil || len(idx.Entries) == 0 {
		return nil, unavailable("%s is no index of a chart repository: check chart.repo", shown(at))
	}
	versions, ok := idx.Entries[c.Name]
	if !ok {
		return nil, unavailable("%s has no chart %s: check chart.name", shown(at), c.Name)
	}
	i := slices.IndexFunc(versions, func(l listed) bool { return l.Version == c.Version && len(l.URLs) > 0 })
	if i < 0 {
		names := make([]string, 0, shownVersions)
		for _, v := range versions[:min(len(versions), shownVersions)] {
			names = append(names, v.Version)
		}
		return nil, unavailable("%s has no version %s of chart %s: it has %s, and %d in all",
			shown(at), c.Version, c.Name, strings.Join(names, ", "), len(versions))
	}
	return &versions[i], nil
}

// parse reads an index when no other is read. Nobody waits for another's repository.
func (f *Fetcher) parse(ctx context.Context, data []byte) (idx index, err error) {
	select {
	case f.index <- struct{}{}:
		defer func() { <-f.index }()
	case <-ctx.Done():
		return idx, ctx.Err()
	}
	err = yaml.Unmarshal(data, &idx)
	return idx, err
}

// fetchListedImage fetches a chart that a repository lists, and a registry has. Its
// URL may have a tag; credentials are for the repository's host only.
func fetchListedImage(ctx context.Context, at *url.URL, version, host string, access *Access) ([]byte, error) {
	name := at.Path
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name, version = name[:i], name[i+1:]
	}
	open := &Access{CA: access.CA}
	if at.Host == host {
		open = access
	}
	return fetchImage(ctx, "oci://"+at.Host+name, version, open)
}
