// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubenest/kubenest/api/wire"
)

// Values of labels. Nothing that a peer chooses becomes a label.
const (
	droppedBudget  = "budget"
	droppedUnknown = "unknown_type"
	droppedNobody  = "nobody_listens"
	renewalStored  = "stored"
	renewalFailed  = "failed"
)

type metrics struct {
	held      prometheus.Gauge
	opened    prometheus.Counter
	unopened  *prometheus.CounterVec
	ended     *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	handshake prometheus.Histogram
	messages  *prometheus.CounterVec
	drops     *prometheus.CounterVec
	renewals  *prometheus.CounterVec
	streams   streamMetrics
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	const namespace, subsystem = "kubenest", "hub"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	m := &metrics{
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "sessions",
			Help: "Sessions held by this replica.",
		}),
		opened: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "sessions_opened_total",
			Help: "Sessions that were welcomed.",
		}),
		handshake: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "session_opening_seconds",
			Help:    "Time from a session's request to its welcome.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 12),
		}),
		unopened: counter("connections_unopened_total", "WebSockets that ended before they were a session, by ending.", "ending"),
		ended:    counter("sessions_ended_total", "Sessions that ended, by ending.", "ending"),
		refusals: counter("session_refusals_total", "Refused connections by class, and for tokens that do not verify why.", "class", "reason"),
		messages: counter("session_messages_received_total", "Messages received, by type.", "type"),
		drops:    counter("session_messages_dropped_total", "Messages received and not looked at, by reason.", "reason"),
		renewals: counter("token_renewals_total", "Renewals of a session's token, by result.", "result"),
	}
	m.streams = newStreamMetrics(namespace, subsystem)
	if registry == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.held, m.opened, m.handshake, m.unopened, m.ended, m.refusals, m.messages, m.drops, m.renewals, m.streams.open, m.streams.opened, m.streams.failed} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) received(t wire.Type) {
	switch t {
	case wire.TypeHello, wire.TypeHeartbeat, wire.TypeStored, wire.TypeGoodbye,
		wire.TypeInventory, wire.TypeDelivered, wire.TypeRemoved, wire.TypeReport, wire.TypeExports:
	default:
		t = "unknown"
	}
	m.messages.WithLabelValues(string(t)).Inc()
}

func (m *metrics) dropped(reason string) { m.drops.WithLabelValues(reason).Inc() }
