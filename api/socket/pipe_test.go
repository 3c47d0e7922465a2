// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"github.com/kubenest/kubenest/api/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// webSockets are the two ends of a WebSocket over net.Pipe, which holds nothing
// back: a write returns when it has been read.
func webSockets(t *testing.T) (server, client *websocket.Conn) {
	t.Helper()
	near, far := net.Pipe()
	upgraded := make(chan *websocket.Conn, 1)
	go func() {
		defer close(upgraded)
		r, err := http.ReadRequest(bufio.NewReader(near))
		if err != nil {
			return
		}
		u := websocket.Upgrader{ReadBufferSize: 512, WriteBufferSize: 512}
		if ws, err := u.Upgrade(&hijacker{conn: near}, r, nil); err == nil {
			upgraded <- ws
		}
	}()
	dialer := websocket.Dialer{
		NetDialContext:  func(context.Context, string, string) (net.Conn, error) { return far, nil },
		ReadBufferSize:  512,
		WriteBufferSize: 512,
	}
	client, response, err := dialer.DialContext(t.Context(), "ws://hub", nil)
	if err != nil {
		t.Fatalf("open WebSocket: %v", err)
	}
	_ = response.Body.Close()
	if server = <-upgraded; server == nil {
		t.Fatal("the server did not upgrade")
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return server, client
}

// conns are two connections that talk to each other.
func conns(t *testing.T, server, client socket.Options) (s, c *socket.Conn) {
	t.Helper()
	a, b := webSockets(t)
	s, c = socket.New(a, server), socket.New(b, client)
	t.Cleanup(func() {
		s.Close("lost", "")
		c.Close("lost", "")
		s.Wait()
		c.Wait()
	})
	return s, c
}

type hijacker struct {
	http.ResponseWriter
	conn net.Conn
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}
