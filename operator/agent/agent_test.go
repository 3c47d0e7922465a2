// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

func TestTheHelloSaysWhoItIs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	nodes := int32(3)
	op := start(t, agent.Options{
		Credentials: credentials.NewMemory(given(t, hub)), OperatorVersion: "v1.2.3", Schema: 4, Process: "process-1",
		Deployments: newCluster(),
		Facts:       func(context.Context) wire.Facts { return wire.Facts{Nodes: &nodes, KubernetesVersion: "v1.37.2"} },
	})

	s := next(t, hub.Sessions, "session")
	g.Expect(s.Hello.ClusterUID).To(Equal(clusterUID))
	g.Expect(s.Hello.Process).To(Equal("process-1"))
	g.Expect(s.Hello.OperatorVersion).To(Equal("v1.2.3"))
	g.Expect(s.Hello.Schema).To(Equal(4))
	g.Expect(s.Hello.Protocol).To(Equal(wire.Protocol))
	g.Expect(*s.Hello.Facts.Nodes).To(BeEquivalentTo(3), "the first hello waits a little for the figures")
	g.Expect(s.Attempt.Path).To(Equal(wire.Path))
	g.Expect(s.Hello.Time).To(BeTemporally("~", time.Now(), time.Minute))
	eventually(t, func() bool { return op.State().Connected }).Should(BeTrue())
	g.Expect(op.State().Epoch).To(Equal(s.Welcome.Epoch))
	g.Expect(op.Ready()).To(Succeed())
	g.Expect(op.Alive()).To(Succeed())
}

func TestGoodbyeWhenItStops(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	op := start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub))})
	s := next(t, hub.Sessions, "session")
	eventually(t, func() bool { return op.State().Connected }).Should(BeTrue())

	before := time.Now()
	op.stop()
	g.Expect(time.Since(before)).To(BeNumerically("<", wire.CloseTimeout+5*time.Second))
	g.Expect(nextMessage[wire.Goodbye](t, s, wire.TypeGoodbye).Reason).NotTo(BeEmpty())
	g.Expect(ended(t, s)).To(Equal(wire.EndGoodbye))
	g.Expect(s.Ended.Told).To(BeTrue())
	g.Expect(op.State().Connected).To(BeFalse())
}

func TestItStopsAtOnceWhileAHubKeepsItWaiting(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]any{"mute after the upgrade": agenttest.Mute{}, "busy": wire.Refuse(wire.ClassBusy, "later").After(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := agenttest.Start(t, nil, nil)
			hub.Answer(answer)
			op := start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub))})
			next(t, hub.Attempts, "attempt")
			before := time.Now()
			op.stop()
			NewWithT(t).Expect(time.Since(before)).To(BeNumerically("<", wire.OpeningTimeout/2))
		})
	}
}

func TestItComesBack(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		timing wire.Timing
		lose   func(*agenttest.Session)
	}{
		"after the connection is cut": {lose: (*agenttest.Session).Cut},
		"after the hub falls silent": {
			timing: wire.Timing{Heartbeat: 50 * time.Millisecond, DeadAfter: 400 * time.Millisecond},
			lose:   (*agenttest.Session).Silence,
		},
		"after it was replaced by another operator": {
			lose: func(s *agenttest.Session) { s.Close(wire.EndReplaced, "a newer session was claimed") },
		},
		"after its token was revoked": {
			lose: func(s *agenttest.Session) { s.Close(wire.EndRevoked, "the floor was raised") },
		},
		"after a message that is none": {
			lose: func(s *agenttest.Session) { _ = s.Send(wire.TypeMoving, "not a moving message") },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := agenttest.Start(t, nil, nil)
			if tc.timing != (wire.Timing{}) {
				hub.SetTiming(tc.timing)
			}
			op := start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub))})
			s := next(t, hub.Sessions, "session")
			tc.lose(s)
			again := next(t, hub.Sessions, "second session")
			NewWithT(t).Expect(again.Hello.Process).To(Equal(s.Hello.Process), "it is the same operator")
			eventually(t, func() int64 { return op.State().Epoch }).Should(BeNumerically(">=", again.Welcome.Epoch))
		})
	}
}

