// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
)

func TestShorten(t *testing.T) {
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"", 10, ""},
		{"short", 5, "short"},
		{"longer", 5, "lo…"},
		{"ääää", 8, "ääää"},
		{"äääää", 8, "ää…"},
		{"日本語日本語", 9, "日本…"},
		{"\x80\x80\x80\x80\x80", 4, "…"},
	} {
		got := wire.Shorten(tc.text, tc.n)
		NewWithT(t).Expect(got).To(Equal(tc.want), "Shorten(%q, %d)", tc.text, tc.n)
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain, with ümlauts":       "plain, with ümlauts",
		"a\x1b[2J\x1b[1;31mfake":    "a [2J [1;31mfake",
		"two\nlines\r\ttabs\x00":    "two lines  tabs ",
		"\u202egnp.exe\u2066\u200b": " gnp.exe  ",
		"\u009b31mC1":               " 31mC1",
		"not \xff UTF-8":            "not ? UTF-8",
		"much too long":             "much too long",
	} {
		NewWithT(t).Expect(wire.Line(text, 40)).To(Equal(want), "%q", text)
	}
	NewWithT(t).Expect(wire.Line("longer", 5)).To(Equal("lo…"))
}

func TestErrorsAreBounded(t *testing.T) {
	g := NewWithT(t)
	number := strings.Repeat("9", 20<<10)
	e, err := wire.Decode([]byte(`{"v":1,"type":"heartbeat","data":{"facts":{"nodes":` + number + `}}}`))
	g.Expect(err).NotTo(HaveOccurred())
	err = e.Read(&wire.Heartbeat{})
	g.Expect(err).To(MatchError(wire.ErrMalformed))
	g.Expect(len(err.Error())).To(BeNumerically("<", 512))
	_, err = wire.Decode([]byte(`{"v":` + number + `}`))
	g.Expect(err).To(MatchError(wire.ErrMalformed))
	g.Expect(len(err.Error())).To(BeNumerically("<", 512))
}

func FuzzShorten(f *testing.F) {
	f.Add("äöü", 4)
	f.Add("plain", 3)
	f.Fuzz(func(t *testing.T, text string, n int) {
		if n < 3 {
			t.Skip("there is no room for the ellipsis")
		}
		got := wire.Shorten(text, n)
		if len(got) > n {
			t.Errorf("Shorten(%q, %d) = %q, of %d bytes", text, n, got, len(got))
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("Shorten(%q, %d) = %q, which cuts a rune", text, n, got)
		}
	})
}

func TestTimingValidate(t *testing.T) {
	for _, tc := range []struct {
		timing wire.Timing
		want   string
	}{
		{wire.DefaultTiming, ""},
		{wire.Timing{Heartbeat: time.Second, DeadAfter: 3 * time.Second}, ""},
		{wire.Timing{}, "must be above zero"},
		{wire.Timing{Heartbeat: -1, DeadAfter: time.Minute}, "must be above zero"},
		{wire.Timing{Heartbeat: 11 * time.Minute, DeadAfter: time.Hour}, "at most 10m"},
		{wire.Timing{Heartbeat: 12 * time.Second, DeadAfter: 35 * time.Second}, "at least three heartbeats (3 × 12s = 36s)"},
		{wire.Timing{Heartbeat: time.Second, DeadAfter: 2 * time.Hour}, "at most 1h"},
	} {
		g := NewWithT(t)
		if err := tc.timing.Validate(); tc.want == "" {
			g.Expect(err).NotTo(HaveOccurred())
		} else {
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		}
	}
}

func TestASilentPeerShowsWithin45Seconds(t *testing.T) {
	NewWithT(t).Expect(wire.DefaultTiming.DeadAfter).To(BeNumerically("<", 45*time.Second))
}

func TestEndings(t *testing.T) {
	g := NewWithT(t)
	told := map[wire.Ending]int{
		wire.EndMoving: 4000, wire.EndGoodbye: 4001, wire.EndReplaced: 4002, wire.EndRevoked: 4003,
		wire.EndUnknownCluster: 4004, wire.EndRefused: 4005, wire.EndProtocol: 4006, wire.EndFlooding: 4007,
		wire.EndSlow: 4008, wire.EndSilent: 4009,
	}
	for ending, code := range told {
		g.Expect(ending.Code()).To(Equal(code), "codes are on the wire: %s", ending)
		g.Expect(wire.EndingOf(code)).To(Equal(ending))
		g.Expect(ending.Planned()).To(Equal(ending == wire.EndMoving || ending == wire.EndReplaced), "%s", ending)
	}
	g.Expect(wire.EndLost.Code()).To(Equal(1001))
	for _, code := range []int{0, 1000, 1001, 1006, 3000, 4010, 4999} {
		g.Expect(wire.EndingOf(code)).To(Equal(wire.EndLost), "%d", code)
	}
}

func TestRefusals(t *testing.T) {
	for class, tc := range map[wire.Class]struct {
		status    int
		retriable bool
	}{
		wire.ClassUnauthorized:   {http.StatusUnauthorized, true},
		wire.ClassNotYetValid:    {http.StatusUnauthorized, true},
		wire.ClassExpired:        {http.StatusUnauthorized, false},
		wire.ClassRevoked:        {http.StatusUnauthorized, false},
		wire.ClassUnknownCluster: {http.StatusUnauthorized, false},
		wire.ClassConflict:       {http.StatusConflict, false},
		wire.ClassDuplicate:      {http.StatusConflict, false},
		wire.ClassUnsupported:    {http.StatusUpgradeRequired, false},
		wire.ClassBusy:           {http.StatusServiceUnavailable, true},
		"of a newer hub":         {http.StatusUnauthorized, true},
	} {
		g := NewWithT(t)
		g.Expect(class.HTTPStatus()).To(Equal(tc.status), "%s", class)
		g.Expect(class.Retriable()).To(Equal(tc.retriable), "%s", class)
	}
	err := wire.Refuse(wire.ClassBusy, "try %s", "later").After(1500 * time.Millisecond)
	NewWithT(t).Expect(err).To(MatchError("refused (busy): try later"))
	NewWithT(t).Expect(err.RetryAfter).To(BeEquivalentTo(1500))
}
