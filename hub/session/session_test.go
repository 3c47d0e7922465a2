// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
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

// connectRaw opens a session and returns its WebSocket, which nobody reads.
func (f *fixture) connectRaw() *websocket.Conn {
	f.t.Helper()
	ws := f.openRaw()
	hello, err := wire.Encode(wire.TypeHello, sessiontest.Hello())
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(ws.WriteMessage(websocket.TextMessage, hello)).To(Succeed())
	_, _, err = ws.ReadMessage()
	f.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
	return ws
}

// wantEnd waits, and looks at how the cluster's session ended.
func (f *fixture) wantEnd(ending wire.Ending) session.End {
	f.t.Helper()
	synctest.Wait()
	end, known := f.registry.LastEnd(cluster)
	f.Expect(known).To(BeTrue())
	f.Expect(end.Ending).To(Equal(ending), "%+v", end)
	_, held := f.registry.Lookup(cluster)
	f.Expect(held).To(BeFalse())
	f.Expect(f.metric("kubenest_hub_sessions_ended_total", string(ending))).To(BeEquivalentTo(1))
	f.Expect(f.metric("kubenest_hub_sessions")).To(BeZero())
	return end
}

func TestFactsChange(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		o := f.connect(cluster)
		f.events.take()
		time.Sleep(time.Second)
		f.beat(o, 3)
		told := f.events.take()
		f.Expect(told).To(HaveLen(1))
		f.Expect(told[0].Kind).To(Equal(session.FactsChanged))
		f.Expect(*told[0].Info.Facts.Nodes).To(BeEquivalentTo(3))
		f.Expect(told[0].Info.FactsAt).To(BeTemporally("==", time.Now()))
		f.Expect(told[0].Info.LastHeard).To(BeTemporally("==", time.Now()))

		time.Sleep(time.Second)
		f.beat(o, 3)
		f.Expect(o.Send(wire.TypeHeartbeat, wire.Heartbeat{})).To(Succeed())
		f.Expect(f.events.take()).To(BeEmpty(), "nothing moved")
		info, _ := f.registry.Lookup(cluster)
		f.Expect(info.FactsAt).To(BeTemporally("==", time.Now()), "but it is known to be so now")
		time.Sleep(time.Second)
		f.Expect(o.Send(wire.TypeHeartbeat, wire.Heartbeat{})).To(Succeed())
		synctest.Wait()
		info, _ = f.registry.Lookup(cluster)
		f.Expect(info.FactsAt).To(BeTemporally("==", time.Now()), "without repeating it, too")
		f.beat(o, 4)
		f.Expect(f.events.kinds()).To(Equal([]string{"factsChanged cluster-1"}))
		f.Expect(f.metric("kubenest_hub_session_messages_received_total", "heartbeat")).To(BeEquivalentTo(5))
	})
}

