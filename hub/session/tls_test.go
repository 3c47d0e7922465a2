// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

// overTLS serves a session server on 127.0.0.1.
func overTLS(tb testing.TB, o session.Options) (*session.Server, *httptest.Server, *sessiontest.Authority) {
	tb.Helper()
	authority := &sessiontest.Authority{}
	o.Authority = authority
	server, err := session.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(wire.Path, server)
	hub := httptest.NewUnstartedServer(mux)
	hub.Config.MaxHeaderBytes = 16 << 10
	hub.Config.ErrorLog = log.New(io.Discard, "", 0)
	hub.StartTLS()
	tb.Cleanup(func() {
		if err := server.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
		hub.Close()
	})
	return server, hub, authority
}

// dial opens a session over TLS and returns the connection after the welcome.
func dial(ctx context.Context, address, token string) (*socket.Conn, error) {
	dialer := websocket.Dialer{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		Subprotocols:    []string{wire.Subprotocol}, ReadBufferSize: 512, WriteBufferPool: &buffers,
	}
	ws, response, err := dialer.DialContext(ctx, "wss://"+address+wire.Path, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	c := socket.New(ws, socket.Options{})
	if err := c.Send(wire.TypeHello, sessiontest.Hello()); err != nil {
		return nil, err
	}
	if e, err := c.Read(); err != nil || e.Type != wire.TypeWelcome {
		c.Wait()
		return nil, fmt.Errorf("no welcome but %q: %w", e.Type, err)
	}
	return c, nil
}

var buffers sync.Pool // of the clients

func TestOverTLS(t *testing.T) {
	g := NewWithT(t)
	server, hub, authority := overTLS(t, session.Options{})
	told := make(chan session.Event, 3)
	server.Registry().Subscribe(func(e session.Event) { told <- e })
	c, err := dial(t.Context(), hub.Listener.Addr().String(), authority.Issue(identity(cluster)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &wire.Facts{Nodes: new(int32(3))}})).To(Succeed())
	g.Expect((<-told).Kind).To(Equal(session.Opened))
	g.Expect((<-told).Info.Facts.Nodes).To(HaveValue(BeEquivalentTo(3)))
	info, _ := server.Registry().Lookup(cluster)
	g.Expect(server.Registry().Close(cluster, info.SessionID, wire.EndRevoked, "")).To(BeTrue())
	_, err = c.Read()
	g.Expect(err).To(MatchError(ContainSubstring("revoked")))
	c.Wait()
	g.Expect((<-told).Kind).To(Equal(session.Closed))
}

func TestAFloodOfHeaders(t *testing.T) {
	g := NewWithT(t)
	server, hub, authority := overTLS(t, session.Options{})
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", hub.Listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	go func() { // until the hub hangs up
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: hub\r\n", wire.Path)
		for i := range 10_000 {
			if _, err := fmt.Fprintf(conn, "X-Flood-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	g.Expect(response.StatusCode).To(Equal(http.StatusRequestHeaderFieldsTooLarge))
	c, err := dial(t.Context(), hub.Listener.Addr().String(), authority.Issue(identity(cluster)))
	g.Expect(err).NotTo(HaveOccurred(), "nobody else is the worse for it")
	g.Expect(server.Registry().Len()).To(Equal(1))
	_ = c.Send(wire.TypeGoodbye, wire.Goodbye{})
	c.Wait()
}

func BenchmarkHeartbeat(b *testing.B) {
	server, hub, authority := overTLS(b, session.Options{Limits: session.Limits{
		Messages:   socket.Budget{PerSecond: 1e9, Burst: 1e9},
		Heartbeats: socket.Budget{PerSecond: 1e9, Burst: 1e9},
	}})
	c, err := dial(b.Context(), hub.Listener.Addr().String(), authority.Issue(identity(cluster)))
	if err != nil {
		b.Fatal(err)
	}
	heard := make(chan struct{}, 1)
	server.Registry().Subscribe(func(e session.Event) {
		if e.Kind == session.FactsChanged {
			heard <- struct{}{}
		}
	})
	b.ReportAllocs()
	nodes := int32(0)
	for b.Loop() { // there, and told
		nodes++
		_ = c.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &wire.Facts{Nodes: &nodes}})
		<-heard
	}
	c.Close(wire.EndGoodbye, "")
	c.Wait()
}
