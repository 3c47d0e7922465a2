// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/time/rate"
)

// failureBuckets is how many sources and claimed clusters are told apart. Two that
// fall together share a budget of failures, which costs only those that fail.
const failureBuckets = 4096

// failures slows those down whose token does not verify, by source and claimed
// cluster: a balancer or a NAT puts many clusters behind one address, so one of
// them alone would be unjust. Being a table of fixed size, nobody can fill it.
type failures struct {
	seed    maphash.Seed
	buckets []*rate.Limiter
}

func newFailures(l Limits) *failures {
	f := &failures{seed: maphash.MakeSeed(), buckets: make([]*rate.Limiter, failureBuckets)}
	for i := range f.buckets {
		f.buckets[i] = rate.NewLimiter(rate.Limit(l.Failures.PerSecond), l.Failures.Burst)
	}
	return f
}

// tooMany counts a failure, and reports whether there were too many.
func (f *failures) tooMany(source netip.Addr, claimed string) bool {
	key := source.String() + " " + claimed
	return !f.buckets[maphash.String(f.seed, key)%failureBuckets].Allow()
}

// sourceOf is where a request is from: the peer, or if that is a trusted proxy the
// last hop in X-Forwarded-For that is not one. IPv6 sources are taken for their
// /64, of which a single host has all addresses.
func sourceOf(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	source := peer.Addr().Unmap().WithZone("")
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !within(source, trusted) {
			break
		}
		addr, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			break
		}
		source = addr
	}
	if source.Is6() {
		net, _ := source.Prefix(64) // an IPv6 address always has one
		return net.Addr()
	}
	return source
}

// parseHop reads an address, with or without port.
func parseHop(hop string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(hop); err == nil {
		hop = host
	}
	addr, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}

func within(a netip.Addr, prefixes []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
