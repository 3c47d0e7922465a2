// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

// hand hands a token over and waits for the answer.
func hand(t *testing.T, s *agenttest.Session, token string) wire.Stored {
	t.Helper()
	NewWithT(t).Expect(s.Send(wire.TypeCredential, wire.Credential{ID: "hand-over", Token: token})).To(Succeed())
	stored := nextMessage[wire.Stored](t, s, wire.TypeStored)
	NewWithT(t).Expect(stored.ID).To(Equal("hand-over"))
	return stored
}

func TestARenewedTokenIsStoredAndUsed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	kept := credentials.NewMemory(given(t, hub))
	op := start(t, agent.Options{Credentials: kept})
	s := next(t, hub.Sessions, "session")
	renewed := agenttest.Token(t, agenttest.Claims{Generation: 1, Expires: time.Now().Add(time.Hour), ID: "older"})
	newest := agenttest.Token(t, agenttest.Claims{Generation: 2, Expires: time.Now().Add(time.Hour), ID: "newest"})
	g.Expect(hand(t, s, newest).Error).To(BeEmpty())

	s.Cut()
	again := next(t, hub.Sessions, "session")
	g.Expect(again.Attempt.Token).To(Equal(newest))

	g.Expect(hand(t, again, renewed).Error).To(ContainSubstring("older than the one in use"))
	g.Expect(hand(t, again, newest).Error).To(BeEmpty(), "repeating a hand-over does no harm")
	for what, token := range map[string]string{
		"of another cluster": agenttest.Token(t, agenttest.Claims{Generation: 3, ClusterID: "other"}),
		"of another hub":     agenttest.Token(t, agenttest.Claims{Generation: 3, Issuer: "https://other.test"}),
		"not a token":        "eyJ.broken.token",
	} {
		g.Expect(hand(t, again, token).Error).NotTo(BeEmpty(), what)
	}
	op.stop()
	for _, secret := range []string{renewed, newest, renewed[len(renewed)/2:], newest[len(newest)/2:], given(t, hub).Token, "eyJ"} {
		g.Expect(op.log.String()).NotTo(ContainSubstring(secret), "not one character of a token is logged")
	}
	g.Expect(op.log.String()).To(ContainSubstring("newest"), "but its id is")
}

// failing can not store.
type failing struct{ *credentials.Memory }

func (failing) StoreToken(context.Context, agent.Token) error {
	return errors.New("write Secret kubenest-system/kubenest-operator-session: forbidden")
}

func TestAFailureToStoreIsTold(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	start(t, agent.Options{Credentials: failing{credentials.NewMemory(given(t, hub))}})
	s := next(t, hub.Sessions, "session")
	renewed := agenttest.Token(t, agenttest.Claims{Generation: 2})
	g.Expect(hand(t, s, renewed).Error).To(ContainSubstring("forbidden"))
	s.Cut()
	g.Expect(next(t, hub.Sessions, "session").Attempt.Token).To(Equal(given(t, hub).Token))
}

// slow stores only when it is let.
type slow struct {
	*credentials.Memory
	let chan struct{}
}

func (s slow) StoreToken(ctx context.Context, token agent.Token) error {
	select {
	case <-s.let:
		return s.Memory.StoreToken(ctx, token)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestATokenIsStoredEvenIfTheSessionDies(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	kept := slow{credentials.NewMemory(given(t, hub)), make(chan struct{})}
	start(t, agent.Options{Credentials: kept})
	s := next(t, hub.Sessions, "session")
	renewed := agenttest.Token(t, agenttest.Claims{Generation: 2})
	g.Expect(s.Send(wire.TypeCredential, wire.Credential{ID: "1", Token: renewed})).To(Succeed())
	nextMessage[wire.Heartbeat](t, s, wire.TypeHeartbeat) // storing delays no heartbeat
	nextMessage[wire.Heartbeat](t, s, wire.TypeHeartbeat)
	s.Cut()
	close(kept.let)
	g.Expect(next(t, hub.Sessions, "session").Attempt.Token).To(Equal(renewed))
}

func TestAnotherCandidateIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	for _, class := range []wire.Class{wire.ClassRevoked, wire.ClassExpired, wire.ClassUnauthorized, wire.ClassNotYetValid} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			hub := agenttest.Start(t, nil, nil)
			kept := credentials.NewMemory(given(t, hub))
			newer, err := agent.ParseToken(agenttest.Token(t, agenttest.Claims{Generation: 9}))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(kept.StoreToken(t.Context(), newer)).To(Succeed())
			hub.Decide(func(a agenttest.Attempt) any {
				if a.Token == newer.Raw() {
					return wire.Refuse(class, "not this one").After(time.Hour)
				}
				return nil
			})
			start(t, agent.Options{Credentials: kept})
			s := next(t, hub.Sessions, "session")
			g.Expect(s.Attempt.Token).To(Equal(given(t, hub).Token))
			g.Expect(kept.Load(t.Context())).To(HaveField("Tokens", HaveLen(2)), "no refusal drops a credential")
		})
	}
}

