// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

// handOver hands a token over in the background.
func (f *fixture) handOver(ctx context.Context) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f.registry.HandOver(ctx, cluster, "SECRET") }()
	synctest.Wait()
	return result
}

func TestHandOver(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		o := f.connect(cluster)
		result := f.handOver(f.t.Context())
		credential := next[wire.Credential](f, o, wire.TypeCredential)
		f.Expect(credential.Token).To(Equal("SECRET"))
		f.Expect(result).NotTo(Receive(), "it is not stored yet")
		f.Expect(o.Send(wire.TypeStored, wire.Stored{ID: "another"})).To(Succeed())
		synctest.Wait()
		f.Expect(result).NotTo(Receive())
		f.Expect(o.Send(wire.TypeStored, wire.Stored{ID: credential.ID})).To(Succeed())
		f.Expect(o.Send(wire.TypeStored, wire.Stored{ID: credential.ID, Error: "twice"})).To(Succeed())
		f.Expect(<-result).To(Succeed())
		synctest.Wait()
		f.Expect(f.log.String()).NotTo(ContainSubstring("SECRET"))
	})
}

func TestHandOverFails(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(f *fixture, o *sessiontest.Operator, id string, cancel func())
		want string
		in   time.Duration
	}{
		"it can't be stored": {func(f *fixture, o *sessiontest.Operator, id string, _ func()) {
			f.Expect(o.Send(wire.TypeStored, wire.Stored{ID: id, Error: "secrets is forbidden"})).To(Succeed())
		}, "the operator could not store the token: secrets is forbidden", 0},
		"no answer":        {func(*fixture, *sessiontest.Operator, string, func()) {}, "did not say that the token is stored: context deadline exceeded", wire.StoreTimeout},
		"the session ends": {func(_ *fixture, o *sessiontest.Operator, _ string, _ func()) { o.Close(wire.EndGoodbye, "") }, "the session ended (goodbye)", 0},
		"nobody waits":     {func(_ *fixture, _ *sessiontest.Operator, _ string, cancel func()) { cancel() }, "context canceled", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				o := f.connect(cluster)
				ctx, cancel := context.WithCancel(f.t.Context())
				defer cancel()
				begin := time.Now()
				result := f.handOver(ctx)
				tc.then(f, o, next[wire.Credential](f, o, wire.TypeCredential).ID, cancel)
				err := <-result
				f.Expect(err).To(MatchError(ContainSubstring(tc.want)))
				f.Expect(err.Error()).NotTo(ContainSubstring("SECRET"))
				f.Expect(time.Since(begin)).To(Equal(tc.in))
			})
		})
	}
}

func TestHandOverToNobody(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		f.Expect(f.registry.HandOver(f.t.Context(), cluster, "t")).To(MatchError(session.ErrNotConnected))
	})
}

func TestTrustIsSentToAll(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		f.server.SetTrust("one")
		a, b := f.connect("a"), f.connect("b")
		f.Expect(a.Welcome.CABundle).To(Equal("one"))
		f.server.SetTrust("one")
		synctest.Wait()
		f.Expect(a.Received).To(BeEmpty(), "nothing changed")

		f.server.SetTrust("two")
		trust := next[wire.Trust](f, a, wire.TypeTrust)
		f.Expect(trust.CABundle).To(Equal("two"))
		f.Expect(next[wire.Trust](f, b, wire.TypeTrust).CABundle).To(Equal("two"))
		f.Expect(f.connect("c").Welcome.CABundle).To(Equal("two"))
		f.Expect(a.Send(wire.TypeStored, wire.Stored{ID: trust.ID, Error: "disk is full"})).To(Succeed())
		synctest.Wait()
		f.Expect(f.log.String()).To(ContainSubstring("disk is full"))
	})
}

func TestWelcomeWithALargeBundleComesFirst(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		large := strings.Repeat("certificate ", 10_000)
		f.server.SetTrust(large)
		f.registry.Subscribe(func(e session.Event) {
			if e.Kind == session.Opened {
				go func() { _ = f.registry.HandOver(f.t.Context(), e.ClusterID, "t") }()
			}
		})
		o := f.connect(cluster) // would fail if the small message passed the welcome
		f.Expect(o.Welcome.CABundle).To(Equal(large))
		next[wire.Credential](f, o, wire.TypeCredential)
	})
}

// aging is an identity some way through a life of a day.
func aging(part float64) session.Identity {
	const life = 24 * time.Hour
	id := identity(cluster)
	id.IssuedAt = time.Now().Add(-time.Duration(part * float64(life)))
	id.ExpiresAt = id.IssuedAt.Add(life)
	id.Expired = part > 1
	return id
}

