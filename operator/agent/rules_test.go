// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
)

func TestEndpoint(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"https://hub.example.com":                        "wss://hub.example.com/ws/operator",
		"https://hub.example.com/":                       "wss://hub.example.com/ws/operator",
		"  https://hub.example.com:8443\n":               "wss://hub.example.com:8443/ws/operator",
		"https://example.com/kubenest":                   "wss://example.com/kubenest/ws/operator",
		"https://example.com/kubenest//":                 "wss://example.com/kubenest/ws/operator",
		"https://example.com/a%20b/":                     "wss://example.com/a%20b/ws/operator",
		"wss://hub.example.com/ws/operator":              "wss://hub.example.com/ws/operator",
		"HTTPS://hub.example.com":                        "wss://hub.example.com/ws/operator",
		"https://[2001:db8::1]:8443":                     "wss://[2001:db8::1]:8443/ws/operator",
		"https://hub.kubenest.svc.cluster.local/prefix/": "wss://hub.kubenest.svc.cluster.local/prefix/ws/operator",
	}
	for in, want := range good {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			u, err := Endpoint(in, false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(u.String()).To(Equal(want))
		})
	}
	bad := map[string]string{
		"":                                   "empty",
		"hub.example.com":                    "no scheme",
		"hub.example.com:8443":               "no scheme",
		"https://":                           "no host",
		"https://:8443":                      "no host",
		"http://hub.example.com":             "--insecure-plain-http",
		"ws://hub.example.com":               "--insecure-plain-http",
		"ftp://hub.example.com":              "ftp://",
		"https://user:hunter2@example.com":   "user name",
		"user:hunter2@example.com":           "user name",
		"https://user:hunter2@exa mple.com":  "user name",
		"https://hub.example.com?token=secr": "\"?\"",
		"https://hub.example.com/?":          "\"?\"",
		"https://hub.example.com/#part":      "\"#\"",
		"https://hub.example.com:port":       "can not be read",
		"https://hub example.com":            "can not be read",
	}
	for in, want := range bad {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			_, err := Endpoint(in, false)
			g.Expect(err).To(MatchError(ContainSubstring(want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
			if !strings.Contains(want, "insecure") {
				g.Expect(err.Error()).To(ContainSubstring("https://hub.example.com"), "it says what is expected")
			}
		})
	}
	NewWithT(t).Expect(Endpoint("http://127.0.0.1:8080/", true)).To(HaveField("Scheme", "ws"))
}

