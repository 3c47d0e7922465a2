// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

// open opens a WebSocket that has said no hello.
func (f *fixture) open() *socket.Conn {
	f.t.Helper()
	return socket.New(f.openRaw(), socket.Options{})
}

func (f *fixture) openRaw() *websocket.Conn {
	f.t.Helper()
	ws, _, _ := f.hub.Open(f.t.Context(), f.token(cluster))
	f.Expect(ws).NotTo(BeNil())
	f.Expect(ws.Subprotocol()).To(Equal(wire.Subprotocol))
	return ws
}

// end reads until the end of a connection, and joins it.
func (f *fixture) end(c *socket.Conn) *socket.Ended {
	f.t.Helper()
	defer c.Wait()
	for {
		var ended *socket.Ended
		if _, err := c.Read(); errors.As(err, &ended) {
			return ended
		}
	}
}

func TestWelcome(t *testing.T) {
	timing := wire.Timing{Heartbeat: 7 * time.Second, DeadAfter: 30 * time.Second}
	bubble(t, session.Options{Replica: "pod/boot", HubVersion: "v1.2.3", Timing: timing}, func(f *fixture) {
		f.server.SetTrust("bundle")
		hello := sessiontest.Hello()
		hello.Time = time.Now().Add(-90 * time.Second)
		hello.Facts.Nodes = new(int32(3))
		id := identity(cluster)
		o, err := f.hub.Connect(f.t.Context(), f.authority.Issue(id), hello)
		f.Expect(err).NotTo(HaveOccurred())
		now := time.Now()
		w := o.Welcome
		f.Expect(w).To(Equal(wire.Welcome{
			Session: w.Session, Epoch: 1, HubVersion: "v1.2.3", Replica: "pod/boot",
			Heartbeat: 7000, DeadAfter: 30_000, CABundle: "bundle",
		}))
		f.Expect(w.Session).NotTo(BeEmpty())

		claims := f.authority.Claims()
		f.Expect(claims).To(HaveLen(1))
		f.Expect(claims[0].Hello.Time).To(BeTemporally("==", hello.Time))
		f.Expect(claims[0].Hello.Facts).To(Equal(hello.Facts))
		f.Expect(claims[0].Identity).To(Equal(id))
		f.Expect(claims[0].SessionID).To(Equal(w.Session))
		f.Expect(claims[0].ReceivedAt).To(BeTemporally("==", now))
		f.Expect(claims[0].Live).To(BeNil())

		info, ok := f.registry.Lookup(cluster)
		f.Expect(ok).To(BeTrue())
		f.Expect(info).To(Equal(session.Info{
			ClusterID: cluster, SessionID: w.Session, Process: "process-1", ClusterUID: "kube-system-uid", Epoch: 1, Identity: id,
			OperatorVersion: "v0.0.0-test", Schema: 1, Facts: hello.Facts, FactsAt: info.FactsAt, ConnectedAt: info.ConnectedAt,
			LastHeard: info.LastHeard, ClockOffset: -90 * time.Second,
		}))
		for _, at := range []time.Time{info.FactsAt, info.ConnectedAt, info.LastHeard} {
			f.Expect(at).To(BeTemporally("==", now))
		}
		f.Expect(f.registry.Snapshot()).To(Equal([]session.Info{info}))
		f.Expect(f.events.kinds()).To(Equal([]string{"opened cluster-1"}))
		f.Expect(f.metric("kubenest_hub_sessions")).To(BeEquivalentTo(1))
		f.Expect(f.metric("kubenest_hub_sessions_opened_total")).To(BeEquivalentTo(1))
		f.Expect(f.metric("kubenest_hub_session_opening_seconds")).To(BeEquivalentTo(1))
		f.Expect(f.log.String()).To(ContainSubstring(`"msg"="Session opened" "cluster"="cluster-1"`))
	})
}

func TestNoHelloInTime(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		c := f.open()
		begin := time.Now()
		for i := range 9 { // pings are no hello
			time.AfterFunc(time.Duration(i)*time.Second, c.Ping)
		}
		f.Expect(f.end(c).Ending).To(Equal(wire.EndSilent))
		f.Expect(time.Since(begin)).To(Equal(wire.OpeningTimeout))
		synctest.Wait()
		f.Expect(f.metric("kubenest_hub_connections_unopened_total", "silent")).To(BeEquivalentTo(1))
		f.Expect(f.events.take()).To(BeEmpty())
	})
}