func TestRenewal(t *testing.T) {
	for name, tc := range map[string]struct {
		age float64
		at  time.Duration // of the day
	}{
		"at two thirds":         {0.5, 16*time.Hour - 12*time.Hour},
		"past two thirds":       {0.9, 0},
		"expired, within grace": {3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				before := aging(tc.age)
				o, err := f.hub.Connect(f.t.Context(), f.authority.Issue(before), sessiontest.Hello())
				f.Expect(err).NotTo(HaveOccurred())
				begin := time.Now()
				e := <-o.Received
				f.Expect(e.Type).To(Equal(wire.TypeCredential))
				f.Expect(time.Since(begin)).To(BeNumerically("~", tc.at+wire.DefaultTiming.Heartbeat/2, wire.DefaultTiming.Heartbeat/2), "at the beat after")
				var credential wire.Credential
				f.Expect(e.Read(&credential)).To(Succeed())

				info, _ := f.registry.Lookup(cluster)
				f.Expect(info.Identity).To(Equal(before), "until it is stored")
				f.Expect(o.Send(wire.TypeStored, wire.Stored{ID: credential.ID})).To(Succeed())
				synctest.Wait()
				info, _ = f.registry.Lookup(cluster)
				f.Expect(info.Identity.TokenID).To(Equal("jti-1+"))
				f.Expect(info.Identity.ExpiresAt).To(BeTemporally(">", before.ExpiresAt))
				f.Expect(info.Identity.Expired).To(BeFalse())
				f.Expect(f.metric("kubenest_hub_token_renewals_total", "stored")).To(BeEquivalentTo(1))
				f.Expect(f.log.String()).NotTo(ContainSubstring(credential.Token))

				time.Sleep(time.Hour)
				f.Expect(o.Received).To(BeEmpty(), "once is enough")
			})
		})
	}
}

func TestRenewalThatFailsIsTriedAgain(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		calls := 0
		f.authority.OnRenew = func(_ context.Context, id session.Identity) (string, session.Identity, error) {
			if calls++; calls == 1 {
				return "", id, errors.New("no key")
			}
			id.TokenID, id.ExpiresAt, id.Expired = "jti-2", time.Now().Add(time.Hour*24*365), false
			return "SECRET", id, nil
		}
		o, err := f.hub.Connect(f.t.Context(), f.authority.Issue(aging(2)), sessiontest.Hello())
		f.Expect(err).NotTo(HaveOccurred())
		first := <-o.Received // not answered
		begin := time.Now()
		f.Expect(first.Type).To(Equal(wire.TypeCredential))
		second := <-o.Received
		f.Expect(time.Since(begin)).To(BeNumerically(">=", 2*time.Minute))
		f.Expect(time.Since(begin)).To(BeNumerically("<", 3*time.Minute))
		var credential wire.Credential
		f.Expect(second.Read(&credential)).To(Succeed())
		f.Expect(o.Send(wire.TypeStored, wire.Stored{ID: credential.ID})).To(Succeed())
		synctest.Wait()
		info, _ := f.registry.Lookup(cluster)
		f.Expect(info.Identity.TokenID).To(Equal("jti-2"))
		f.Expect(f.metric("kubenest_hub_token_renewals_total", "failed")).To(BeEquivalentTo(2))
		f.Expect(o.Ended()).To(BeEmpty(), "the session goes on meanwhile")
		f.Expect(f.log.String()).To(ContainSubstring("no key"))
		f.Expect(f.log.String()).NotTo(ContainSubstring("SECRET"))
	})
}

func TestRenewalThatHangsDelaysNoPing(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		f.authority.OnRenew = func(ctx context.Context, id session.Identity) (string, session.Identity, error) {
			<-ctx.Done()
			return "", id, ctx.Err()
		}
		o, err := f.hub.Connect(f.t.Context(), f.authority.Issue(aging(2)), sessiontest.Hello())
		f.Expect(err).NotTo(HaveOccurred())
		time.Sleep(10 * time.Minute)
		f.Expect(o.Ended()).To(BeEmpty())
	})
}

func TestRenewAtIsTheOwnersToSay(t *testing.T) {
	never := func(session.Identity) time.Time { return time.Time{} }
	bubble(t, session.Options{RenewAt: never}, func(f *fixture) {
		o, err := f.hub.Connect(f.t.Context(), f.authority.Issue(aging(2)), sessiontest.Hello())
		f.Expect(err).NotTo(HaveOccurred())
		time.Sleep(time.Hour)
		f.Expect(o.Received).To(BeEmpty())
	})
	var now atomic.Bool
	later := func(id session.Identity) time.Time {
		if now.Load() && id.TokenID == "jti-1" {
			return id.IssuedAt
		}
		return time.Time{}
	}
	bubble(t, session.Options{RenewAt: later}, func(f *fixture) {
		o := f.connect(cluster)
		time.Sleep(time.Hour)
		f.Expect(o.Received).To(BeEmpty())
		now.Store(true)
		for len(o.Received) == 0 { // the next beat may be near, and it waits 10 s for the answer
			time.Sleep(time.Second)
		}
		credential := next[wire.Credential](f, o, wire.TypeCredential)
		f.Expect(o.Send(wire.TypeStored, wire.Stored{ID: credential.ID})).To(Succeed())
		time.Sleep(time.Hour)
		f.Expect(o.Received).To(BeEmpty(), "once is enough")
	})
}
