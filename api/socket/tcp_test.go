// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubenest/kubenest/api/socket"
)

// overTCP are two connections over a real socket.
func overTCP(t *testing.T, l net.Listener) (server, client *socket.Conn) {
	t.Helper()
	upgraded := make(chan *websocket.Conn, 1)
	hub := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := websocket.Upgrader{}
		if ws, err := u.Upgrade(w, r, nil); err == nil {
			upgraded <- ws
		}
	})}
	go func() { _ = hub.Serve(l) }()
	t.Cleanup(func() { _ = hub.Close() })
	ws, response, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+l.Addr().String(), nil)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	_ = response.Body.Close()
	return socket.New(<-upgraded, socket.Options{}), socket.New(ws, socket.Options{})
}
