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

	"github.com/kubenest/kubenest/api/socket"
)

// budgetBuckets is how many buckets a table of budgets has.
const budgetBuckets = 4096

// budgets bound how often something happens, by a key that peers choose. Being a
// table of fixed size, nobody can fill it. A key has two buckets of it and is over
// its budget when both are empty: sharing one with somebody costs nothing.
type budgets struct {
	seed    maphash.Seed
	buckets []*rate.Limiter
}

func newBudgets(b socket.Budget) *budgets {
	f := &budgets{seed: maphash.MakeSeed(), buckets: make([]*rate.Limiter, budgetBuckets)}
	for i := range f.buckets {
		f.buckets[i] = rate.NewLimiter(rate.Limit(b.PerSecond), b.Burst)
	}
	return f
}

// tooMany counts one, and reports whether there were too many.
func (f *budgets) tooMany(key string) bool {
	hash := maphash.String(f.seed, key)
	first := f.buckets[hash%budgetBuckets].Allow()
	second := f.buckets[hash>>32%budgetBuckets].Allow()
	return !first && !second
}

// failureKey is what failures are counted by: a balancer or a NAT puts many
// clusters behind one address, so an address alone would be unjust.
func failureKey(source netip.Addr, claimed string) string { return source.String() + " " + claimed }

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