func TestWhatIsNoHello(t *testing.T) {
	for name, send := range map[string]func(*socket.Conn) error{
		"a heartbeat":     func(c *socket.Conn) error { return c.Send(wire.TypeHeartbeat, wire.Heartbeat{}) },
		"an unknown type": func(c *socket.Conn) error { return c.Send("later", struct{}{}) },
		"an empty hello":  func(c *socket.Conn) error { return c.Send(wire.TypeHello, wire.Hello{}) },
		"half a hello": func(c *socket.Conn) error {
			hello := sessiontest.Hello()
			hello.Process = ""
			return c.Send(wire.TypeHello, hello)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				c := f.open()
				f.Expect(send(c)).To(Succeed())
				ended := f.end(c)
				f.Expect(ended.Ending).To(Equal(wire.EndProtocol))
				f.Expect(ended.Text).To(ContainSubstring("malformed"))
				f.Expect(f.authority.Claims()).To(BeEmpty())
				f.Expect(f.events.take()).To(BeEmpty())
			})
		})
	}
}

func TestConnectionLostBeforeHello(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		ws := f.openRaw()
		synctest.Wait()
		_ = ws.Close()
		synctest.Wait()
		f.Expect(f.metric("kubenest_hub_connections_unopened_total", "lost")).To(BeEquivalentTo(1))
		f.connect(cluster)
	})
}

func TestRefusedHello(t *testing.T) {
	for _, class := range []wire.Class{
		wire.ClassConflict, wire.ClassDuplicate, wire.ClassRevoked, wire.ClassUnknownCluster, wire.ClassBusy,
	} {
		t.Run(string(class), func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				f.authority.OnClaim = func(context.Context, session.Claim) (int64, error) {
					return 0, wire.Refuse(class, "because")
				}
				c := f.open()
				f.Expect(c.Send(wire.TypeHello, sessiontest.Hello())).To(Succeed())
				e, err := c.Read()
				f.Expect(err).NotTo(HaveOccurred())
				f.Expect(e.Type).To(Equal(wire.TypeRefused))
				var refusal wire.Refusal
				f.Expect(e.Read(&refusal)).To(Succeed())
				f.Expect(refusal).To(Equal(wire.Refusal{Class: class, Message: "because"}))
				ended := f.end(c)
				f.Expect(ended.Ending).To(Equal(wire.EndRefused))
				f.Expect(ended.Text).To(Equal(string(class)))

				synctest.Wait()
				f.Expect(f.registry.Len()).To(BeZero())
				f.Expect(f.events.take()).To(BeEmpty())
				f.Expect(f.metric("kubenest_hub_session_refusals_total", string(class), "")).To(BeEquivalentTo(1))
				f.Expect(f.metric("kubenest_hub_connections_unopened_total", "refused")).To(BeEquivalentTo(1))
			})
		})
	}
}

func TestClaimThatFailsOrHangsIsBusy(t *testing.T) {
	for name, claim := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return errors.New("conflict, many times") },
		"hangs": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				f.authority.OnClaim = func(ctx context.Context, _ session.Claim) (int64, error) { return 0, claim(ctx) }
				_, err := f.hub.Connect(f.t.Context(), f.token(cluster), sessiontest.Hello())
				var refusal *wire.Refusal
				f.Expect(errors.As(err, &refusal)).To(BeTrue(), "%v", err)
				f.Expect(refusal.Class).To(Equal(wire.ClassBusy))
				f.Expect(refusal.RetryAfter).To(BeNumerically(">", 0))
			})
		})
	}
}