func TestBrokenRules(t *testing.T) {
	text := func(data string) func(*websocket.Conn) error {
		return func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.TextMessage, []byte(data)) }
	}
	envelope := func(kind wire.Type, data string) func(*websocket.Conn) error {
		return text(fmt.Sprintf(`{"v":1,"type":%q,"data":%s}`, kind, data))
	}
	chunks := func(ws *websocket.Conn) error {
		data := strings.Repeat("eHh4", 6000)
		for i := range wire.MaxMessage/18_000 + 1 {
			frame := fmt.Appendf(nil, `{"v":1,"type":"chunk","data":{"id":1,"index":%d,"data":%q}}`, i, data)
			if err := ws.WriteMessage(websocket.TextMessage, frame); err != nil {
				return err
			}
		}
		return nil
	}
	for name, tc := range map[string]struct {
		send   func(*websocket.Conn) error
		ending wire.Ending // "" goes on
	}{
		"a second hello":       {envelope(wire.TypeHello, `{"protocol":1,"clusterUID":"u","process":"p"}`), wire.EndProtocol},
		"a hub's message":      {envelope(wire.TypeWelcome, `{}`), wire.EndProtocol},
		"a credential":         {envelope(wire.TypeCredential, `{}`), wire.EndProtocol},
		"impossible facts":     {envelope(wire.TypeHeartbeat, `{"facts":{"nodes":-1}}`), wire.EndProtocol},
		"stored without id":    {envelope(wire.TypeStored, `{}`), wire.EndProtocol},
		"goodbye without data": {text(`{"v":1,"type":"goodbye"}`), wire.EndProtocol},
		"not JSON":             {text(`rubbish`), wire.EndProtocol},
		"an oversized frame":   {envelope(wire.TypeHeartbeat, `"`+strings.Repeat("x", wire.MaxFrame)+`"`), wire.EndProtocol},
		"an oversized message": {chunks, wire.EndProtocol},
		"a binary frame":       {func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.BinaryMessage, []byte("x")) }, wire.EndProtocol},
		"an unknown type":      {envelope("later", `{"a":1}`), ""},
		"no answer we expect":  {envelope(wire.TypeStored, `{"id":"nobody's"}`), ""},
		"an unknown field":     {envelope(wire.TypeHeartbeat, `{"later":1}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				ws := f.connectRaw()
				go func() { // discards the farewell
					for {
						if _, _, err := ws.ReadMessage(); err != nil {
							_ = ws.Close()
							return
						}
					}
				}()
				_ = tc.send(ws) // the hub may hang up in the middle
				synctest.Wait()
				if tc.ending != "" {
					end := f.wantEnd(tc.ending)
					f.Expect(end.Message).NotTo(BeEmpty())
					f.Expect(f.log.String()).To(ContainSubstring(`"ending"="` + string(tc.ending)))
					return
				}
				f.Expect(f.registry.Len()).To(Equal(1))
				if name == "an unknown type" {
					f.Expect(f.metric("kubenest_hub_session_messages_received_total", "unknown")).To(BeEquivalentTo(1))
					f.Expect(f.metric("kubenest_hub_session_messages_dropped_total", "unknown_type")).To(BeEquivalentTo(1))
				}
			})
		})
	}
}

func TestOfManyHeartbeatsTheNewestWins(t *testing.T) {
	limits := session.Limits{Heartbeats: socket.Budget{PerSecond: 1, Burst: 10}}
	bubble(t, session.Options{Limits: limits}, func(f *fixture) {
		o := f.connect(cluster)
		f.events.take()
		for i := range 100 {
			f.beat(o, int32(i))
		}
		f.Expect(f.events.take()).To(HaveLen(10))
		f.Expect(f.nodes(cluster)).To(BeEquivalentTo(9))
		f.Expect(f.metric("kubenest_hub_session_messages_dropped_total", "budget")).To(BeEquivalentTo(90))

		time.Sleep(wire.DefaultTiming.Heartbeat)
		f.Expect(f.events.take()).To(HaveLen(1))
		f.Expect(f.nodes(cluster)).To(BeEquivalentTo(99))
		f.Expect(o.Ended()).To(BeEmpty())
	})
}

func TestFlooding(t *testing.T) {
	for name, kind := range map[string]wire.Type{"heartbeats": wire.TypeHeartbeat, "messages to come": "later"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				other := f.connect("cluster-2")
				o := f.connect(cluster)
				for range session.DefaultLimits().Messages.Burst + 2 {
					if o.Send(kind, struct{}{}) != nil {
						break
					}
					synctest.Wait()
				}
				f.Expect(o.End().Ending).To(Equal(wire.EndFlooding))
				end, _ := f.registry.LastEnd(cluster)
				f.Expect(end.Ending).To(Equal(wire.EndFlooding))
				f.beat(other, 1)
				f.Expect(f.nodes("cluster-2")).To(BeEquivalentTo(1))
			})
		})
	}
}