func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{"https://hub.example.com/x/", "http://", "wss://[::1", "user:pass@x", "https://a/%zz?#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := Endpoint(text, false)
		if err != nil {
			return
		}
		if u.Scheme != "wss" || u.Host == "" || !strings.HasSuffix(u.Path, wire.Path) || u.User != nil || u.RawQuery != "" {
			t.Errorf("Endpoint(%q) = %q", text, u)
		}
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	busy := func(after time.Duration) *wire.Refusal { return wire.Refuse(wire.ClassBusy, "").After(after) }
	cases := map[string]struct {
		failures       int
		refusal        *wire.Refusal
		least, longest time.Duration
	}{
		"first failure":                       {0, nil, 0, time.Second},
		"second":                              {1, nil, 0, 2 * time.Second},
		"sixth":                               {5, nil, 0, 32 * time.Second},
		"seventh":                             {6, nil, 0, time.Minute},
		"much later":                          {1 << 20, nil, 0, time.Minute},
		"a refusal that may pass":             {0, wire.Refuse(wire.ClassUnauthorized, ""), 0, time.Second},
		"a refusal that people mend":          {0, wire.Refuse(wire.ClassRevoked, ""), 30 * time.Second, time.Minute},
		"asked to wait":                       {0, busy(20 * time.Second), 20 * time.Second, 30 * time.Second},
		"asked to wait shorter than it would": {6, busy(time.Second), time.Second, time.Minute},
		"asked to wait a year":                {0, busy(8760 * time.Hour), 10 * time.Minute, 15 * time.Minute},
		"mended by people, and asked to wait less": {0, wire.Refuse(wire.ClassDuplicate, "").After(time.Second), 30 * time.Second, time.Minute},
		"asked to wait for ever":                   {0, &wire.Refusal{Class: wire.ClassBusy, RetryAfter: 1 << 62}, 10 * time.Minute, 15 * time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			low, high := backoff{failures: tc.failures}, backoff{failures: tc.failures}
			g.Expect(low.next(tc.refusal, 0)).To(Equal(tc.least))
			g.Expect(high.next(tc.refusal, 0.999999)).To(And(BeNumerically("<=", tc.longest), BeNumerically(">", tc.longest-tc.longest/100)))
			g.Expect(low.failures).To(Equal(tc.failures + 1))
			low.reset()
			g.Expect(low.next(nil, 0.999999)).To(BeNumerically("<", time.Second))
		})
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		ages []float64 // seconds
		want string
	}{
		"a proxy's limit":      {[]float64{60.2, 60.9, 60.1, 60.4, 60.8}, "closed 5 times after 60±1 s"},
		"after one that lived": {[]float64{4000, 300.2, 300.9, 300.1, 300.4, 300.8}, "closed 5 times after 300±1 s"},
		"too few":              {[]float64{60, 60, 60, 60}, ""},
		"here and there":       {[]float64{60, 75, 60, 61, 60}, ""},
		"a hub that crashes":   {[]float64{1, 1, 1, 1, 1}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p pattern
			hint := ""
			for _, age := range tc.ages {
				hint = p.add(time.Duration(age * float64(time.Second)))
			}
			if got := tc.want == "" && hint == "" || tc.want != "" && strings.HasPrefix(hint, tc.want); !got {
				t.Errorf("hint %q, want %q", hint, tc.want)
			}
			p.clear()
			if hint := p.add(time.Minute); hint != "" {
				t.Errorf("hint after clear: %q", hint)
			}
		})
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	token := func(raw string, generation int64, expires time.Duration) Token {
		return Token{raw: raw, Issuer: "hub", Subject: "cluster", Generation: generation, Expires: now.Add(expires)}
	}
	chart := token("chart", 2, time.Hour)
	other := func(change func(*Token)) *Token {
		tok := token("stored", 9, 9*time.Hour)
		change(&tok)
		return &tok
	}
	same := func(t Token) *Token { return &t }
	cases := map[string]struct {
		stored *Token
		want   string
	}{
		"nothing stored":                         {nil, "chart"},
		"a higher generation comes first":        {same(token("stored", 3, time.Minute)), "stored chart"},
		"a lower generation comes last":          {same(token("stored", 1, 9*time.Hour)), "chart stored"},
		"of one generation, what lasts longer":   {same(token("stored", 2, 2*time.Hour)), "stored chart"},
		"of one generation, what ends sooner":    {same(token("stored", 2, time.Minute)), "chart stored"},
		"a token without an end lasts longest":   {other(func(t *Token) { t.Generation, t.Expires = 2, time.Time{} }), "stored chart"},
		"expired tokens are the hub's to refuse": {same(token("stored", 3, -time.Hour)), "stored chart"},
		"of another cluster":                     {other(func(t *Token) { t.Subject = "x" }), "chart"},
		"of another hub":                         {other(func(t *Token) { t.Issuer = "x" }), "chart"},
		"the very same":                          {&chart, "chart"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range Candidates(chart, tc.stored) {
				got = append(got, c.Raw())
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("candidates %q, want %q", s, tc.want)
			}
		})
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJhIiwic3ViIjoiYiIsImdlbiI6M30.")
	f.Add("a.b.c")
	f.Add("")
	f.Fuzz(func(t *testing.T, raw string) {
		token, err := ParseToken(raw)
		if err != nil {
			if len(raw) > 20 && strings.Contains(err.Error(), raw) {
				t.Errorf("the error quotes the token: %v", err)
			}
			return
		}
		for _, shown := range []string{
			fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s %q", token, &token, token, token, token), fmt.Sprint(token.MarshalLog()),
		} {
			if strings.Contains(shown, raw) {
				t.Errorf("shows the token: %s", shown)
			}
		}
	})
}

func TestCheckBundle(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(CheckBundle("")).To(Succeed())
	g.Expect(CheckBundle("\n ")).To(Succeed())
	g.Expect(CheckBundle("hello")).To(MatchError(ContainSubstring("not PEM")))
	g.Expect(CheckBundle("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----")).To(MatchError(ContainSubstring("PRIVATE KEY")))
	g.Expect(CheckBundle("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")).NotTo(Succeed())
}

func FuzzCheckBundle(f *testing.F) {
	f.Add("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
	f.Fuzz(func(_ *testing.T, bundle string) { _ = CheckBundle(bundle) })
}

func TestRedact(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	token := Token{raw: "abc"}
	g.Expect(redact("got abc", token)).To(Equal("got [redacted]"))
	g.Expect(redact("half of one: eyJhbGciOi", token)).To(Equal("half of one: [redacted]"))
}
