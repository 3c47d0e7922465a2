// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is the one that most tests are about.
const cluster = "cluster-1"

// fixture is a hub in a synctest bubble.
type fixture struct {
	Gomega
	t         *testing.T
	authority *sessiontest.Authority
	server    *session.Server
	hub       *sessiontest.Hub
	registry  *session.Registry
	metrics   *prometheus.Registry
	log       *lines
	events    *events
}

// bubble runs a test with a hub of its own, in which time passes only when
// everybody waits.
func bubble(t *testing.T, o session.Options, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{
			Gomega: NewWithT(t), t: t, authority: &sessiontest.Authority{},
			metrics: prometheus.NewPedanticRegistry(), log: &lines{}, events: &events{},
		}
		o.Authority, o.Metrics, o.Logger = f.authority, f.metrics, f.log.logger()
		if o.Replica == "" {
			o.Replica, o.HubVersion = "replica-1", "v1.2.3"
		}
		var err error
		f.server, err = session.New(o)
		f.Expect(err).NotTo(HaveOccurred())
		f.registry = f.server.Registry()
		f.registry.Subscribe(f.events.add)
		t.Cleanup(func() { // before the hub's: cleanups run in reverse
			f.Expect(f.server.Close(context.WithoutCancel(t.Context()))).To(Succeed())
		})
		f.hub = sessiontest.Serve(t, f.server)
		test(f)
	})
}

// token issues one for the cluster that lives a year.
func (f *fixture) token(clusterID string) string {
	return f.authority.Issue(identity(clusterID))
}

func identity(clusterID string) session.Identity {
	now := time.Now()
	return session.Identity{
		ClusterID: clusterID, Generation: 1, TokenID: "jti-1", KeyID: "kid-1",
		IssuedAt: now, ExpiresAt: now.Add(365 * 24 * time.Hour),
	}
}

// connect opens a session that has to be welcomed.
func (f *fixture) connect(clusterID string) *sessiontest.Operator {
	f.t.Helper()
	o, err := f.hub.Connect(f.t.Context(), f.token(clusterID), sessiontest.Hello())
	f.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
	return o
}

// beat sends a heartbeat with a number of nodes.
func (f *fixture) beat(o *sessiontest.Operator, nodes int32) {
	f.t.Helper()
	f.Expect(o.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &wire.Facts{Nodes: &nodes}})).To(Succeed())
	synctest.Wait()
}

func (f *fixture) nodes(clusterID string) int32 {
	f.t.Helper()
	info, ok := f.registry.Lookup(clusterID)
	f.Expect(ok).To(BeTrue())
	if info.Facts.Nodes == nil {
		return -1
	}
	return *info.Facts.Nodes
}

// next is the next message that an operator got, which has to be there.
func next[T any](f *fixture, o *sessiontest.Operator, kind wire.Type) (message T) {
	f.t.Helper()
	synctest.Wait()
	var e wire.Envelope
	f.Expect(o.Received).To(Receive(&e))
	f.Expect(e.Type).To(Equal(kind))
	f.Expect(e.Read(&message)).To(Succeed())
	return message
}

// metric is a counter's or gauge's value, of all that have the labels' values; -1 if
// there is none.
func (f *fixture) metric(name string, labels ...string) float64 {
	f.t.Helper()
	families, err := f.metrics.Gather()
	f.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			values := []string{}
			for _, label := range m.GetLabel() {
				values = append(values, label.GetValue())
			}
			if strings.Join(values, ",") == strings.Join(labels, ",") {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// lines is what was logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text.WriteString(args + "\n")
	}, funcr.Options{Verbosity: 5})
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// events is what the registry told.
type events struct {
	mu  sync.Mutex
	all []session.Event
}

func (e *events) add(event session.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// take returns the events since the last take.
func (e *events) take() []session.Event {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// kinds are the kinds of the events since the last take, with their clusters.
func (e *events) kinds() []string {
	kinds := []string{}
	for _, event := range e.take() {
		kinds = append(kinds, string(event.Kind)+" "+event.ClusterID)
	}
	return kinds
}
