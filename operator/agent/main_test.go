// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clusterUID = "0b2d0000-0000-4000-8000-000000000001"
	patience   = 20 * time.Second // of tests, on a busy machine
)

// sink keeps what is logged.
type sink struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *sink) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text.WriteString(args + "\n")
	}, funcr.Options{Verbosity: 9})
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// operator is an agent that runs.
type operator struct {
	*agent.Agent
	log  *sink
	stop func() // and wait
}

// start runs an agent until the test ends. Its waits are as short as chance makes
// them, unless the test brings its own.
func start(t *testing.T, o agent.Options) *operator {
	t.Helper()
	log := &sink{}
	if o.Log.GetSink() == nil {
		o.Log = log.logger()
	}
	if o.ClusterUID == "" {
		o.ClusterUID = clusterUID
	}
	if o.Chance == nil {
		o.Chance = func() float64 { return 0.05 }
	}
	a, err := agent.New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	op := &operator{Agent: a, log: log, stop: func() { cancel(); <-done }}
	t.Cleanup(func() {
		op.stop()
		if t.Failed() {
			t.Logf("the operator's log:\n%s", log)
		}
	})
	return op
}

// given is what a connection Secret for the hub says.
func given(t *testing.T, hub *agenttest.Hub) credentials.Given {
	t.Helper()
	return credentials.Given{HubURL: hub.URL, CA: hub.CA, Token: agenttest.Token(t, agenttest.Claims{Generation: 1})}
}

// next waits for what comes from a channel.
func next[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s came", what)
		panic("unreachable")
	}
}

// nextMessage waits for a message of a type, and passes over others.
func nextMessage[T any](t *testing.T, s *agenttest.Session, of wire.Type) T {
	t.Helper()
	for {
		e := next(t, s.Messages, string(of))
		if e.Type != of {
			continue
		}
		var m T
		if err := e.Read(&m); err != nil {
			t.Fatalf("read %s: %v", of, err)
		}
		return m
	}
}

func ended(t *testing.T, s *agenttest.Session) wire.Ending {
	t.Helper()
	next(t, s.Done, "end of the session")
	return s.Ended.Ending
}

func eventually(t *testing.T, actual any) AsyncAssertion {
	t.Helper()
	return NewWithT(t).Eventually(actual).WithTimeout(patience).WithPolling(5 * time.Millisecond)
}
