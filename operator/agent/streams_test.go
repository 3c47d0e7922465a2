// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

func TestStreamsAreServedWithinTheirSession(t *testing.T) {
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	registry := prometheus.NewRegistry()
	began, ended := make(chan struct{}, 10), make(chan struct{}, 10)
	op := start(t, agent.Options{
		Credentials: credentials.NewMemory(given(t, hub)), Metrics: agent.NewMetrics(registry),
		Streams: func(ctx context.Context, s *socket.Stream) {
			began <- struct{}{}
			_, _ = s.Write([]byte("x"))
			<-ctx.Done()
			ended <- struct{}{}
		},
	})
	open := func() float64 {
		families, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		for _, f := range families {
			if f.GetName() == "kubenest_operator_streams" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	for range 2 {
		s := next(t, hub.Sessions, "session")
		g.Expect(s.Hello.Streams).To(BeTrue())
		for range 3 {
			stream, err := s.OpenStream(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			next(t, began, "stream")
			_, err = stream.Read(make([]byte, 1))
			g.Expect(err).NotTo(HaveOccurred())
		}
		g.Expect(open()).To(BeEquivalentTo(3))
		s.Cut()
		for range 3 {
			next(t, ended, "end of a stream")
		}
		eventually(t, open).Should(BeZero())
	}
	op.stop()
}

func TestAnOperatorWithoutStreamsTakesNone(t *testing.T) {
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub))})
	s := next(t, hub.Sessions, "session")
	g.Expect(s.Hello.Streams).To(BeFalse())
	_, err := s.OpenStream(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ended(t, s)).To(Equal(wire.EndProtocol))
}
