// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs_test

import (
	"bufio"
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/logs"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const cluster = "cluster-1"

var request = wire.LogRequest{Namespace: "shop", App: "web", Follow: true}

// fixture is a hub, and the operator's end of the streams that it opens.
type fixture struct {
	Gomega
	t        *testing.T
	server   *session.Server
	accepted chan *socket.Stream
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Gomega: NewWithT(t), t: t, accepted: make(chan *socket.Stream, 10)}
	authority := &sessiontest.Authority{}
	var err error
	f.server, err = session.New(session.Options{Authority: authority})
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { f.Expect(f.server.Close(context.WithoutCancel(t.Context()))).To(Succeed()) })
	hub := sessiontest.Serve(t, f.server)
	hub.Accept = func(s *socket.Stream) { f.accepted <- s }
	hello := sessiontest.Hello()
	hello.Streams = true
	_, err = hub.Connect(t.Context(), authority.Issue(session.Identity{ClusterID: cluster}), hello)
	f.Expect(err).NotTo(HaveOccurred())
	return f
}

// open asks for logs, and has the operator answer with some frames.
func (f *fixture) open(ctx context.Context, failure *wire.StreamAnswer, frames ...[]byte) (*logs.Stream, *socket.Stream, error) {
	theirs := make(chan *socket.Stream, 1)
	go func() {
		s := <-f.accepted
		defer func() { theirs <- s }()
		if _, err := wire.ReadStreamHeader(bufio.NewReader(s)); err != nil {
			return
		}
		_ = wire.WriteStreamAnswer(s, failure)
		for _, frame := range frames {
			_, _ = s.Write(frame)
		}
	}()
	stream, err := logs.Open(ctx, f.server.Registry(), cluster, request)
	return stream, <-theirs, err
}

func encode(f *fixture, kind wire.FrameType, message any) []byte {
	frame, err := wire.AppendJSONFrame(nil, kind, message)
	f.Expect(err).NotTo(HaveOccurred())
	return frame
}

func text(source uint32, at int64, text string, more bool) []byte {
	return wire.AppendLogText(nil, &wire.LogText{Source: source, Time: time.Unix(at, 5), Text: []byte(text), More: more})
}

func TestEntriesToTheEnd(t *testing.T) {
	f := newFixture(t)
	s, _, err := f.open(t.Context(), nil,
		encode(f, wire.FrameLogSource, wire.LogSource{ID: 1, Pod: "web-1", Container: "app", Component: "web"}),
		encode(f, wire.FrameLogSource, wire.LogSource{ID: 2, Pod: "web-2", Container: "app"}),
		text(1, 10, "a", false), text(2, 11, "b", false), text(1, 12, "c", false), text(1, 12, "d", false), text(2, 13, "half", true),
		wire.AppendFrame(nil, wire.FrameKeepAlive, nil), wire.AppendFrame(nil, 77, []byte("of a newer operator")),
		encode(f, wire.FrameLogNote, wire.LogNote{Source: 1, Message: "it ended"}),
		encode(f, wire.FrameEnd, wire.StreamEnd{Reason: wire.ReasonGone, Message: "gone"}),
	)
	f.Expect(err).NotTo(HaveOccurred())
	defer s.Close()
	got := []string{}
	for {
		entry, err := s.Next()
		if err != nil {
			f.Expect(err).To(Equal(&logs.End{Reason: wire.ReasonGone, Message: "gone"}))
			break
		}
		got = append(got, entry.Pod+"/"+entry.Container+" "+string(entry.Text)+entry.Note)
	}
	f.Expect(got).To(Equal([]string{"web-1/app a", "web-2/app b", "web-1/app c", "web-1/app d", "web-2/app half", "web-1/app it ended"}))
	f.Expect(s.Resume().Resume).To(HaveExactElements(
		And(HaveField("Pod", "web-1"), HaveField("Time", BeTemporally("==", time.Unix(12, 5))), HaveField("Lines", 2)),
		And(HaveField("Pod", "web-2"), HaveField("Time", BeTemporally("==", time.Unix(11, 5))), HaveField("Lines", 1)),
	))
	_, err = s.Next()
	f.Expect(err).To(MatchError("gone"), "again")
}

func TestContainersAreBounded(t *testing.T) {
	f := newFixture(t)
	s, theirs, err := f.open(t.Context(), nil)
	f.Expect(err).NotTo(HaveOccurred())
	defer s.Close()
	go func() { // under one ID, which a hub might take for one container
		for i := 0; ; i++ {
			frame, err := wire.AppendJSONFrame(nil, wire.FrameLogSource, wire.LogSource{ID: 1, Pod: fmt.Sprintf("web-%d", i), Container: "app"})
			if err != nil {
				return
			}
			if _, err := theirs.Write(frame); err != nil {
				return
			}
		}
	}()
	_, err = s.Next()
	f.Expect(err).To(MatchError(ContainSubstring("more than 10000 containers")))
}

func TestStreamsThatAreNotServed(t *testing.T) {
	f := newFixture(t)
	_, _, err := f.open(t.Context(), wire.FailStream(wire.StreamBusy, "later"))
	f.Expect(err).To(Equal(wire.FailStream(wire.StreamBusy, "later")))
	_, err = logs.Open(t.Context(), f.server.Registry(), "other", request)
	f.Expect(err).To(MatchError(session.ErrNotConnected))
	_, err = logs.Open(t.Context(), f.server.Registry(), cluster, wire.LogRequest{})
	f.Expect(err).To(HaveField("Class", wire.StreamInvalid))
}

func TestEnds(t *testing.T) {
	for want, end := range map[wire.EndReason]func(f *fixture, s *logs.Stream, theirs *socket.Stream, cancel func()){
		logs.ReasonClosed: func(_ *fixture, s *logs.Stream, _ *socket.Stream, _ func()) { _ = s.Close() },
		logs.ReasonInterrupted: func(f *fixture, _ *logs.Stream, _ *socket.Stream, _ func()) {
			info, _ := f.server.Registry().Lookup(cluster)
			f.server.Registry().Close(cluster, info.SessionID, wire.EndMoving, "")
		},
		wire.ReasonFailed: func(_ *fixture, _ *logs.Stream, theirs *socket.Stream, _ func()) {
			_, _ = theirs.Write(text(9, 1, "of nobody", false))
		},
	} {
		t.Run(string(want), func(t *testing.T) {
			f := newFixture(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, theirs, err := f.open(ctx, nil)
			f.Expect(err).NotTo(HaveOccurred())
			ended := make(chan error, 1)
			go func() {
				_, err := s.Next()
				ended <- err
			}()
			f.Consistently(ended, "20ms").ShouldNot(Receive())
			end(f, s, theirs, cancel)
			f.Eventually(ended).Should(Receive(HaveField("Reason", want)))
			_ = s.Close()
		})
	}
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	s, theirs, err := f.open(ctx, nil)
	f.Expect(err).NotTo(HaveOccurred())
	cancel()
	_, err = s.Next()
	f.Expect(err).To(HaveField("Reason", logs.ReasonClosed), "the context ended")
	_, err = theirs.Read(make([]byte, 1))
	f.Expect(err).To(MatchError("EOF"), "the operator is told")
	_ = s.Close()
}
