// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agenttest is a hub for tests of operators: it speaks the protocol over
// TLS, and does to its operator whatever a test asks for.
package agenttest

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

// Hub is a hub under a test's control.
type Hub struct {
	// URL to dial.
	URL string
	// CA bundle of its certificate.
	CA string
	// Attempts get each opening request, in order.
	Attempts chan Attempt
	// Sessions get each welcomed session, in order.
	Sessions chan *Session

	server *httptest.Server
	epoch  atomic.Int64

	mu      sync.Mutex
	live    []*Session
	answer  func(Attempt) any
	welcome wire.Welcome
}

// Attempt is one opening request.
type Attempt struct {
	// Token from the Authorization header.
	Token string
	// Header and Path of the request.
	Header http.Header
	Path   string
	// At is when it came.
	At time.Time
}

// Answer to an attempt, besides *wire.Refusal and nil, which welcomes.
type (
	// HTTP answers as something that is no hub.
	HTTP struct {
		Status int
		Header http.Header
		Body   string
	}
	// RefuseHello upgrades, and refuses the hello.
	RefuseHello struct{ Refusal *wire.Refusal }
	// Mute upgrades, and never says a word.
	Mute struct{}
	// NoSubprotocol upgrades, but speaks another protocol.
	NoSubprotocol struct{}
)

// Start runs a hub until the test ends. A nil listener is one on a free port of
// 127.0.0.1; a nil certificate is httptest's own, for 127.0.0.1 and example.com.
func Start(tb testing.TB, listener net.Listener, certificate *tls.Certificate) *Hub {
	tb.Helper()
	h := &Hub{
		Attempts: make(chan Attempt, 1024), Sessions: make(chan *Session, 1024),
		welcome: wire.Welcome{HubVersion: "v0.0.0-test", Replica: "agenttest"},
	}
	h.SetTiming(wire.Timing{Heartbeat: 50 * time.Millisecond, DeadAfter: 5 * time.Second})
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.server.Config.ErrorLog = log.New(io.Discard, "", 0) // operators that do not trust us are what is tested
	if listener != nil {
		_ = h.server.Listener.Close()
		h.server.Listener = listener
	}
	if certificate != nil {
		h.server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	}
	h.server.StartTLS()
	h.URL = h.server.URL
	served := h.server.TLS.Certificates[0].Certificate
	h.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: served[len(served)-1]}))
	tb.Cleanup(h.Stop)
	return h
}

// Address the hub listens at.
func (h *Hub) Address() string { return h.server.Listener.Addr().String() }

// Stop ends the hub and its connections without a word.
func (h *Hub) Stop() {
	h.mu.Lock()
	live := h.live
	h.live = nil
	h.mu.Unlock()
	for _, s := range live {
		s.Cut()
	}
	h.server.CloseClientConnections()
	h.server.Close()
}

// Answer makes the hub answer attempts so from now on: with nil to welcome, a
// *wire.Refusal, or one of this package's answers.
func (h *Hub) Answer(answer any) { h.Decide(func(Attempt) any { return answer }) }

// Decide makes the hub ask a function for its answers.
func (h *Hub) Decide(answer func(Attempt) any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// SetTiming of later welcomes.
func (h *Hub) SetTiming(t wire.Timing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.welcome.Heartbeat, h.welcome.DeadAfter = t.Heartbeat.Milliseconds(), t.DeadAfter.Milliseconds()
}

// SetCABundle of later welcomes.
func (h *Hub) SetCABundle(bundle string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.welcome.CABundle = bundle
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	attempt := Attempt{
		Token:  strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
		Header: r.Header.Clone(), Path: r.URL.Path, At: time.Now(),
	}
	h.mu.Lock()
	decide, welcome := h.answer, h.welcome
	h.mu.Unlock()
	var answer any
	if decide != nil {
		answer = decide(attempt)
	}
	h.Attempts <- attempt
	subprotocols := []string{wire.Subprotocol}
	switch a := answer.(type) {
	case *wire.Refusal:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.Class.HTTPStatus())
		_ = json.NewEncoder(w).Encode(a)
		return
	case HTTP:
		maps.Copy(w.Header(), a.Header)
		w.WriteHeader(a.Status)
		_, _ = io.WriteString(w, a.Body)
		return
	case NoSubprotocol:
		subprotocols = nil
	}
	ws, err := (&websocket.Upgrader{Subprotocols: subprotocols}).Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	s := &Session{
		Attempt: attempt, Messages: make(chan wire.Envelope, 4096), Done: make(chan struct{}),
		conn: socket.New(ws, socket.Options{Timing: wire.Timing{Heartbeat: 20 * time.Second, DeadAfter: time.Minute}}),
	}
	h.mu.Lock()
	h.live = append(h.live, s)
	h.mu.Unlock()
	s.open(h, welcome, answer)
}

func (s *Session) open(h *Hub, welcome wire.Welcome, answer any) {
	e, err := s.conn.Read()
	if err == nil && e.Type == wire.TypeHello {
		err = e.Read(&s.Hello)
	}
	if err != nil {
		s.conn.Wait()
		return
	}
	switch a := answer.(type) {
	case RefuseHello:
		_ = s.conn.Send(wire.TypeRefused, a.Refusal)
		s.conn.Close(wire.EndRefused, "")
	case Mute, NoSubprotocol:
	default:
		welcome.Epoch = h.epoch.Add(1)
		welcome.Session = fmt.Sprintf("session-%d", welcome.Epoch)
		s.Welcome = welcome
		_ = s.conn.Send(wire.TypeWelcome, welcome)
		h.Sessions <- s
		go s.ping(welcome.Timing().Heartbeat)
	}
	s.read()
}
