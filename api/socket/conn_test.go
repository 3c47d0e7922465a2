// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

var timing = wire.Timing{Heartbeat: time.Second, DeadAfter: 5 * time.Second}

// goodbyes reads n goodbyes and returns their reasons, cut.
func goodbyes(g *WithT, c *socket.Conn, n int) []string {
	var reasons []string
	for range n {
		e, err := c.Read()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(e.Type).To(Equal(wire.TypeGoodbye))
		var m struct{ Reason string }
		g.Expect(e.Read(&m)).To(Succeed())
		reasons = append(reasons, m.Reason[:min(len(m.Reason), 8)])
	}
	return reasons
}

// wantEnded reads on until the end.
func wantEnded(g *WithT, c *socket.Conn, ending wire.Ending) *socket.Ended {
	var ended *socket.Ended
	for ended == nil {
		_, err := c.Read()
		if err != nil {
			g.Expect(errors.As(err, &ended)).To(BeTrue(), "%v", err)
		}
	}
	g.Expect(ended.Ending).To(Equal(ending), "%v", ended)
	g.Expect(c.Ended()).To(Equal(ending))
	g.Expect(c.Done()).To(BeClosed())
	return ended
}

func TestMessagesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s, c := conns(t, socket.Options{}, socket.Options{})
		for i := range 5 {
			g.Expect(s.Send(wire.TypeGoodbye, wire.Goodbye{Reason: fmt.Sprint("down", i)})).To(Succeed())
			g.Expect(c.Send(wire.TypeGoodbye, wire.Goodbye{Reason: fmt.Sprint("up", i)})).To(Succeed())
		}
		g.Expect(goodbyes(g, c, 5)).To(Equal([]string{"down0", "down1", "down2", "down3", "down4"}))
		g.Expect(goodbyes(g, s, 5)).To(Equal([]string{"up0", "up1", "up2", "up3", "up4"}))
	})
}

func TestLargeMessages(t *testing.T) {
	large := strings.Repeat("large---", 15_000)
	for name, tc := range map[string]struct{ send, want []string }{
		"a small message passes a large one":        {[]string{"first", large, "small"}, []string{"first", "small", "large---"}},
		"large messages keep their order":           {[]string{"first", large, "again---" + large}, []string{"first", "large---", "again---"}},
		"the first message is passed by no other":   {[]string{large, "small"}, []string{"large---", "small"}},
		"after a large first one, small ones do it": {[]string{large, "small", large}, []string{"large---", "small", "large---"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				s, c := conns(t, socket.Options{}, socket.Options{})
				for _, reason := range tc.send {
					g.Expect(s.Send(wire.TypeGoodbye, wire.Goodbye{Reason: reason})).To(Succeed())
				}
				g.Expect(goodbyes(g, c, len(tc.want))).To(Equal(tc.want))
			})
		})
	}
}

func TestTooLargeMessageIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s, _ := conns(t, socket.Options{}, socket.Options{})
		err := s.Send(wire.TypeGoodbye, wire.Goodbye{Reason: strings.Repeat("x", wire.MaxMessage)})
		g.Expect(err).To(MatchError(ContainSubstring("at most 4194304 are allowed")))
		g.Expect(s.Ended()).To(BeEmpty())
	})
}

func TestSilencePeerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, client := webSockets(t)
		s := socket.New(server, socket.Options{Timing: timing})
		go func() { // reads, and says nothing: gorilla would answer pings
			client.SetPingHandler(func(string) error { return nil })
			_, _, _ = client.ReadMessage()
		}()
		begin := time.Now()
		wantEnded(g, s, wire.EndSilent)
		g.Expect(time.Since(begin)).To(Equal(timing.DeadAfter))
		g.Expect(s.LastHeard()).To(Equal(begin))
		s.Wait()
		g.Expect(time.Since(begin)).To(BeNumerically("<=", timing.DeadAfter+wire.CloseTimeout))
	})
}

func TestHalfOpenConnectionIsTornDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, _ := webSockets(t) // nobody reads or writes at the other end
		s := socket.New(server, socket.Options{Timing: timing})
		begin := time.Now()
		s.Ping()
		wantEnded(g, s, wire.EndSilent)
		s.Wait()
		g.Expect(time.Since(begin)).To(BeNumerically("<=", timing.DeadAfter+wire.CloseTimeout))
	})
}

func TestPingAndPongAreSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s, c := conns(t, socket.Options{Timing: timing}, socket.Options{Timing: timing})
		var readers sync.WaitGroup
		readers.Go(func() { wantEnded(g, s, wire.EndGoodbye) })
		readers.Go(func() { wantEnded(g, c, wire.EndGoodbye) })
		for range 10 { // one side's pings keep both alive
			time.Sleep(timing.DeadAfter - time.Millisecond)
			s.Ping()
			synctest.Wait()
			g.Expect(time.Since(s.LastHeard())).To(BeZero())
			g.Expect(time.Since(c.LastHeard())).To(BeZero())
		}
		c.Close(wire.EndGoodbye, "")
		readers.Wait()
	})
}

func TestSetTimingHoldsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s, _ := conns(t, socket.Options{Timing: timing}, socket.Options{})
		begin := time.Now()
		time.AfterFunc(time.Second, func() { s.SetTiming(wire.Timing{Heartbeat: time.Minute, DeadAfter: time.Hour}) })
		wantEnded(g, s, wire.EndSilent)
		g.Expect(time.Since(begin)).To(Equal(time.Hour + time.Second))
	})
}

func TestPeerThatDoesNotReadIsSlow(t *testing.T) {
	for name, tc := range map[string]struct {
		options socket.Options
		send    int
		within  time.Duration
	}{
		"a write takes too long":    {socket.Options{Timing: wire.DefaultTiming}, 1, wire.WriteTimeout},
		"too much waits to be sent": {socket.Options{MaxQueued: 3 << 10}, 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server, _ := webSockets(t)
				s := socket.New(server, tc.options)
				begin := time.Now()
				var err error
				for range tc.send {
					err = s.Send(wire.TypeGoodbye, wire.Goodbye{Reason: strings.Repeat("x", 1000)})
				}
				if tc.send > 1 {
					var ended *socket.Ended
					g.Expect(errors.As(err, &ended)).To(BeTrue())
					g.Expect(ended.Ending).To(Equal(wire.EndSlow))
				}
				wantEnded(g, s, wire.EndSlow)
				g.Expect(time.Since(begin)).To(Equal(tc.within))
				s.Wait()
				g.Expect(time.Since(begin)).To(BeNumerically("<=", tc.within+wire.CloseTimeout))
			})
		})
	}
}

func TestBrokenRules(t *testing.T) {
	text := func(data string) func(*websocket.Conn) {
		return func(ws *websocket.Conn) { _ = ws.WriteMessage(websocket.TextMessage, []byte(data)) }
	}
	raw := func(data ...byte) func(*websocket.Conn) {
		return func(ws *websocket.Conn) { _, _ = ws.NetConn().Write(data) }
	}
	for name, send := range map[string]func(*websocket.Conn){
		"not JSON":                 text("hello"),
		"an envelope's version":    text(`{"v":2,"type":"hello"}`),
		"no type":                  text(`{"v":1}`),
		"an empty frame":           text(""),
		"a broken chunk":           text(`{"v":1,"type":"chunk","data":{"id":1,"index":7,"data":"eA=="}}`),
		"a chunk in a chunk":       text(`{"v":1,"type":"chunk","data":{"id":1,"last":true,"data":"eyJ2IjoxLCJ0eXBlIjoiY2h1bmsifQ=="}}`),
		"rubbish in a chunk":       text(`{"v":1,"type":"chunk","data":{"id":1,"last":true,"data":"eA=="}}`),
		"a frame over the limit":   text(`"` + strings.Repeat("x", wire.MaxFrame) + `"`),
		"a binary frame":           func(ws *websocket.Conn) { _ = ws.WriteMessage(websocket.BinaryMessage, []byte("x")) },
		"a frame without mask":     raw(0x81, 0x01, 'x'),
		"an unknown opcode":        raw(0x83, 0x80, 0, 0, 0, 0),
		"a length that overflows":  raw(0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0),
		"a compressed frame":       raw(0xc1, 0x80, 0, 0, 0, 0),
		"a continuation too early": raw(0x80, 0x80, 0, 0, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server, client := webSockets(t)
				s, c := socket.New(server, socket.Options{}), socket.New(client, socket.Options{})
				go send(client)
				told := make(chan wire.Ending, 1)
				go func() {
					_, _ = c.Read()
					told <- c.Ended()
					c.Wait()
				}()
				wantEnded(g, s, wire.EndProtocol)
				s.Wait()
				g.Expect(<-told).To(Equal(wire.EndProtocol))
			})
		})
	}
}

