// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Why a message of an operator was not looked at.
const (
	droppedUnknown = "unknown_stack"
	droppedLate    = "late"
	droppedFull    = "full"
	droppedInvalid = "invalid"
	droppedStale   = "stale"
)

type metrics struct {
	answers *prometheus.CounterVec
	drops   *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, unknown func() float64) (*metrics, error) {
	const namespace, subsystem = "kubenest", "hub"
	m := &metrics{
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "deliveries_total",
			Help: "Deliveries of StackDeploys, by what the operator answered.",
		}, []string{"answer"}),
		drops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "deployment_messages_dropped_total",
			Help: "Messages about deployments that were not looked at, by reason.",
		}, []string{"reason"}),
	}
	if registry == nil {
		return m, nil
	}
	left := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "unknown_stackdeploys",
		Help: "StackDeploys that the operators of this replica's sessions have and the hub has no record of.",
	}, unknown)
	var errs []error
	for _, c := range []prometheus.Collector{m.answers, m.drops, left} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register delivery metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) answered(answer string) { m.answers.WithLabelValues(answer).Inc() }

func (m *metrics) dropped(reason string) { m.drops.WithLabelValues(reason).Inc() }
