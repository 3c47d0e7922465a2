// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
)

var update = flag.Bool("update", false, "write testdata/*.json anew; look at the difference: it breaks operators in the field")

// samples has one message of each type, with every field set.
func samples() map[wire.Type]any {
	facts := wire.Facts{
		KubernetesVersion: "v1.37.2", Nodes: new(int32(3)),
		CPUTotal: new(int64(12_000)), CPUUsed: new(int64(0)),
		MemTotal: new(int64(48 << 30)), MemUsed: new(int64(17 << 30)),
		Source: wire.SourceMetrics, Error: "can't list nodes: forbidden", Unreachable: "connection refused",
	}
	return map[wire.Type]any{
		wire.TypeHello: &wire.Hello{
			Protocol: 1, Schema: 2, OperatorVersion: "0.3.1", ClusterUID: "6c1b7a0e-4f0b-4a37-9d38-6f4b7a0f2a11",
			Process: "9f0c", Time: time.Date(2026, 8, 24, 10, 30, 0, 123_000_000, time.UTC), Facts: facts,
		},
		wire.TypeHeartbeat: &wire.Heartbeat{Facts: &facts},
		wire.TypeStored:    &wire.Stored{ID: "c-1", Error: "secrets is forbidden"},
		wire.TypeGoodbye:   &wire.Goodbye{Reason: "operator is shutting down"},
		wire.TypeWelcome: &wire.Welcome{
			Session: "s-1", Epoch: 7, HubVersion: "0.3.2", Replica: "hub-0", Heartbeat: 12_000, DeadAfter: 40_000,
			CABundle: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		},
		wire.TypeRefused:    wire.Refuse(wire.ClassBusy, "the hub is full; it tries again by itself").After(5 * time.Second),
		wire.TypeCredential: &wire.Credential{ID: "c-1", Token: "header.claims.signature"},
		wire.TypeTrust:      &wire.Trust{ID: "t-1", CABundle: ""},
		wire.TypeMoving:     &wire.Moving{Within: 30_000, Reason: "the hub is being updated"},
		wire.TypeChunk:      &wire.Chunk{ID: 1, Index: 2, Last: true, Data: []byte(`{"v":1}`)},
	}
}

// blank makes an empty message of a type to read into.
func blank(t wire.Type) any {
	switch t {
	case wire.TypeHello:
		return &wire.Hello{}
	case wire.TypeHeartbeat:
		return &wire.Heartbeat{}
	case wire.TypeStored:
		return &wire.Stored{}
	case wire.TypeGoodbye:
		return &wire.Goodbye{}
	case wire.TypeWelcome:
		return &wire.Welcome{}
	case wire.TypeRefused:
		return &wire.Refusal{}
	case wire.TypeCredential:
		return &wire.Credential{}
	case wire.TypeTrust:
		return &wire.Trust{}
	case wire.TypeMoving:
		return &wire.Moving{}
	default:
		return &wire.Chunk{}
	}
}

func TestMessagesStayAsTheyAre(t *testing.T) {
	for kind, message := range samples() {
		t.Run(string(kind), func(t *testing.T) {
			g := NewWithT(t)
			frame, err := wire.Encode(kind, message)
			g.Expect(err).NotTo(HaveOccurred())

			file := filepath.Join("testdata", string(kind)+".json")
			if *update {
				var pretty bytes.Buffer
				g.Expect(json.Indent(&pretty, frame, "", "  ")).To(Succeed())
				g.Expect(os.WriteFile(file, append(pretty.Bytes(), '\n'), 0o600)).To(Succeed())
			}
			golden, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(frame).To(MatchJSON(golden))

			envelope, err := wire.Decode(golden)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(envelope.Type).To(Equal(kind))
			got := blank(kind)
			g.Expect(envelope.Read(got)).To(Succeed())
			g.Expect(got).To(Equal(message))
		})
	}
}