func TestItComesBackAfterTheHubRestarts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	first := given(t, hub)
	op := start(t, agent.Options{Credentials: credentials.NewMemory(first)})
	next(t, hub.Sessions, "session")
	address := hub.Address()
	hub.Stop()
	eventually(t, func() string { st := op.State(); return st.Trouble() }).Should(ContainSubstring("connection refused"))

	listener, err := net.Listen("tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	hub = agenttest.Start(t, listener, nil)
	next(t, hub.Sessions, "session with the hub that came back")
}

// TestStates also is the order in which Events are made.
func TestStates(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	hub.Answer(wire.Refuse(wire.ClassBusy, "later"))
	var (
		mu   sync.Mutex
		told []string
	)
	op := start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub)), OnState: func(s agent.State) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case s.Connected:
			told = append(told, "connected")
		case s.Refusal != nil:
			told = append(told, string(s.Refusal.Class))
		default:
			told = append(told, "away")
		}
	}})
	for range 3 {
		next(t, hub.Attempts, "attempt")
	}
	hub.Answer(nil)
	s := next(t, hub.Sessions, "session")
	hub.Answer(wire.Refuse(wire.ClassRevoked, "raise no floor"))
	s.Close(wire.EndRevoked, "")
	eventually(t, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), told...)
	}).Should(Equal([]string{"busy", "connected", "away", "revoked"}), "a refusal that stays the same is told once")
	g.Expect(op.State().LastSuccess).To(BeTemporally("~", time.Now(), time.Minute), "a clean refusal is a sign of life")
}

func TestNameServersMayFail(t *testing.T) {
	t.Parallel()
	hub := agenttest.Start(t, nil, nil)
	var lookups atomic.Int32
	dialing := agent.Dialing{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if lookups.Add(1) <= 3 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: "hub.test", IsNotFound: true}}
		}
		return (&net.Dialer{}).DialContext(ctx, network, hub.Address())
	}}
	from := given(t, hub)
	from.HubURL = "https://example.com" // a name of the hub's certificate
	op := start(t, agent.Options{Credentials: credentials.NewMemory(from), Dialing: dialing})
	next(t, hub.Sessions, "session")
	g := NewWithT(t)
	g.Expect(lookups.Load()).To(BeEquivalentTo(4), "the name is looked up at each attempt")
	g.Expect(op.log.String()).To(And(ContainSubstring("does this name resolve in the cluster?"), ContainSubstring(`"result"="dns"`)))
}

func TestNewRefusesWhatCanNotWork(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, err := agent.New(agent.Options{ClusterUID: clusterUID})
	g.Expect(err).To(HaveOccurred())
	_, err = agent.New(agent.Options{Credentials: credentials.NewMemory(credentials.Given{})})
	g.Expect(err).To(MatchError(ContainSubstring("kube-system")))
}

func TestBadCredentialsAreSaid(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		given credentials.Given
		want  string
	}{
		"a URL without TLS": {credentials.Given{HubURL: "http://hub.test", Token: agenttest.Token(t, agenttest.Claims{})}, "https://"},
		"no token":          {credentials.Given{HubURL: "https://hub.test"}, "not a JSON Web Token"},
		"a broken CA":       {credentials.Given{HubURL: "https://hub.test", CA: "x", Token: agenttest.Token(t, agenttest.Claims{})}, "not PEM"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := start(t, agent.Options{Credentials: credentials.NewMemory(tc.given)})
			eventually(t, func() string { st := op.State(); return st.Trouble() }).Should(ContainSubstring(tc.want))
			var failure *agent.Failure
			NewWithT(t).Expect(errors.As(error(op.State().Failure), &failure)).To(BeTrue())
		})
	}
}
