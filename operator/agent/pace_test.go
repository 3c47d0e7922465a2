// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

// world is a hub and an operator in a bubble, where time passes only while all
// wait.
type world struct {
	hub         *agenttest.Hub
	net         *pipes
	credentials *credentials.Memory
	log         *sink
	options     agent.Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{net: newPipes(), log: &sink{}}
	w.hub = agenttest.Start(t, w.net, nil)
	w.hub.SetTiming(wire.DefaultTiming)
	w.credentials = credentials.NewMemory(given(t, w.hub))
	w.options = agent.Options{
		Credentials: w.credentials, Dialing: w.net.dialing(), Log: w.log.logger(), Chance: rand.Float64,
	}
	return w
}

// gaps are the times between the next n attempts.
func gaps(t *testing.T, hub *agenttest.Hub, n int) []time.Duration {
	t.Helper()
	out := make([]time.Duration, 0, n)
	before := <-hub.Attempts
	for range n {
		now := <-hub.Attempts
		out = append(out, now.At.Sub(before.At))
		before = now
	}
	return out
}

func TestPaceOfRefusals(t *testing.T) {
	t.Parallel()
	slow := []wire.Class{
		wire.ClassRevoked, wire.ClassUnknownCluster, wire.ClassConflict, wire.ClassDuplicate, wire.ClassExpired, wire.ClassUnsupported,
	}
	for _, class := range slow {
		refusal := wire.Refuse(class, "ask a person")
		for name, answer := range map[string]any{"before the upgrade": refusal, "after the hello": agenttest.RefuseHello{Refusal: refusal}} {
			t.Run(string(class)+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					g := NewWithT(t)
					w := newWorld(t)
					w.hub.Answer(answer)
					op := start(t, w.options)
					for _, gap := range gaps(t, w.hub, 5) {
						g.Expect(gap).To(And(BeNumerically(">=", 30*time.Second), BeNumerically("<", 62*time.Second)))
					}
					synctest.Wait()
					g.Expect(op.State().Refusal.Class).To(Equal(class))
					g.Expect(op.Ready()).To(MatchError(And(ContainSubstring(string(class)), ContainSubstring("ask a person"))))
					g.Expect(op.Alive()).To(Succeed(), "a clear answer is no reason to restart")
				})
			})
		}
	}
}

func TestPaceOfFailures(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]any{
		"unauthorized":         wire.Refuse(wire.ClassUnauthorized, "no"),
		"not yet valid":        wire.Refuse(wire.ClassNotYetValid, "soon"),
		"a balancer's answer":  agenttest.HTTP{Status: 502, Body: "no upstream"},
		"a newer hub's class":  wire.Refuse("something_new", "no"),
		"another subprotocol":  agenttest.NoSubprotocol{},
		"a hub without answer": agenttest.Mute{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				w := newWorld(t)
				w.options.Chance = func() float64 { return 0.99 }
				w.hub.Answer(answer)
				start(t, w.options)
				spans := []int{1, 2, 4, 8, 16, 32, 60, 60} // seconds
				for i, gap := range gaps(t, w.hub, len(spans)) {
					span := time.Duration(spans[i]) * time.Second
					g.Expect(gap).To(And(BeNumerically(">=", span*9/10), BeNumerically("<", span+wire.OpeningTimeout+2*wire.CloseTimeout)))
				}
			})
		})
	}
}

func TestRetryAfterIsHeeded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer         any
		least, longest time.Duration
	}{
		"five minutes": {wire.Refuse(wire.ClassBusy, "later").After(5 * time.Minute), 5 * time.Minute, 8 * time.Minute},
		"a day":        {wire.Refuse(wire.ClassBusy, "later").After(24 * time.Hour), 10 * time.Minute, 16 * time.Minute},
		"a balancer's": {agenttest.HTTP{Status: 503, Header: map[string][]string{"Retry-After": {"120"}}}, 2 * time.Minute, 4 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				w := newWorld(t)
				w.hub.Answer(tc.answer)
				op := start(t, w.options)
				for _, gap := range gaps(t, w.hub, 3) {
					g.Expect(gap).To(And(BeNumerically(">=", tc.least), BeNumerically("<", tc.longest)))
					g.Expect(op.Alive()).To(Succeed(), "it waits because it was asked to")
				}
			})
		})
	}
}

func TestTheNextWaitIsShortOnlyAfterASessionThatHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		w.options.Chance = func() float64 { return 0.99 }
		start(t, w.options)
		lose := func(after time.Duration) (wait time.Duration) {
			s := <-w.hub.Sessions
			<-w.hub.Attempts
			time.Sleep(after)
			s.Cut()
			lost := time.Now()
			a := <-w.hub.Attempts
			w.hub.Attempts <- a
			return a.At.Sub(lost)
		}
		g.Expect(lose(time.Second)).To(BeNumerically("~", time.Second, 500*time.Millisecond))
		g.Expect(lose(time.Second)).To(BeNumerically("~", 2*time.Second, 500*time.Millisecond))
		g.Expect(lose(time.Second)).To(BeNumerically("~", 4*time.Second, 500*time.Millisecond))
		g.Expect(lose(3 * wire.DefaultTiming.Heartbeat)).To(BeNumerically("~", time.Second, 500*time.Millisecond))
	})
}

func TestAChangedSecretEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		w.hub.Answer(wire.Refuse(wire.ClassRevoked, "raise no floor").After(10 * time.Minute))
		start(t, w.options)
		<-w.hub.Attempts
		time.Sleep(time.Minute)
		fresh := given(t, w.hub)
		fresh.Token = agenttest.Token(t, agenttest.Claims{Generation: 7})
		changed := time.Now()
		w.credentials.Replace(fresh)
		again := <-w.hub.Attempts
		g.Expect(again.At.Sub(changed)).To(BeNumerically("<", time.Second))
		g.Expect(again.Token).To(Equal(fresh.Token))
	})
}

func TestComplaintsAreNotRepeatedAtEachAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		w.hub.Answer(wire.Refuse(wire.ClassDuplicate, "another operator of this identity is connected"))
		start(t, w.options)
		said := func() int { return strings.Count(w.log.String(), "Could not connect to the hub") }
		gaps(t, w.hub, 5)
		g.Expect(said()).To(Equal(1))
		w.hub.Answer(wire.Refuse(wire.ClassConflict, "pinned to another cluster"))
		gaps(t, w.hub, 5)
		g.Expect(said()).To(Equal(2), "a change is said at once")
		time.Sleep(time.Hour)
		synctest.Wait()
		g.Expect(said()).To(And(BeNumerically(">=", 7), BeNumerically("<=", 9)), "and then every ten minutes or so")
	})
}

func TestWatchdog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		_ = w.net.Close()
		op := start(t, w.options)
		time.Sleep(agent.ReadyGrace - time.Second)
		g.Expect(op.Ready()).To(Succeed(), "it has just started")
		time.Sleep(2 * time.Second)
		g.Expect(op.Ready()).NotTo(Succeed())
		g.Expect(op.Alive()).To(Succeed())
		time.Sleep(agent.DefaultWatchdog)
		g.Expect(op.Alive()).To(MatchError(ContainSubstring("no hub has answered for")))
	})
}

func TestASilentHubIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		op := start(t, w.options)
		s := <-w.hub.Sessions
		time.Sleep(5 * time.Minute)
		g.Expect(op.State().Epoch).To(BeEquivalentTo(1), "a quiet session holds")
		s.Silence()
		before := time.Now()
		<-w.hub.Sessions
		g.Expect(time.Since(before)).To(BeNumerically("<", wire.DefaultTiming.DeadAfter+wire.CloseTimeout+2*time.Second))
		g.Expect(w.log.String()).To(ContainSubstring(`"ending"="silent"`))
	})
}

func TestARegularCutIsExplained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start(t, w.options)
		for range 5 {
			s := <-w.hub.Sessions
			time.Sleep(time.Minute)
			s.Cut()
		}
		<-w.hub.Sessions
		NewWithT(t).Expect(w.log.String()).To(ContainSubstring("closed 5 times after 60±1 s"))
	})
}

func TestFactsMayHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.options.Facts = func(ctx context.Context) wire.Facts {
			<-ctx.Done()
			return wire.Facts{Error: "late"}
		}
		before := time.Now()
		start(t, w.options)
		s := <-w.hub.Sessions
		g := NewWithT(t)
		g.Expect(time.Since(before)).To(BeNumerically("<", 6*time.Second))
		for range 10 {
			before := time.Now()
			for e := range s.Messages {
				if e.Type == wire.TypeHeartbeat {
					break
				}
			}
			g.Expect(time.Since(before)).To(BeNumerically("<=", wire.DefaultTiming.Heartbeat))
		}
	})
}

func TestHeartbeatsCarryFactsOnlyWhenTheyAreNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		var used atomic.Int64
		w.options.Facts = func(context.Context) wire.Facts {
			u := used.Load()
			return wire.Facts{CPUUsed: &u, Source: wire.SourceMetrics}
		}
		start(t, w.options)
		s := <-w.hub.Sessions
		beat := func() *wire.Facts { return nextMessage[wire.Heartbeat](t, s, wire.TypeHeartbeat).Facts }
		for range 3 {
			g.Expect(beat()).To(BeNil())
		}
		used.Store(7)
		g.Expect(*cmp.Or(beat(), beat()).CPUUsed).To(BeEquivalentTo(7), "they are there with the second beat at the latest")
		g.Expect(beat()).To(BeNil())
	})
}