func TestBudget(t *testing.T) {
	hello := []byte(`{"v":1,"type":"heartbeat","data":{}}`)
	write := func(kind int, data []byte) func(*websocket.Conn, int) error {
		return func(ws *websocket.Conn, _ int) error { return ws.WriteMessage(kind, data) }
	}
	chunk := func(ws *websocket.Conn, i int) error {
		return ws.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"v":1,"type":"chunk","data":{"id":1,"index":%d,"data":"eA=="}}`, i))
	}
	for name, tc := range map[string]struct {
		send  func(*websocket.Conn, int) error
		burst int
	}{
		"messages": {write(websocket.TextMessage, hello), 20},
		"pings":    {write(websocket.PingMessage, nil), 20},
		"pongs":    {write(websocket.PongMessage, nil), 20},
		"chunks":   {chunk, 20 * 16},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server, client := webSockets(t)
				s := socket.New(server, socket.Options{Budget: socket.Budget{PerSecond: 2, Burst: 20}})
				go func() { // discards pongs and the farewell
					for {
						if _, _, err := client.ReadMessage(); err != nil {
							return
						}
					}
				}()
				read := make(chan struct{})
				go func() {
					defer close(read)
					wantEnded(g, s, wire.EndFlooding)
					s.Wait()
				}()
				i := 0
				send := func(n int) {
					for range n {
						_ = tc.send(client, i)
						i++
					}
					synctest.Wait()
				}
				send(tc.burst)
				g.Expect(s.Ended()).To(BeEmpty(), "the burst is allowed")
				time.Sleep(time.Second)
				send(tc.burst / 10)
				g.Expect(s.Ended()).To(BeEmpty(), "the long run's rate is allowed")
				send(1)
				g.Expect(s.Ended()).To(Equal(wire.EndFlooding))
				<-read
			})
		})
	}
}

func TestCloseTellsThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s, c := conns(t, socket.Options{}, socket.Options{})
		begin := time.Now()
		g.Expect(s.Send(wire.TypeGoodbye, wire.Goodbye{Reason: "before"})).To(Succeed())
		s.Close(wire.EndRevoked, "raised the floor\xff")
		s.Close(wire.EndSlow, "too late")
		g.Expect(s.Send(wire.TypeGoodbye, wire.Goodbye{})).To(MatchError(ContainSubstring("revoked")))

		g.Expect(wantEnded(g, s, wire.EndRevoked).Told).To(BeFalse())
		g.Expect(goodbyes(g, c, 1)).To(Equal([]string{"before"}))
		ended := wantEnded(g, c, wire.EndRevoked)
		g.Expect(ended.Told).To(BeTrue())
		g.Expect(ended.Text).To(Equal("raised the floor?"))
		g.Expect(ended).To(MatchError("session ended (revoked) by the peer: raised the floor?"))
		var both sync.WaitGroup
		both.Go(s.Wait)
		both.Go(c.Wait)
		both.Wait()
		g.Expect(time.Since(begin)).To(BeZero(), "nobody waited for a timeout")
	})
}

func TestCloseWithALongTextFitsAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s, c := conns(t, socket.Options{}, socket.Options{})
		s.Close(wire.EndUnknownCluster, strings.Repeat("ä", 200))
		g.Expect(wantEnded(g, c, wire.EndUnknownCluster).Text).To(HaveSuffix("ä…"))
	})
}

func TestCloseDoesNotWaitForThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, _ := webSockets(t) // reads nothing
		s := socket.New(server, socket.Options{})
		g.Expect(s.Send(wire.TypeGoodbye, wire.Goodbye{Reason: strings.Repeat("x", 2<<20)})).To(Succeed())
		synctest.Wait()
		begin := time.Now()
		s.Close(wire.EndMoving, "")
		wantEnded(g, s, wire.EndMoving)
		g.Expect(time.Since(begin)).To(BeZero(), "the reader knows at once")
		s.Wait()
		g.Expect(time.Since(begin)).To(Equal(wire.CloseTimeout))
	})
}

func TestCloseWithoutAReaderTearsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, client := webSockets(t)
		s := socket.New(server, socket.Options{})
		s.Close(wire.EndMoving, "")
		begin := time.Now()
		for {
			if _, err := client.NetConn().Read(make([]byte, 100)); err != nil {
				break
			}
		}
		g.Expect(time.Since(begin)).To(Equal(wire.CloseTimeout))
	})
}

func TestLostConnection(t *testing.T) {
	for name, lose := range map[string]func(*websocket.Conn){
		"closed without a word": func(ws *websocket.Conn) { _ = ws.Close() },
		"closed in a frame": func(ws *websocket.Conn) {
			_, _ = ws.NetConn().Write([]byte{0x81, 0x85, 0, 0, 0, 0, 'x'})
			_ = ws.Close()
		},
		"an ending of others": func(ws *websocket.Conn) {
			_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1001, "leaving"), time.Now().Add(time.Second))
			_, _, _ = ws.ReadMessage()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server, client := webSockets(t)
				s := socket.New(server, socket.Options{})
				go lose(client)
				wantEnded(g, s, wire.EndLost)
				s.Wait()
			})
		})
	}
}

func TestConcurrentSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s, c := conns(t, socket.Options{}, socket.Options{})
		const senders, each = 8, 8
		for i := range senders {
			go func() {
				for range each {
					_ = s.Send(wire.TypeGoodbye, wire.Goodbye{Reason: strings.Repeat("x", i*5_000)})
					s.Ping()
					_ = s.LastHeard()
				}
			}()
		}
		goodbyes(g, c, senders*each)
	})
}

func TestOverTCP(t *testing.T) {
	g := NewWithT(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	s, c := overTCP(t, l)
	g.Expect(c.Send(wire.TypeGoodbye, wire.Goodbye{Reason: "up"})).To(Succeed())
	g.Expect(goodbyes(g, s, 1)).To(Equal([]string{"up"}))
	// What is unread when the hub closes must not make TCP swallow its farewell.
	for range 100 {
		g.Expect(c.Send(wire.TypeGoodbye, wire.Goodbye{Reason: strings.Repeat("x", 10_000)})).To(Succeed())
	}
	s.Close(wire.EndReplaced, "")
	var both sync.WaitGroup
	both.Go(s.Wait)
	both.Go(func() {
		g.Expect(wantEnded(g, c, wire.EndReplaced).Told).To(BeTrue())
		c.Wait()
	})
	both.Wait()
}

func TestBothEndsCloseAtOnceOverTCP(t *testing.T) {
	g := NewWithT(t)
	fastest := wire.CloseTimeout
	for range 5 { // a busy machine may be slow, but not each time
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		g.Expect(err).NotTo(HaveOccurred())
		s, c := overTCP(t, l)
		begin := time.Now()
		s.Close(wire.EndGoodbye, "")
		c.Close(wire.EndGoodbye, "")
		var both sync.WaitGroup
		both.Go(s.Wait)
		both.Go(c.Wait)
		both.Wait()
		fastest = min(fastest, time.Since(begin))
	}
	g.Expect(fastest).To(BeNumerically("<", wire.CloseTimeout/2), "neither waits for the other")
}
