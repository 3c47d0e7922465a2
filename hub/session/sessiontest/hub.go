// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

// Hub serves a session server to operators of the same process.
type Hub struct {
	// Accept is what the operators that connect do with streams; nil if they take none.
	// Set it before they connect.
	Accept func(*socket.Stream)

	listener *listener
	http     *http.Server
}

// Serve serves until the test ends. What sessions there are then is the session
// server's to close.
func Serve(tb testing.TB, sessions http.Handler) *Hub {
	tb.Helper()
	mux := http.NewServeMux()
	mux.Handle(wire.Path, sessions)
	h := &Hub{
		listener: &listener{accepted: make(chan net.Conn), closed: make(chan struct{})},
		http:     &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 16 << 10},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = h.http.Serve(h.listener) // until Close
	}()
	tb.Cleanup(func() {
		_ = h.http.Close()
		<-served
	})
	return h
}

// Open opens a WebSocket with a token, and changes to the request. It returns what
// the hub answered: if that was no WebSocket, the refusal in it too.
func (h *Hub) Open(ctx context.Context, token string, change ...func(http.Header)) (*websocket.Conn, *http.Response, *wire.Refusal) {
	header := http.Header{"Authorization": {"Bearer " + token}}
	dialer := websocket.Dialer{NetDialContext: h.listener.dial, Subprotocols: []string{wire.Subprotocol}, WriteBufferPool: &sync.Pool{}}
	for _, f := range change {
		f(header)
	}
	if _, ok := header["Sec-Websocket-Protocol"]; ok {
		dialer.Subprotocols = nil
	}
	ws, response, err := dialer.DialContext(ctx, "ws://hub"+wire.Path, header)
	if err == nil {
		return ws, response, nil
	}
	refusal := &wire.Refusal{}
	if response == nil || json.NewDecoder(response.Body).Decode(refusal) != nil {
		refusal = nil
	}
	return nil, response, refusal
}

// Do sends any request to the hub.
func (h *Hub) Do(r *http.Request) (*http.Response, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: h.listener.dial, DisableKeepAlives: true}}
	return client.Do(r) //nolint:gosec // to a pipe in memory, whatever the URL
}

// Operator is a welcomed session's other end. It reads, so that pings are answered.
type Operator struct {
	*socket.Conn
	// Welcome that it got.
	Welcome wire.Welcome
	// Received are the messages after that, in order; closed when the session ends.
	Received chan wire.Envelope

	ended error
}

// Hello is a plausible one.
func Hello() wire.Hello {
	return wire.Hello{Protocol: wire.Protocol, Schema: 1, OperatorVersion: "v0.0.0-test", ClusterUID: "kube-system-uid", Process: "process-1", Time: time.Now()}
}

// ErrNotWelcomed is in the errors of Connect for connections that ended before they
// were welcomed.
var ErrNotWelcomed = errors.New("not welcomed")

// Connect opens a session. Its error is a *wire.Refusal if it was refused, and else
// holds a *socket.Ended.
func (h *Hub) Connect(ctx context.Context, token string, hello wire.Hello) (*Operator, error) {
	ws, _, refusal := h.Open(ctx, token) //nolint:bodyclose // gorilla has read it
	switch {
	case refusal != nil:
		return nil, refusal
	case ws == nil:
		return nil, ErrNotWelcomed
	}
	o := &Operator{Conn: socket.New(ws, socket.Options{Accept: h.Accept}), Received: make(chan wire.Envelope, 1024)}
	if err := o.open(hello); err != nil {
		o.Wait()
		return nil, err
	}
	go o.read()
	return o, nil
}

func (o *Operator) open(hello wire.Hello) error {
	if err := o.Send(wire.TypeHello, hello); err != nil {
		return err
	}
	e, err := o.Read()
	if err != nil {
		return errors.Join(ErrNotWelcomed, err)
	}
	if e.Type == wire.TypeRefused {
		refusal := &wire.Refusal{}
		if err := e.Read(refusal); err != nil {
			return err
		}
		return refusal
	}
	if err := e.Read(&o.Welcome); err != nil {
		return err
	}
	o.SetTiming(o.Welcome.Timing())
	return nil
}

func (o *Operator) read() {
	defer close(o.Received)
	for {
		e, err := o.Read()
		if err != nil {
			o.ended = err
			o.Wait()
			return
		}
		o.Received <- e
	}
}

// End waits for the end of the session, and says how it ended. Messages that came
// before are thrown away.
func (o *Operator) End() *socket.Ended {
	for range o.Received {
	}
	var ended *socket.Ended
	errors.As(o.ended, &ended)
	return ended
}

// listener makes pipes.
type listener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is one of IPv4: pipes have no address that reads as one.
func (*listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.accepted <- &addressed{Conn: near, addr: l.Addr()}:
		return far, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	addr net.Addr
}

func (a *addressed) RemoteAddr() net.Addr { return a.addr }