func TestTheClearerRefusalIsShown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	kept := credentials.NewMemory(given(t, hub))
	newer, err := agent.ParseToken(agenttest.Token(t, agenttest.Claims{Generation: 9}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept.StoreToken(t.Context(), newer)).To(Succeed())
	hub.Decide(func(a agenttest.Attempt) any {
		if a.Token == newer.Raw() {
			return wire.Refuse(wire.ClassRevoked, "below the floor")
		}
		return wire.Refuse(wire.ClassUnauthorized, "no")
	})
	op := start(t, agent.Options{Credentials: kept})
	eventually(t, func() wire.Class {
		if r := op.State().Refusal; r != nil {
			return r.Class
		}
		return ""
	}).Should(Equal(wire.ClassRevoked))
}

func TestMovingOpensTheNextSessionFirst(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	var changes []agent.State // owned by the agent's goroutine until it has stopped
	op := start(t, agent.Options{
		Credentials: credentials.NewMemory(given(t, hub)), OnState: func(s agent.State) { changes = append(changes, s) },
	})
	old := next(t, hub.Sessions, "session")
	for range 3 { // once is not enough to trust it
		g.Expect(old.Send(wire.TypeMoving, wire.Moving{Within: 200, Reason: "this replica stops"})).To(Succeed())
		moved := next(t, hub.Sessions, "next session")
		g.Expect(ended(t, old)).To(Equal(wire.EndMoving))
		g.Expect(old.Ended.Text).To(ContainSubstring(moved.Welcome.Session), "the old one ends because the new one is there")
		g.Expect(moved.Hello.Process).To(Equal(old.Hello.Process))
		nextMessage[wire.Heartbeat](t, moved, wire.TypeHeartbeat)
		old = moved
	}
	op.stop()
	g.Expect(changes).To(HaveLen(2), "connected at first, and disconnected at last")
	g.Expect(op.log.String()).NotTo(ContainSubstring("Session ended\""), "planned endings are no errors")
}

func TestMovingGoesOnUntilItSucceeds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	op := start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub))})
	old := next(t, hub.Sessions, "session")
	next(t, hub.Attempts, "attempt")
	hub.Answer(wire.Refuse(wire.ClassBusy, "full"))
	g.Expect(old.Send(wire.TypeMoving, wire.Moving{Reason: "this replica is full"})).To(Succeed())
	next(t, hub.Attempts, "refused attempt")
	next(t, hub.Attempts, "refused attempt")
	nextMessage[wire.Heartbeat](t, old, wire.TypeHeartbeat)
	g.Expect(op.State().Connected).To(BeTrue(), "the old session holds meanwhile")
	hub.Answer(nil)
	next(t, hub.Sessions, "next session")
	g.Expect(ended(t, old)).To(Equal(wire.EndMoving))
}

func TestMovingWhileTheHubClosesTheOldSession(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	op := start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub))})
	old := next(t, hub.Sessions, "session")
	next(t, hub.Attempts, "attempt")
	hub.Decide(func(agenttest.Attempt) any {
		old.Close(wire.EndReplaced, "a newer session was claimed") // before it is welcomed
		<-old.Done
		return nil
	})
	g.Expect(old.Send(wire.TypeMoving, wire.Moving{Reason: "test"})).To(Succeed())
	moved := next(t, hub.Sessions, "next session")
	nextMessage[wire.Heartbeat](t, moved, wire.TypeHeartbeat)
	eventually(t, func() string { return op.State().Session }).Should(Equal(moved.Welcome.Session))
	g.Expect(moved.Welcome.Epoch).To(BeEquivalentTo(2), "no third one was opened")
}

