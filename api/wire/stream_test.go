// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
)

func TestStreamOpening(t *testing.T) {
	g := NewWithT(t)
	var b bytes.Buffer
	request := wire.LogRequest{Namespace: "shop", App: "web", Follow: true, TailLines: new(int64(5))}
	g.Expect(wire.WriteStreamHeader(&b, wire.StreamLogs, &request)).To(Succeed())
	g.Expect(wire.WriteStreamAnswer(&b, nil)).To(Succeed())
	g.Expect(wire.WriteStreamAnswer(&b, wire.FailStream(wire.StreamBusy, "later"))).To(Succeed())
	b.WriteString("rest")

	r := bufio.NewReaderSize(&b, 16)
	header, err := wire.ReadStreamHeader(r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(header.Kind).To(Equal(wire.StreamLogs))
	var got wire.LogRequest
	g.Expect(header.Read(&got)).To(Succeed())
	g.Expect(got).To(Equal(request))
	g.Expect(wire.ReadStreamAnswer(r)).To(Succeed())
	var failure *wire.StreamAnswer
	g.Expect(errors.As(wire.ReadStreamAnswer(r), &failure)).To(BeTrue())
	g.Expect(*failure).To(Equal(wire.StreamAnswer{Class: wire.StreamBusy, Message: "later"}))
	rest, err := io.ReadAll(r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(rest)).To(Equal("rest"))
}

func TestStreamOpeningIsBounded(t *testing.T) {
	for name, line := range map[string]string{
		"too long":     `{"kind":"` + strings.Repeat("x", wire.MaxStreamHeader) + "\"}\n",
		"without end":  strings.Repeat("x", 2*wire.MaxStreamHeader),
		"not JSON":     "hello\n",
		"not a kind":   `{"kind":"a b"}` + "\n",
		"without kind": "{}\n",
	} {
		_, err := wire.ReadStreamHeader(bufio.NewReader(strings.NewReader(line)))
		NewWithT(t).Expect(err).To(MatchError(wire.ErrMalformed), name)
	}
	g := NewWithT(t)
	_, err := wire.ReadStreamHeader(bufio.NewReader(strings.NewReader(`{"kind":`)))
	g.Expect(err).To(MatchError(io.EOF))
	request := wire.LogRequest{App: strings.Repeat("x", wire.MaxStreamHeader)}
	g.Expect(wire.WriteStreamHeader(io.Discard, wire.StreamLogs, &request)).To(MatchError(ContainSubstring("at most")))
	answer := wire.ReadStreamAnswer(bufio.NewReader(strings.NewReader(`{"class":"newer","message":"a\u001b[2Jb"}` + "\n")))
	g.Expect(answer).To(Equal(&wire.StreamAnswer{Class: wire.StreamUnavailable, Message: "a [2Jb"}))
}

func TestLogRequestValidate(t *testing.T) {
	now := time.Now()
	for want, change := range map[string]func(*wire.LogRequest){
		"":                     func(*wire.LogRequest) {},
		"the namespace":        func(r *wire.LogRequest) { r.Namespace = "../kube-system" },
		"the app or component": func(r *wire.LogRequest) { r.Component = "a,b=c" },
		"the pod or container": func(r *wire.LogRequest) { r.Pod = "a/b" },
		"exclude each other":   func(r *wire.LogRequest) { r.SinceSeconds, r.SinceTime = new(int64(1)), &now },
		"sinceSeconds 0":       func(r *wire.LogRequest) { r.SinceSeconds = new(int64(0)) },
		"tailLines -1":         func(r *wire.LogRequest) { r.TailLines = new(int64(-1)) },
		"limitBytes -1":        func(r *wire.LogRequest) { r.LimitBytes = -1 },
		"previous and follow":  func(r *wire.LogRequest) { r.Previous, r.Follow = true, true },
		"to resume":            func(r *wire.LogRequest) { r.Resume = make([]wire.LogPosition, wire.MaxLogSources+1) },
		"position":             func(r *wire.LogRequest) { r.Resume = make([]wire.LogPosition, 1) },
	} {
		g := NewWithT(t)
		r := wire.LogRequest{Namespace: "shop", App: "web", Component: "front"}
		change(&r)
		if err := r.Validate(); want == "" {
			g.Expect(err).NotTo(HaveOccurred())
		} else {
			g.Expect(err).To(MatchError(ContainSubstring(want)))
		}
	}
}

func TestLogTextKeepsEveryByte(t *testing.T) {
	g := NewWithT(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	sent := &wire.LogText{Source: 7, Time: time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC), Text: all, More: true}
	r := wire.NewFrameReader(bufio.NewReader(bytes.NewReader(wire.AppendLogText(nil, sent))))
	kind, data, err := r.Next()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kind).To(Equal(wire.FrameLogText))
	g.Expect(wire.ReadLogText(data)).To(Equal(sent))
	_, _, err = r.Next()
	g.Expect(err).To(MatchError(io.EOF))
	zero, err := wire.ReadLogText(wire.AppendLogText(nil, &wire.LogText{Text: all})[5:])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(zero.Time.IsZero()).To(BeTrue(), "a time that is not known stays so")
	largest := wire.AppendLogText(nil, &wire.LogText{Text: make([]byte, wire.MaxLogText)})
	g.Expect(len(largest)).To(BeNumerically("<=", wire.MaxStreamData))
}

// FuzzStream reads bytes as a stream of logs.
func FuzzStream(f *testing.F) {
	seed := wire.AppendLogText(nil, &wire.LogText{Source: 1, Time: time.Unix(1, 2), Text: []byte("text"), More: true})
	seed = wire.AppendFrame(seed, wire.FrameKeepAlive, nil)
	seed = wire.AppendFrame(seed, wire.FrameLogSource, []byte(`{"id":1,"pod":"a","container":"b"}`))
	seed = wire.AppendFrame(seed, wire.FrameLogNote, []byte(`{"source":1,"message":"x"}`))
	f.Add(wire.AppendFrame(seed, wire.FrameEnd, []byte(`{"reason":"gone"}`)))
	f.Add([]byte(`{"kind":"logs","request":{"namespace":"a","app":"b"}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if header, err := wire.ReadStreamHeader(bufio.NewReader(bytes.NewReader(data))); err == nil {
			if err := header.Read(&wire.LogRequest{}); err != nil {
				wantMalformed(t, err)
			}
		}
		r := wire.NewFrameReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			kind, data, err := r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					wantMalformed(t, err)
				}
				return
			}
			switch kind {
			case wire.FrameLogText:
				text, err := wire.ReadLogText(data)
				if err != nil {
					wantMalformed(t, err)
				} else if again := wire.AppendLogText(nil, text); len(again) != len(data)+5 {
					t.Fatalf("%d bytes became %d", len(data), len(again)-5)
				}
			case wire.FrameLogSource:
				err = wire.ReadJSONFrame(data, &wire.LogSource{})
			case wire.FrameLogNote:
				err = wire.ReadJSONFrame(data, &wire.LogNote{})
			case wire.FrameEnd:
				err = wire.ReadJSONFrame(data, &wire.StreamEnd{})
			default: // a keep-alive, or what is not known
			}
			if err != nil {
				wantMalformed(t, err)
			}
		}
	})
}