func TestSilentOperatorIsGivenUp(t *testing.T) {
	timing := wire.Timing{Heartbeat: 2 * time.Second, DeadAfter: 10 * time.Second}
	bubble(t, session.Options{Timing: timing}, func(f *fixture) {
		begin := time.Now()
		ws := f.connectRaw()
		go func() { // reads, and never answers
			ws.SetPingHandler(func(string) error { return nil })
			_, _, _ = ws.ReadMessage()
			_ = ws.Close()
		}()
		time.Sleep(timing.DeadAfter - time.Nanosecond)
		f.Expect(f.registry.Len()).To(Equal(1))
		time.Sleep(time.Nanosecond)
		end := f.wantEnd(wire.EndSilent)
		f.Expect(end.LastHeard).To(BeTemporally("==", begin))
		f.Expect(end.At).To(BeTemporally("==", begin.Add(timing.DeadAfter)))
		f.Expect(end.Age).To(Equal(timing.DeadAfter))
	})
}

func TestHalfOpenSessionIsGivenUp(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		f.connectRaw() // nobody reads, nobody writes: pings are stuck
		begin := time.Now()
		for f.registry.Len() > 0 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		f.Expect(time.Since(begin)).To(BeNumerically("<=", 45*time.Second))
	})
}

func TestPingsKeepAQuietSessionAlive(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		o := f.connect(cluster) // answers pings, and sends nothing
		time.Sleep(time.Hour)
		f.Expect(o.Ended()).To(BeEmpty())
		info, _ := f.registry.Lookup(cluster)
		f.Expect(time.Since(info.LastHeard)).To(BeNumerically("<=", wire.DefaultTiming.Heartbeat))
	})
}

func TestSlowReaderDelaysNobodyElse(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		ws := f.connectRaw() // reads nothing more
		other := f.connect("cluster-2")
		f.server.SetTrust(strings.Repeat("x", 100_000))
		f.Expect(next[wire.Trust](f, other, wire.TypeTrust).CABundle).To(HaveLen(100_000))

		// The hub still hears the slow one.
		frame, err := wire.Encode(wire.TypeHeartbeat, wire.Heartbeat{Facts: &wire.Facts{Nodes: new(int32(7))}})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(ws.WriteMessage(websocket.TextMessage, frame)).To(Succeed())
		synctest.Wait()
		f.Expect(f.nodes(cluster)).To(BeEquivalentTo(7))

		time.Sleep(wire.WriteTimeout)
		f.Expect(f.wantEndOf(cluster).Ending).To(Equal(wire.EndSlow))
		f.beat(other, 8)
		f.Expect(f.nodes("cluster-2")).To(BeEquivalentTo(8))
	})
}

func (f *fixture) wantEndOf(clusterID string) session.End {
	f.t.Helper()
	synctest.Wait()
	end, known := f.registry.LastEnd(clusterID)
	f.Expect(known).To(BeTrue())
	return end
}

func TestGoodbye(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		o := f.connect(cluster)
		f.Expect(o.Send(wire.TypeGoodbye, wire.Goodbye{Reason: "node is drained"})).To(Succeed())
		end := f.wantEnd(wire.EndGoodbye)
		f.Expect(end.Message).To(Equal("node is drained"))
		f.Expect(end.SessionID).To(Equal(o.Welcome.Session))
		f.Expect(end.Epoch).To(BeEquivalentTo(1))
	})
}

func TestEndingsThatOperatorsTell(t *testing.T) {
	for told, want := range map[wire.Ending]wire.Ending{
		wire.EndMoving: wire.EndMoving, wire.EndGoodbye: wire.EndGoodbye, wire.EndProtocol: wire.EndProtocol,
		wire.EndRevoked: wire.EndLost, wire.EndUnknownCluster: wire.EndLost, wire.EndReplaced: wire.EndLost, // not its to tell
	} {
		t.Run(string(told), func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				f.connect(cluster).Close(told, "so to say")
				f.Expect(f.wantEnd(want).Message).To(Equal("so to say"))
				events := f.events.take()
				f.Expect(events).To(HaveLen(2))
				f.Expect(events[1].Kind).To(Equal(session.Closed))
				f.Expect(events[1].Ended.Ending).To(Equal(want))
			})
		})
	}
}