func TestNewerSessionReplacesAnOlder(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		older := f.connect(cluster)
		olderInfo, _ := f.registry.Lookup(cluster)
		f.Expect(f.events.kinds()).To(Equal([]string{"opened cluster-1"}))
		newer := f.connect(cluster)

		f.Expect(f.authority.Claims()[1].Live).To(HaveValue(Equal(olderInfo)))
		ended := older.End()
		f.Expect(ended.Ending).To(Equal(wire.EndReplaced))
		f.Expect(ended.Told).To(BeTrue())

		f.Expect(f.events.kinds()).To(ConsistOf("opened cluster-1", "closed cluster-1"))
		info, ok := f.registry.Lookup(cluster)
		f.Expect(ok).To(BeTrue(), "the older one's end does not remove the newer one")
		f.Expect(info.SessionID).To(Equal(newer.Welcome.Session))
		f.Expect(info.Epoch).To(BeEquivalentTo(2))
		_, known := f.registry.LastEnd(cluster)
		f.Expect(known).To(BeFalse(), "nor is it the cluster's last end")
		f.Expect(f.metric("kubenest_hub_sessions")).To(BeEquivalentTo(1))
		f.Expect(f.metric("kubenest_hub_sessions_ended_total", "replaced")).To(BeEquivalentTo(1))
		f.beat(newer, 5)
		f.Expect(f.nodes(cluster)).To(BeEquivalentTo(5))
	})
}

func TestLateEndOfAHalfOpenSessionDoesNotRemoveTheNewer(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		ws := f.openRaw() // never read again after its hello
		hello, err := wire.Encode(wire.TypeHello, sessiontest.Hello())
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(ws.WriteMessage(websocket.TextMessage, hello)).To(Succeed())
		synctest.Wait()
		f.Expect(f.registry.Len()).To(Equal(1))
		newer := f.connect(cluster)
		for range 10 { // long after everything about the older one has timed out
			time.Sleep(wire.DefaultTiming.Heartbeat)
			f.beat(newer, 1)
		}
		info, ok := f.registry.Lookup(cluster)
		f.Expect(ok).To(BeTrue())
		f.Expect(info.SessionID).To(Equal(newer.Welcome.Session))
		f.Expect(f.metric("kubenest_hub_sessions_ended_total", "replaced")).To(BeEquivalentTo(1))
	})
}

func TestLateLoserIsNotWelcomed(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		release := make(chan struct{})
		f.authority.OnClaim = func(_ context.Context, c session.Claim) (int64, error) {
			if c.Hello.Process == "early" { // has the lower epoch, and is late to hear of it
				<-release
				return 1, nil
			}
			return 2, nil
		}
		early := f.open()
		hello := sessiontest.Hello()
		hello.Process = "early"
		f.Expect(early.Send(wire.TypeHello, hello)).To(Succeed())
		synctest.Wait()
		newer := f.connect(cluster)
		close(release)
		e, err := early.Read()
		f.Expect(e).To(BeZero(), "no welcome")
		f.Expect(err).To(HaveOccurred())
		f.Expect(f.end(early).Ending).To(Equal(wire.EndReplaced))
		info, _ := f.registry.Lookup(cluster)
		f.Expect(info.SessionID).To(Equal(newer.Welcome.Session))
	})
}

func TestConnectionThatBreaksWhileItIsClaimed(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		ws := f.openRaw()
		f.authority.OnClaim = func(context.Context, session.Claim) (int64, error) {
			_ = ws.Close()
			return 1, nil
		}
		hello, err := wire.Encode(wire.TypeHello, sessiontest.Hello())
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(ws.WriteMessage(websocket.TextMessage, hello)).To(Succeed())
		f.Expect(f.events.kinds()).To(Equal([]string{"opened cluster-1", "closed cluster-1"}), "what was claimed is ended")
		end, known := f.registry.LastEnd(cluster)
		f.Expect(known).To(BeTrue())
		f.Expect(end.Ending).To(Equal(wire.EndLost))
	})
}

func TestLargeHello(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		hello := sessiontest.Hello()
		hello.Facts.Error = strings.Repeat("x", 100_000) // comes in chunks, and is cut
		o, err := f.hub.Connect(f.t.Context(), f.token(cluster), hello)
		f.Expect(err).NotTo(HaveOccurred())
		info, _ := f.registry.Lookup(cluster)
		f.Expect(info.Facts.Error).To(HaveLen(wire.MaxText))
		f.Expect(o.Ended()).To(BeEmpty())
	})
}
