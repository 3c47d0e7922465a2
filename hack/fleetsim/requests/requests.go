// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests counts the requests that an API server answered, as it counts
// them itself in its metrics.
package requests

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
)

// metric is where an API server counts its requests.
const metric = "apiserver_request_total"

// Kind of a request.
type Kind struct {
	// Verb as the API server's metrics have it, in capitals: a server-side apply is
	// APPLY. A watch is counted when it ends.
	Verb string
	// Group, Resource and Subresource that it is about. A request that is about none,
	// such as a probe, has its path as Subresource.
	Group, Resource, Subresource string
}

// Write reports whether a request of this kind may change something.
func (k Kind) Write() bool {
	switch k.Verb {
	case "GET", "LIST", "WATCH", "CONNECT":
		return false
	default:
		return true
	}
}

// About reports whether a request of this kind is about objects, and not a probe
// or the like.
func (k Kind) About() bool { return k.Resource != "" }

// Lease reports whether a request of this kind is about Leases, which are how
// programs say that they live.
func (k Kind) Lease() bool { return k.Group == "coordination.k8s.io" && k.Resource == "leases" }

// String is short, as in "PUT leases.coordination.k8s.io".
func (k Kind) String() string {
	text := k.Verb + " " + k.Resource
	if k.Group != "" {
		text += "." + k.Group
	}
	if k.Subresource != "" {
		text += "/" + strings.TrimPrefix(k.Subresource, "/")
	}
	return text
}

// Counts are the requests so far, by kind.
type Counts map[Kind]int

// Scrape reads the counts from an API server.
func Scrape(ctx context.Context, config *rest.Config) (Counts, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client for metrics: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/metrics", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: the API server answers %s", response.Status)
	}
	return parse(response.Body)
}

func parse(text io.Reader) (Counts, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("parse metrics: %w", err)
	}
	family, ok := families[metric]
	if !ok {
		return nil, fmt.Errorf("the metrics hold no %s: are they an API server's?", metric)
	}
	counts := Counts{}
	for _, m := range family.GetMetric() {
		var k Kind
		for _, label := range m.GetLabel() {
			switch label.GetName() {
			case "verb":
				k.Verb = label.GetValue()
			case "group":
				k.Group = label.GetValue()
			case "resource":
				k.Resource = label.GetValue()
			case "subresource":
				k.Subresource = label.GetValue()
			}
		}
		counts[k] += int(m.GetCounter().GetValue())
	}
	return counts, nil
}

// Since are the requests after an earlier scrape.
func (c Counts) Since(before Counts) Counts {
	after := Counts{}
	for k, n := range c {
		if n -= before[k]; n != 0 {
			after[k] = n
		}
	}
	return after
}

// Only are the requests of some kinds.
func (c Counts) Only(which func(Kind) bool) Counts {
	some := maps.Clone(c)
	maps.DeleteFunc(some, func(k Kind, _ int) bool { return !which(k) })
	return some
}

// Total of all kinds.
func (c Counts) Total() int {
	total := 0
	for _, n := range c {
		total += n
	}
	return total
}

// String lists them, the most frequent first.
func (c Counts) String() string {
	if len(c) == 0 {
		return "none"
	}
	kinds := slices.SortedFunc(maps.Keys(c), func(a, b Kind) int {
		return cmp.Or(c[b]-c[a], strings.Compare(a.String(), b.String()))
	})
	parts := make([]string, 0, len(kinds))
	for _, k := range kinds {
		parts = append(parts, fmt.Sprintf("%d × %s", c[k], k))
	}
	return strings.Join(parts, ", ")
}
