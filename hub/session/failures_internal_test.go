// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/http"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
)

func TestSourceOf(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}
	for name, tc := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"a peer":                       {"192.0.2.1:5000", nil, "192.0.2.1"},
		"an untrusted peer's word":     {"192.0.2.1:5000", []string{"198.51.100.7"}, "192.0.2.1"},
		"a proxy without a word":       {"10.0.0.1:5000", nil, "10.0.0.1"},
		"a proxy's word":               {"10.0.0.1:5000", []string{"198.51.100.7"}, "198.51.100.7"},
		"what the client made up":      {"10.0.0.1:5000", []string{"203.0.113.1, 198.51.100.7"}, "198.51.100.7"},
		"two proxies":                  {"10.0.0.1:5000", []string{"203.0.113.1, 198.51.100.7,10.0.0.2"}, "198.51.100.7"},
		"two headers":                  {"10.0.0.1:5000", []string{"203.0.113.1", "198.51.100.7"}, "198.51.100.7"},
		"only proxies":                 {"10.0.0.1:5000", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"rubbish behind a proxy":       {"10.0.0.1:5000", []string{"unknown, 10.0.0.2"}, "10.0.0.2"},
		"an empty header":              {"10.0.0.1:5000", []string{""}, "10.0.0.1"},
		"a hop with a port":            {"10.0.0.1:5000", []string{"198.51.100.7:4711"}, "198.51.100.7"},
		"IPv4 in IPv6":                 {"[::ffff:192.0.2.1]:5000", nil, "192.0.2.1"},
		"IPv6 is its /64":              {"[2001:db8:2:3:4:5:6:7]:5000", nil, "2001:db8:2:3::"},
		"an IPv6 proxy":                {"[2001:db8:1::1]:5000", []string{"2001:db8:2:3:4:5:6:7"}, "2001:db8:2:3::"},
		"a bracketed hop":              {"10.0.0.1:5000", []string{"[2001:db8:2:3:4:5:6:7]:99"}, "2001:db8:2:3::"},
		"a zone":                       {"[fe80::1%eth0]:5000", nil, "fe80::"},
		"no address at all":            {"@", []string{"198.51.100.7"}, "invalid IP"},
		"a trusted proxy in IPv6 form": {"[::ffff:10.0.0.1]:5000", []string{"198.51.100.7"}, "198.51.100.7"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tc.peer, Header: http.Header{"X-Forwarded-For": tc.forwarded}}
			NewWithT(t).Expect(sourceOf(r, trusted).String()).To(Equal(tc.want))
		})
	}
}

func FuzzSourceOf(f *testing.F) {
	f.Add("10.0.0.1:5000", "203.0.113.1, [2001:db8::1]:5, ,unknown")
	trusted := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	f.Fuzz(func(_ *testing.T, peer, forwarded string) {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {forwarded}}}
		_ = sourceOf(r, trusted).String()
	})
}
