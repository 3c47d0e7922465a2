// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

var errReplaced = errors.New("a newer session of the cluster was opened first")

// open makes a session of a WebSocket: hello, claim, welcome.
func (s *Server) open(ws *websocket.Conn, a attempt) {
	defer s.door.leave()
	held := s.newSession(ws)
	stopping := context.AfterFunc(s.ctx, func() { held.conn.Close(wire.EndMoving, "the hub is stopping") })
	defer stopping()
	hello, err := readHello(held.conn)
	if err == nil {
		err = s.greet(held, hello, &a)
	} else {
		defer held.conn.Wait()
	}
	s.admission.leaveAs(a.identity.ClusterID)
	s.admission.leave()
	if err != nil {
		s.metrics.unopened.WithLabelValues(string(held.conn.Ended())).Inc()
		s.o.Logger.Info("Connection ended before it was a session", append(a.log(), "ending", held.conn.Ended(), "reason", err.Error())...)
		return
	}
	s.metrics.opened.Inc()
	s.metrics.handshake.Observe(time.Since(a.began).Seconds())
}

// greet claims the session, and registers and welcomes it. When it fails, the
// connection has ended.
func (s *Server) greet(held *session, hello *wire.Hello, a *attempt) error {
	s.metrics.received(wire.TypeHello)
	held.info = infoOf(a, hello, time.Now())
	ctx, hungUp := context.WithTimeout(s.ctx, wire.OpeningTimeout)
	defer hungUp()
	// Opening has grown this goroutine's stack; reading needs little of it, for as
	// long as the session lasts. It begins here, so that an operator that hangs up is
	// noticed: nobody needs its claim any more, and others wait for its place.
	opened := make(chan bool, 1)
	s.door.another()
	go held.run(opened, hungUp)
	err := s.admit(ctx, held, hello, a)
	if err == nil {
		s.o.Logger.Info("Session opened", append(held.log(), "source", a.source.String(), "kid", a.identity.KeyID, "jti", a.identity.TokenID,
			"operatorVersion", held.info.OperatorVersion)...)
		held.begin()
	}
	opened <- err == nil
	return err
}

// admit claims, registers and welcomes a session. When it fails, the connection has
// ended.
func (s *Server) admit(ctx context.Context, held *session, hello *wire.Hello, a *attempt) error {
	if hello.Protocol < wire.Protocol {
		return s.refuseHello(held.conn, a, wire.Refuse(wire.ClassUnsupported,
			"This hub speaks protocol version %d, and the operator only up to %d: upgrade the operator.", wire.Protocol, hello.Protocol))
	}
	epoch, err := s.claim(ctx, held, hello)
	switch {
	case err != nil && held.conn.Ended() != "":
		return fmt.Errorf("the operator left while its session was claimed: %w", err)
	case err != nil:
		a.cause = err
		return s.refuseHello(held.conn, a, refusalOf(err))
	}
	held.info.Epoch = epoch
	return s.welcome(held)
}

// readHello waits for the first message, which has to be a hello.
func readHello(conn *socket.Conn) (*wire.Hello, error) {
	late := time.AfterFunc(wire.OpeningTimeout, func() { conn.Close(wire.EndSilent, "no hello in time") })
	defer late.Stop()
	e, err := conn.Read()
	if err != nil {
		return nil, err
	}
	var hello wire.Hello
	if e.Type != wire.TypeHello {
		err = fmt.Errorf("%w: %.40q came before hello", wire.ErrMalformed, e.Type)
	} else {
		err = e.Read(&hello)
	}
	if err != nil {
		conn.Close(wire.EndProtocol, err.Error())
		return nil, err
	}
	return &hello, nil
}

func infoOf(a *attempt, hello *wire.Hello, now time.Time) Info {
	info := Info{
		ClusterID: a.identity.ClusterID, SessionID: rand.Text(), Process: hello.Process, ClusterUID: hello.ClusterUID,
		Identity: a.identity, OperatorVersion: hello.OperatorVersion, Schema: hello.Schema, Streams: hello.Streams,
		Facts: hello.Facts, FactsAt: now, ConnectedAt: now,
	}
	if !hello.Time.IsZero() {
		info.ClockOffset = hello.Time.Sub(now)
	}
	return info
}

func (s *Server) claim(ctx context.Context, held *session, hello *wire.Hello) (epoch int64, err error) {
	c := Claim{Identity: held.info.Identity, Hello: *hello, SessionID: held.info.SessionID, ReceivedAt: held.info.FactsAt}
	if live, ok := s.registry.Lookup(held.info.ClusterID); ok {
		c.Live = &live
	}
	return s.o.Authority.Claim(ctx, c)
}

// refuseHello says why, and ends the connection.
func (s *Server) refuseHello(conn *socket.Conn, a *attempt, refusal *wire.Refusal) error {
	s.refused(*a, refusal)
	_ = conn.Send(wire.TypeRefused, refusal) // if it has ended meanwhile, Close changes nothing
	conn.Close(wire.EndRefused, string(refusal.Class))
	return refusal
}

// welcome registers the session and queues its welcome, in one step: whoever finds
// the session can send to it, and what they send comes after the welcome. If the
// connection broke meanwhile, reading tells: what was claimed has to be ended.
func (s *Server) welcome(held *session) error {
	replaced, ok := s.registry.add(held, func(trust string) {
		_ = held.conn.Send(wire.TypeWelcome, wire.Welcome{
			Session: held.info.SessionID, Epoch: held.info.Epoch,
			HubVersion: s.o.HubVersion, Replica: s.o.Replica,
			Heartbeat: s.o.Timing.Heartbeat.Milliseconds(), DeadAfter: s.o.Timing.DeadAfter.Milliseconds(),
			CABundle: trust,
		})
	})
	if !ok {
		held.conn.Close(wire.EndReplaced, errReplaced.Error())
		return errReplaced
	}
	if replaced != nil {
		replaced.conn.Close(wire.EndReplaced, "a newer session of the cluster was opened")
	}
	if moving := s.draining.Load(); moving != nil {
		held.move(moving)
	}
	return nil
}
