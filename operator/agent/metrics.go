// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubenest/kubenest/api/wire"
)

// Metrics of agents. Several agents of one process share them.
type Metrics struct {
	connected     prometheus.Gauge
	lastConnected prometheus.Gauge
	attempts      *prometheus.CounterVec
	endings       *prometheus.CounterVec
	backoff       prometheus.Counter
	stores        *prometheus.CounterVec

	streams         prometheus.Gauge
	streamsAccepted prometheus.Counter
}

// NewMetrics makes the metrics and registers them; with nil they are kept to
// themselves. It panics when they are registered there already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	const namespace, subsystem = "kubenest", "operator"
	m := &Metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "connected",
			Help: "1 while the operator has a session with the hub.",
		}),
		lastConnected: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "last_connected_timestamp_seconds",
			Help: "When the hub last welcomed the operator, by the operator's clock.",
		}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "connection_attempts_total",
			Help: "Attempts to open a session by result: welcomed, a refusal's class, or a kind of failure.",
		}, []string{"result"}),
		endings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "session_endings_total",
			Help: "Sessions that ended, by ending.",
		}, []string{"ending"}),
		backoff: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "backoff_seconds_total",
			Help: "Time that the operator meant to wait between attempts.",
		}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "streams",
			Help: "Byte streams of the hub's that are being served.",
		}),
		streamsAccepted: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "streams_accepted_total",
			Help: "Byte streams of the hub's that were accepted.",
		}),
		stores: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "credential_stores_total",
			Help: "What the hub handed over, by what (token, ca) and result (stored, refused, failed).",
		}, []string{"what", "result"}),
	}
	if registry != nil {
		registry.MustRegister(m.connected, m.lastConnected, m.attempts, m.endings, m.backoff, m.stores, m.streams, m.streamsAccepted)
	}
	return m
}

// resultOf is the label of an attempt. A newer hub's classes fold into one, so that
// a peer can not make labels.
func resultOf(err error) string {
	var (
		refusal *wire.Refusal
		failure *Failure
	)
	switch {
	case err == nil:
		return "welcomed"
	case errors.As(err, &refusal):
		switch refusal.Class {
		case wire.ClassUnauthorized, wire.ClassNotYetValid, wire.ClassExpired, wire.ClassRevoked, wire.ClassUnknownCluster,
			wire.ClassConflict, wire.ClassDuplicate, wire.ClassUnsupported, wire.ClassBusy:
			return string(refusal.Class)
		default:
			return "refused"
		}
	case errors.As(err, &failure):
		return string(failure.Kind)
	default:
		return "other"
	}
}
