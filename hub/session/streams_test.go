// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"io"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

// streaming is a hub in real time, which yamux needs, whose operators take streams.
type streaming struct {
	*fixture
	accepted chan *socket.Stream
}

func newStreaming(t *testing.T) *streaming {
	t.Helper()
	s := &streaming{
		fixture:  &fixture{Gomega: NewWithT(t), t: t, authority: &sessiontest.Authority{}, metrics: prometheus.NewPedanticRegistry()},
		accepted: make(chan *socket.Stream, wire.MaxStreams),
	}
	var err error
	s.server, err = session.New(session.Options{Authority: s.authority, Metrics: s.metrics})
	s.Expect(err).NotTo(HaveOccurred())
	s.registry = s.server.Registry()
	t.Cleanup(func() { s.Expect(s.server.Close(context.WithoutCancel(t.Context()))).To(Succeed()) })
	s.hub = sessiontest.Serve(t, s.server)
	s.hub.Accept = func(stream *socket.Stream) { s.accepted <- stream }
	return s
}

func (s *streaming) connectWith(streams bool) *sessiontest.Operator {
	s.t.Helper()
	hello := sessiontest.Hello()
	hello.Streams = streams
	o, err := s.hub.Connect(s.t.Context(), s.token(cluster), hello)
	s.Expect(err).NotTo(HaveOccurred())
	return o
}

func TestOpenStream(t *testing.T) {
	s := newStreaming(t)
	s.connectWith(true)
	ours, err := s.registry.OpenStream(t.Context(), cluster)
	s.Expect(err).NotTo(HaveOccurred())
	var theirs *socket.Stream
	s.Eventually(s.accepted).Should(Receive(&theirs))
	s.Expect(s.metric("kubenest_hub_streams")).To(BeEquivalentTo(1))
	_, err = io.WriteString(ours, "hello")
	s.Expect(err).NotTo(HaveOccurred())
	got := make([]byte, 5)
	_, err = io.ReadFull(theirs, got)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(string(got)).To(Equal("hello"))
	for range 2 {
		s.Expect(ours.Close()).To(Succeed())
	}
	s.Expect(s.metric("kubenest_hub_streams")).To(BeZero(), "opened minus closed")
	s.Expect(s.metric("kubenest_hub_streams_opened_total")).To(BeEquivalentTo(1))
}

func TestStreamsThatCanNotBeOpened(t *testing.T) {
	s := newStreaming(t)
	_, err := s.registry.OpenStream(t.Context(), cluster)
	s.Expect(err).To(MatchError(session.ErrNotConnected))
	old := s.connectWith(false)
	_, err = s.registry.OpenStream(t.Context(), cluster)
	s.Expect(err).To(MatchError(session.ErrNoStreams))
	s.connectWith(true)
	old.End()
	for range wire.MaxStreams {
		stream, err := s.registry.OpenStream(t.Context(), cluster)
		s.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = stream.Close() })
	}
	_, err = s.registry.OpenStream(t.Context(), cluster)
	s.Expect(err).To(MatchError(session.ErrTooManyStreams))
	for reason, want := range map[string]int{"not_connected": 1, "operator_too_old": 1, "too_many": 1} {
		s.Expect(s.metric("kubenest_hub_streams_failed_total", reason)).To(BeEquivalentTo(want), reason)
	}
}

func TestStreamsEndWithTheirSession(t *testing.T) {
	s := newStreaming(t)
	o := s.connectWith(true)
	stream, err := s.registry.OpenStream(t.Context(), cluster)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.registry.Close(cluster, o.Welcome.Session, wire.EndReplaced, "")).To(BeTrue())
	_, err = stream.Read(make([]byte, 1))
	s.Expect(err).To(HaveField("Ending", wire.EndReplaced))
	s.Expect(stream.Close()).To(Succeed())
	s.Expect(s.metric("kubenest_hub_streams")).To(BeZero())
}