func TestEveryGoldenFileHasAMessage(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("testdata/*.json")
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		g.Expect(samples()).To(HaveKey(wire.Type(strings.TrimSuffix(filepath.Base(file), ".json"))))
	}
}

func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct{ frame, want string }{
		"empty":            {``, "malformed message: unexpected end"},
		"not JSON":         {`hello`, "malformed message: invalid character"},
		"not an object":    {`[]`, "malformed message: json: cannot unmarshal array"},
		"something after":  {`{"v":1,"type":"x"} {}`, "malformed message: invalid character"},
		"no version":       {`{"type":"x"}`, "malformed message: envelope version 0, want 1"},
		"a later version":  {`{"v":2,"type":"x"}`, "malformed message: envelope version 2, want 1"},
		"no type":          {`{"v":1}`, "malformed message: envelope without a type"},
		"an unknown type":  {`{"v":1,"type":"x"}`, ""},
		"an unknown field": {`{"v":1,"type":"x","later":true}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := wire.Decode([]byte(tc.frame))
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(wire.ErrMalformed))
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestRead(t *testing.T) {
	hello := func(change string) string {
		return `{"protocol":1,"clusterUID":"u","process":"p"` + change + `}`
	}
	long := `"` + strings.Repeat("x", wire.MaxName+1) + `"`
	for name, tc := range map[string]struct {
		kind wire.Type
		data string
		want string // "" is valid
	}{
		"the least hello":         {wire.TypeHello, hello(``), ""},
		"fields of a newer one":   {wire.TypeHello, hello(`,"later":{"a":1}`), ""},
		"no data":                 {wire.TypeHello, ``, "hello without data"},
		"a wrong type":            {wire.TypeHello, `{"protocol":"1"}`, "cannot unmarshal string"},
		"no protocol":             {wire.TypeHello, hello(`,"protocol":0`), "protocol 0"},
		"no cluster UID":          {wire.TypeHello, hello(`,"clusterUID":""`), "clusterUID is not an id"},
		"no process":              {wire.TypeHello, hello(`,"process":""`), "process is not an id"},
		"a long cluster UID":      {wire.TypeHello, hello(`,"clusterUID":` + long), "clusterUID is not an id"},
		"a shell's process":       {wire.TypeHello, hello(`,"process":"$(id)"`), "process is not an id"},
		"a process of two lines":  {wire.TypeHello, hello(`,"process":"a\nb"`), "process is not an id"},
		"every letter of an id":   {wire.TypeHello, hello(`,"process":"aZ0-._"`), ""},
		"a long version":          {wire.TypeHello, hello(`,"operatorVersion":` + long), "over 64 bytes"},
		"facts that can't be":     {wire.TypeHello, hello(`,"facts":{"nodes":-1}`), "nodes -1"},
		"a time of no calendar":   {wire.TypeHello, hello(`,"time":"yesterday"`), "parsing time"},
		"a heartbeat, no change":  {wire.TypeHeartbeat, `{}`, ""},
		"negative memory":         {wire.TypeHeartbeat, `{"facts":{"memUsed":-5}}`, "negative figure -5"},
		"negative processors":     {wire.TypeHeartbeat, `{"facts":{"cpuTotal":-5}}`, "negative figure -5"},
		"too many nodes":          {wire.TypeHeartbeat, `{"facts":{"nodes":3000000000}}`, "cannot unmarshal number"},
		"an unknown source":       {wire.TypeHeartbeat, `{"facts":{"source":"guess"}}`, `unknown source of usage "guess"`},
		"a long Kubernetes":       {wire.TypeHeartbeat, `{"facts":{"kubernetesVersion":` + long + `}}`, "over 64 bytes"},
		"stored what":             {wire.TypeStored, `{}`, "no id"},
		"a welcome without id":    {wire.TypeWelcome, `{"heartbeatMillis":1000,"deadAfterMillis":3000}`, "no session id"},
		"a welcome without time":  {wire.TypeWelcome, `{"session":"s"}`, "heartbeat 0s must be above zero"},
		"a refusal without class": {wire.TypeRefused, `{"message":"no"}`, `class ""`},
		"a retry in the past":     {wire.TypeRefused, `{"class":"busy","retryAfterMillis":-1}`, "retry after -1 ms"},
		"an unknown refusal":      {wire.TypeRefused, `{"class":"later"}`, ""},
		"a credential without id": {wire.TypeCredential, `{"token":"t"}`, "no id"},
		"no token":                {wire.TypeCredential, `{"id":"c"}`, "token of 0 bytes"},
		"trust without id":        {wire.TypeTrust, `{}`, "no id"},
		"move before now":         {wire.TypeMoving, `{"withinMillis":-1}`, "move within -1 ms"},
		"goodbye, no reason":      {wire.TypeGoodbye, `{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := wire.Envelope{Version: 1, Type: tc.kind, Data: json.RawMessage(tc.data)}.Read(blank(tc.kind))
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(wire.ErrMalformed))
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestWordsAreCutAndNotRefused(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("ä", wire.MaxText)
	facts := wire.Facts{Error: long, Unreachable: long}
	g.Expect(facts.Validate()).To(Succeed())
	stored := wire.Stored{ID: "c", Error: long}
	g.Expect(stored.Validate()).To(Succeed())
	goodbye := wire.Goodbye{Reason: long}
	g.Expect(goodbye.Validate()).To(Succeed())
	moving := wire.Moving{Reason: long}
	g.Expect(moving.Validate()).To(Succeed())
	refusal := wire.Refusal{Class: wire.ClassBusy, Message: long}
	g.Expect(refusal.Validate()).To(Succeed())
	for _, words := range []string{facts.Error, facts.Unreachable, stored.Error, goodbye.Reason, moving.Reason, refusal.Message} {
		g.Expect(len(words)).To(BeNumerically("<=", wire.MaxText))
		g.Expect(words).To(HaveSuffix("ä…"))
	}
}

func TestAnErrorNeverRepeatsAToken(t *testing.T) {
	g := NewWithT(t)
	token := strings.Repeat("secret", 1000)
	data, err := json.Marshal(wire.Credential{ID: "c", Token: token})
	g.Expect(err).NotTo(HaveOccurred())
	err = wire.Envelope{Type: wire.TypeCredential, Data: data}.Read(&wire.Credential{})
	g.Expect(err).To(MatchError(ContainSubstring("token of 6000 bytes")))
	g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
}

func TestFactsEqual(t *testing.T) {
	g := NewWithT(t)
	base := samples()[wire.TypeHeartbeat].(*wire.Heartbeat).Facts
	again := samples()[wire.TypeHeartbeat].(*wire.Heartbeat).Facts
	g.Expect(base.Equal(again)).To(BeTrue(), "pointers to equal figures")
	for name, change := range map[string]func(*wire.Facts){
		"version":     func(f *wire.Facts) { f.KubernetesVersion = "v1.38.0" },
		"nodes":       func(f *wire.Facts) { f.Nodes = nil },
		"cpu total":   func(f *wire.Facts) { f.CPUTotal = new(int64(1)) },
		"cpu used":    func(f *wire.Facts) { f.CPUUsed = nil },
		"mem total":   func(f *wire.Facts) { f.MemTotal = new(int64(1)) },
		"mem used":    func(f *wire.Facts) { f.MemUsed = nil },
		"source":      func(f *wire.Facts) { f.Source = "" },
		"error":       func(f *wire.Facts) { f.Error = "" },
		"unreachable": func(f *wire.Facts) { f.Unreachable = "" },
	} {
		other := *base
		change(&other)
		g.Expect(base.Equal(&other)).To(BeFalse(), name)
		g.Expect(other.Equal(base)).To(BeFalse(), name)
	}
}
