// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

func TestDrainIsPacedAndEnds(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		const within = time.Minute
		asked := make(chan time.Duration, 200)
		begin := time.Now()
		var last *sessiontest.Operator
		for i := range 120 {
			o := f.connect(fmt.Sprint("cluster-", i))
			if i == 0 {
				last = o // leaves late
				continue
			}
			go func() {
				for e := range o.Received {
					if e.Type == wire.TypeMoving {
						asked <- time.Since(begin)
						o.Close(wire.EndMoving, "moved")
					}
				}
			}()
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			f.server.Drain(f.t.Context(), within, "the hub is being updated")
		}()
		time.Sleep(within)
		f.Expect(asked).To(HaveLen(119))
		soon := 0
		for range 119 {
			at := <-asked
			f.Expect(at).To(BeNumerically("<=", within/2))
			if at < within/4 {
				soon++
			}
		}
		f.Expect(soon).To(BeNumerically("~", 60, 10), "evenly")
		f.Expect(drained).NotTo(BeClosed())

		moving := next[wire.Moving](f, last, wire.TypeMoving)
		f.Expect(moving).To(Equal(wire.Moving{Within: 30_000, Reason: "the hub is being updated"}))
		during := f.connect("opened meanwhile")
		f.Expect(next[wire.Moving](f, during, wire.TypeMoving)).To(Equal(moving))
		last.Close(wire.EndMoving, "")
		during.Close(wire.EndMoving, "")
		<-drained
		f.Expect(f.registry.Len()).To(BeZero())
		f.Expect(f.connect("opened afterwards").Received).To(BeEmpty())
	})
}

func TestDrainIsBounded(t *testing.T) {
	for name, wait := range map[string]time.Duration{"while it asks": 10 * time.Second, "while they move": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				var stubborn []*sessiontest.Operator
				for i := range 60 {
					stubborn = append(stubborn, f.connect(fmt.Sprint("cluster-", i)))
				}
				begin := time.Now()
				ctx, cancel := context.WithTimeout(f.t.Context(), wait)
				defer cancel()
				f.server.Drain(ctx, time.Minute, "")
				f.Expect(time.Since(begin)).To(Equal(wait))
				for _, o := range stubborn {
					f.Expect(o.Ended()).To(BeEmpty(), "they go on")
				}
			})
		})
	}
}

func TestDrainOfNobody(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		begin := time.Now()
		f.server.Drain(f.t.Context(), time.Minute, "")
		f.Expect(time.Since(begin)).To(BeZero())
	})
}

func TestCloseEndsAllAsMoving(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		a, b := f.connect("a"), f.connect("b")
		opening := f.open()
		claiming := make(chan error, 1)
		f.authority.OnClaim = func(ctx context.Context, _ session.Claim) (int64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		go func() {
			_, err := f.hub.Connect(f.t.Context(), f.token("c"), sessiontest.Hello())
			claiming <- err
		}()
		synctest.Wait()
		begin := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- f.server.Close(f.t.Context()) }()
		for _, o := range []*sessiontest.Operator{a, b} {
			ended := o.End()
			f.Expect(ended.Ending).To(Equal(wire.EndMoving))
			f.Expect(ended.Told).To(BeTrue())
		}
		f.Expect(f.end(opening).Ending).To(Equal(wire.EndMoving))
		f.Expect(<-claiming).To(HaveOccurred())
		f.Expect(<-closed).To(Succeed())
		f.Expect(time.Since(begin)).To(BeZero())
		f.Expect(f.registry.Len()).To(BeZero())
		f.wantRefused(f.token("d"), 503, wire.ClassBusy)
		f.Expect(f.server.Close(f.t.Context())).To(Succeed(), "twice is as good as once")
	})
}

func TestCloseDoesNotWaitForTheDead(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		f.connectRaw() // reads nothing
		begin := time.Now()
		f.Expect(f.server.Close(f.t.Context())).To(Succeed())
		f.Expect(time.Since(begin)).To(BeNumerically("<=", wire.CloseTimeout))
	})
}

func TestCloseIsBoundedByItsContext(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		release := make(chan struct{})
		f.registry.Subscribe(func(e session.Event) {
			if e.Kind == session.Closed {
				<-release // no subscriber should
			}
		})
		f.connect(cluster)
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
		defer cancel()
		f.Expect(f.server.Close(ctx)).To(MatchError(context.DeadlineExceeded))
		close(release)
	})
}

func TestNewRefusesWhatCanNotWork(t *testing.T) {
	g := NewWithT(t)
	_, err := session.New(session.Options{})
	g.Expect(err).To(MatchError(ContainSubstring("authority")))
	_, err = session.New(session.Options{
		Authority: &sessiontest.Authority{}, Timing: wire.Timing{Heartbeat: 20 * time.Second, DeadAfter: 40 * time.Second},
	})
	g.Expect(err).To(MatchError(ContainSubstring("at least three heartbeats")))
	registry := prometheus.NewRegistry()
	_, err = session.New(session.Options{Authority: &sessiontest.Authority{}, Metrics: registry})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = session.New(session.Options{Authority: &sessiontest.Authority{}, Metrics: registry})
	g.Expect(err).To(MatchError(ContainSubstring("register session metrics")))
}
