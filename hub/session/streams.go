// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubenest/kubenest/api/socket"
)

var (
	// ErrNoStreams says that a cluster's operator takes no byte streams: it is older
	// than they are.
	ErrNoStreams = errors.New("the cluster's operator takes no streams: upgrade it")
	// ErrTooManyStreams says that a cluster has as many streams as a session may have,
	// wire.MaxStreams.
	ErrTooManyStreams = socket.ErrTooManyStreams
)

// Stream is a byte stream to an operator. It ends with its session at the latest:
// then reading and writing fail with *socket.Ended. Whoever opened it closes it.
type Stream struct {
	*socket.Stream
	closed func() error
}

// Close closes the stream. It is safe to call again.
func (s *Stream) Close() error { return s.closed() }

// OpenStream opens a byte stream to a cluster's operator. It waits for the socket
// only, not for the operator, and fails with ErrNotConnected if no session is held
// here, ErrNoStreams, ErrTooManyStreams, or the end of the session or of ctx.
func (r *Registry) OpenStream(ctx context.Context, clusterID string) (*Stream, error) {
	stream, err := r.openStream(ctx, clusterID)
	m := &r.metrics.streams
	if err != nil {
		m.failed.WithLabelValues(failureOf(err)).Inc()
		return nil, fmt.Errorf("open a stream to cluster %s: %w", clusterID, err)
	}
	m.opened.Inc()
	m.open.Inc()
	return &Stream{Stream: stream, closed: sync.OnceValue(func() error {
		m.open.Dec()
		return stream.Close()
	})}, nil
}

func (r *Registry) openStream(ctx context.Context, clusterID string) (*socket.Stream, error) {
	held, ok := r.session(clusterID)
	switch {
	case !ok:
		return nil, ErrNotConnected
	case !held.info.Streams: // static once registered
		return nil, ErrNoStreams
	}
	return held.conn.OpenStream(ctx)
}

// streamMetrics count byte streams.
type streamMetrics struct {
	open   prometheus.Gauge
	opened prometheus.Counter
	failed *prometheus.CounterVec
}

func newStreamMetrics(namespace, subsystem string) streamMetrics {
	return streamMetrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "streams",
			Help: "Byte streams to operators that are open.",
		}),
		opened: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "streams_opened_total",
			Help: "Byte streams to operators that were opened.",
		}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "streams_failed_total",
			Help: "Byte streams that could not be opened, by reason.",
		}, []string{"reason"}),
	}
}

// failureOf is the label of a stream that could not be opened.
func failureOf(err error) string {
	switch {
	case errors.Is(err, ErrNotConnected):
		return "not_connected"
	case errors.Is(err, ErrNoStreams):
		return "operator_too_old"
	case errors.Is(err, ErrTooManyStreams):
		return "too_many"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "given_up"
	default:
		return "session_ended"
	}
}