func TestItStopsWhileMoving(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	op := start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub))})
	old := next(t, hub.Sessions, "session")
	g.Expect(old.Send(wire.TypeMoving, wire.Moving{Within: 600_000, Reason: "test"})).To(Succeed())
	nextMessage[wire.Heartbeat](t, old, wire.TypeHeartbeat)
	op.stop()
	g.Expect(ended(t, old)).To(Equal(wire.EndGoodbye))
}

func TestANewHubURLMovesTheSession(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	first, second := agenttest.Start(t, nil, nil), agenttest.Start(t, nil, nil)
	kept := credentials.NewMemory(given(t, first))
	start(t, agent.Options{Credentials: kept})
	old := next(t, first.Sessions, "session")

	wrong := given(t, second)
	wrong.HubURL = "http://not.encrypted"
	kept.Replace(wrong)
	nextMessage[wire.Heartbeat](t, old, wire.TypeHeartbeat)
	kept.Replace(given(t, second))
	next(t, second.Sessions, "session with the other hub")
	g.Expect(ended(t, old)).To(Equal(wire.EndMoving))
}

func TestCredentialsThatChangeDuringAMoveAreUsed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	first, second := agenttest.Start(t, nil, nil), agenttest.Start(t, nil, nil)
	kept := credentials.NewMemory(given(t, first))
	start(t, agent.Options{Credentials: kept})
	old := next(t, first.Sessions, "session")
	other := given(t, second)
	first.Decide(func(agenttest.Attempt) any {
		kept.Replace(other)
		for len(kept.Changed()) > 0 { // until the agent has heard of it
			runtime.Gosched()
		}
		return nil
	})
	g.Expect(old.Send(wire.TypeMoving, wire.Moving{Reason: "test"})).To(Succeed())
	next(t, first.Sessions, "session with what was loaded before")
	next(t, second.Sessions, "session with the other hub")
}

func TestAHubThatCountsAnewIsHeeded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub, rebuilt := agenttest.Start(t, nil, nil), agenttest.Start(t, nil, nil)
	kept := credentials.NewMemory(given(t, hub))
	start(t, agent.Options{Credentials: kept})
	old := next(t, hub.Sessions, "session")
	g.Expect(old.Send(wire.TypeMoving, wire.Moving{Reason: "test"})).To(Succeed())
	g.Expect(next(t, hub.Sessions, "next session").Welcome.Epoch).To(BeEquivalentTo(2))

	kept.Replace(given(t, rebuilt))
	s := next(t, rebuilt.Sessions, "session with the rebuilt hub")
	g.Expect(s.Welcome.Epoch).To(BeEquivalentTo(1), "its records' epochs begin anew")
	bundle, _ := authority(t)
	g.Expect(s.Send(wire.TypeTrust, wire.Trust{ID: "new", CABundle: rebuilt.CA + bundle})).To(Succeed())
	g.Expect(nextMessage[wire.Stored](t, s, wire.TypeStored)).To(Equal(wire.Stored{ID: "new"}))
}

func TestUnknownMessagesAreIgnored(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub))})
	s := next(t, hub.Sessions, "session")
	g.Expect(s.Send("from-the-future", map[string]string{"a": "b"})).To(Succeed())
	g.Expect(hand(t, s, agenttest.Token(t, agenttest.Claims{Generation: 1})).Error).To(BeEmpty())
}

func TestAMalformedCredentialEndsTheSessionAndIsNotLogged(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	op := start(t, agent.Options{Credentials: credentials.NewMemory(given(t, hub))})
	s := next(t, hub.Sessions, "session")
	g.Expect(s.Send(wire.TypeCredential, "a-secret-token-in-the-wrong-place")).To(Succeed())
	g.Expect(ended(t, s)).To(Equal(wire.EndProtocol))
	next(t, hub.Sessions, "session")
	op.stop()
	g.Expect(op.log.String() + s.Ended.Text).NotTo(ContainSubstring("a-secret"))
}
