// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubenest/kubenest/api/wire"
)

// bare is what one writes with gorilla in an afternoon: the upgrade in the HTTP
// handler, which stays and reads. It checks no token, watches no silence and tells
// nobody.
type bare struct {
	upgrader websocket.Upgrader
	// frugal leaves the handler, with the smallest buffers: the least that a session
	// can cost with crypto/tls and gorilla.
	frugal bool

	sessions, heartbeats atomic.Int64
}

func newBare(frugal bool) *bare {
	b := &bare{frugal: frugal, upgrader: websocket.Upgrader{Subprotocols: []string{wire.Subprotocol}}}
	if frugal {
		b.upgrader.ReadBufferSize, b.upgrader.WriteBufferSize = 512, 4<<10
		b.upgrader.WriteBufferPool = &sync.Pool{}
	}
	return b
}

// ServeHTTP holds a session until it ends.
func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := b.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // gorilla has answered
	}
	if b.frugal {
		go b.hold(ws)
		return
	}
	b.hold(ws)
}

func (b *bare) hold(ws *websocket.Conn) {
	defer ws.Close()
	// gorilla's own handler gives a pong one second, and a busy machine does not.
	ws.SetPingHandler(func(data string) error {
		return ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(wire.WriteTimeout))
	})
	if b.greet(ws) != nil {
		return
	}
	b.sessions.Add(1)
	defer b.sessions.Add(-1)
	for {
		var beat wire.Heartbeat
		if receive(ws, &beat) != nil {
			return
		}
		b.heartbeats.Add(1)
	}
}

func (b *bare) greet(ws *websocket.Conn) error {
	var hello wire.Hello
	if err := receive(ws, &hello); err != nil {
		return err
	}
	welcome, err := wire.Encode(wire.TypeWelcome, wire.Welcome{
		Session: hello.Process, Epoch: 1, HubVersion: "bare", Replica: "bare",
		Heartbeat: wire.DefaultTiming.Heartbeat.Milliseconds(), DeadAfter: wire.DefaultTiming.DeadAfter.Milliseconds(),
	})
	if err != nil {
		return err
	}
	return ws.WriteMessage(websocket.TextMessage, welcome)
}

// receive decodes a message, and does not judge it.
func receive(ws *websocket.Conn, message any) error {
	_, frame, err := ws.ReadMessage()
	if err != nil {
		return err
	}
	var e wire.Envelope
	if err := json.Unmarshal(frame, &e); err != nil {
		return err
	}
	return json.Unmarshal(e.Data, message)
}

func (b *bare) counts() (sessions, heartbeats int64, err error) {
	return b.sessions.Load(), b.heartbeats.Load(), nil
}
