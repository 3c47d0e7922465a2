// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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
	shop := wire.Stack{Namespace: "retail", Name: "shop-0123456789"}
	delivery := wire.Delivery{UID: "5d1c7a0e-4f0b-4a37-9d38-6f4b7a0f2a11", Generation: 7, Digest: "9f86d081884c7d659a2feaa0c55ad015"}
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
		wire.TypeDeliver: &wire.Deliver{
			Stack: shop, Delivery: delivery, Schema: 1, Spec: json.RawMessage(`{"clusterID":"6f1c2f0e"}`),
			Inputs: []wire.Input{{Name: "shop-postgres-exports", Kind: "Exports", Revision: "8c1d", Data: map[string][]byte{"dsn": []byte("postgresql://")}}},
		},
		wire.TypeRemove:    &wire.Remove{Stack: shop},
		wire.TypeRemoved:   &wire.Removed{Stack: shop},
		wire.TypeInventory: &wire.Inventory{Stacks: []wire.Held{{Stack: shop, Delivery: delivery, Removing: true}}},
		wire.TypeDelivered: &wire.Delivered{Stack: shop, Delivery: delivery, Failure: wire.DeliverySchema, Message: "unknown field spec.later"},
		wire.TypeReport:    &wire.Report{Stack: shop, Delivery: delivery, Status: json.RawMessage(`{"phase":"Running"}`)},
		wire.TypeExports: &wire.Exports{
			Stack: shop, Component: "postgres", Revision: "8c1d", Data: map[string][]byte{"dsn": []byte("postgresql://")},
		},
		wire.TypeChunk: &wire.Chunk{ID: 1, Index: 2, Last: true, Data: []byte(`{"v":1}`)},
	}
}

// blank makes an empty message of a type to read into.
func blank(t wire.Type) any { return reflect.New(reflect.TypeOf(samples()[t]).Elem()).Interface() }

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

			var compact bytes.Buffer // raw JSON inside keeps its white space
			g.Expect(json.Compact(&compact, golden)).To(Succeed())
			envelope, err := wire.Decode(compact.Bytes())
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
	delivered := func(more string) string {
		return `{"namespace":"a","name":"b","uid":"u","digest":"d","generation":1` + more + `}`
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
		"a path for a name":       {wire.TypeRemove, `{"namespace":"a","name":"../b"}`, "name is none"},
		"no namespace":            {wire.TypeRemoved, `{"name":"b"}`, "name is none"},
		"a delivery of nothing":   {wire.TypeDeliver, delivered(``), "without a spec"},
		"the least delivery":      {wire.TypeDeliver, delivered(`,"spec":{}`), ""},
		"an input without kind":   {wire.TypeDeliver, delivered(`,"spec":{},"inputs":[{"name":"a","revision":"1"}]`), "kind or revision is none"},
		"a negative generation":   {wire.TypeDelivered, `{"namespace":"a","name":"b","uid":"u","digest":"d","generation":-1}`, "generation or digest"},
		"a failure of later":      {wire.TypeDelivered, delivered(`,"failure":"later"`), ""},
		"an empty inventory":      {wire.TypeInventory, `{"stacks":[]}`, ""},
		"held by nobody":          {wire.TypeInventory, `{"stacks":[{"namespace":"a","name":"b"}]}`, "uid, generation or digest"},
		"a report of nothing":     {wire.TypeReport, delivered(``), "a status of 0 bytes"},
		"exports of nobody":       {wire.TypeExports, `{"namespace":"a","name":"b","revision":"1"}`, "component or revision"},
		"exports are gone":        {wire.TypeExports, `{"namespace":"a","name":"b","component":"c","revision":"1"}`, ""},
		"an export of no name":    {wire.TypeExports, `{"namespace":"a","name":"b","component":"c","revision":"1","data":{"a b":"eA=="}}`, "an export's name"},
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

func TestExportsAreBoundedAndNeverRepeated(t *testing.T) {
	g := NewWithT(t)
	exports := wire.Exports{
		Stack: wire.Stack{Namespace: "a", Name: "b"}, Component: "c", Revision: "1",
		Data: map[string][]byte{"dsn": bytes.Repeat([]byte("secret"), wire.MaxExports/6+1)},
	}
	err := exports.Validate()
	g.Expect(err).To(MatchError(ContainSubstring("bytes, at most")))
	g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
}

func TestInventoryIsBounded(t *testing.T) {
	g := NewWithT(t)
	g.Expect((&wire.Inventory{Stacks: make([]wire.Held, wire.MaxStacks+1)}).Validate()).To(MatchError(ContainSubstring("at most 10000")))
}

// A full inventory has to fit into one message.
func TestTheLargestInventoryIsAMessage(t *testing.T) {
	g := NewWithT(t)
	held := wire.Held{
		Stack:    wire.Stack{Namespace: strings.Repeat("n", 20), Name: strings.Repeat("n", 60)},
		Delivery: wire.Delivery{UID: strings.Repeat("u", 36), Generation: 1_000_000, Digest: strings.Repeat("d", 32)},
	}
	frame, err := wire.Encode(wire.TypeInventory, wire.Inventory{Stacks: slices.Repeat([]wire.Held{held}, wire.MaxStacks)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(frame)).To(BeNumerically("<", wire.MaxMessage))
}

func TestDigestTellsSpecsApart(t *testing.T) {
	g := NewWithT(t)
	g.Expect(wire.Digest([]byte(`{"a":1}`))).To(Equal(wire.Digest([]byte(`{"a":1}`))))
	g.Expect(wire.Digest([]byte(`{"a":1}`))).NotTo(Equal(wire.Digest([]byte(`{"a":2}`))))
	g.Expect(wire.Digest(nil)).To(HaveLen(32))
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
