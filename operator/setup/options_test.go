// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
)

func TestOptionsAreValidated(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect(NewOptions().Validate()).To(Succeed(), "the defaults work")
	cases := map[string]struct {
		change func(*Options)
		want   string
	}{
		"no directory":       {func(o *Options) { o.Hub.ConnectionDirectory = "" }, "--credentials-dir"},
		"a hasty watchdog":   {func(o *Options) { o.Hub.Watchdog = time.Second }, "--watchdog 1s must be at least 1m0s"},
		"no namespace":       {func(o *Options) { o.Cluster.Namespace = "" }, "--namespace"},
		"a bad namespace":    {func(o *Options) { o.Cluster.Namespace = "A_b" }, `--namespace "A_b"`},
		"no pod":             {func(o *Options) { o.Cluster.PodName = "" }, "--pod-name"},
		"no requests":        {func(o *Options) { o.Cluster.QPS = 0 }, "--kube-api-qps"},
		"no burst":           {func(o *Options) { o.Cluster.Burst = 0 }, "--kube-api-burst"},
		"a port only":        {func(o *Options) { o.Probes.MetricsAddress = "8080" }, `--metrics-bind-address "8080"`},
		"one address twice":  {func(o *Options) { o.Probes.MetricsAddress = o.Probes.HealthAddress }, "must differ"},
		"a chatty log":       {func(o *Options) { o.LogLevel = "trace" }, "--log-level"},
		"several at once, 1": {func(o *Options) { o.LogLevel, o.Cluster.PodName = "x", "" }, "--log-level"},
		"several at once, 2": {func(o *Options) { o.LogLevel, o.Cluster.PodName = "x", "" }, "--pod-name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := NewOptions()
			tc.change(o)
			NewWithT(t).Expect(o.Validate()).To(MatchError(ContainSubstring(tc.want)))
		})
	}
	o := NewOptions()
	o.Probes = ProbeOptions{MetricsAddress: off, HealthAddress: off}
	NewWithT(t).Expect(o.Validate()).To(Succeed(), "both may be off")
}

func TestEventOf(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	refused := func(class wire.Class) agent.State { return agent.State{Refusal: wire.Refuse(class, "why")} }
	for want, state := range map[string]agent.State{
		"Connected":             {Connected: true, Replica: "hub-1"},
		"RefusedRevoked":        refused(wire.ClassRevoked),
		"RefusedNotYetValid":    refused(wire.ClassNotYetValid),
		"RefusedUnknownCluster": refused(wire.ClassUnknownCluster),
		"Refused":               refused("Odd class 7!"),
		"HubUnreachable":        {Failure: &agent.Failure{Kind: agent.FailedDNS, Err: wire.ErrMalformed}},
	} {
		e, ok := eventOf(&state)
		g.Expect(ok).To(BeTrue())
		g.Expect(e.reason).To(Equal(want))
		g.Expect(e.note).NotTo(BeEmpty())
	}
	_, ok := eventOf(&agent.State{})
	g.Expect(ok).To(BeFalse())
}
