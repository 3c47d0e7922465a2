// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

var errLate = errors.New("the hub's welcome came too late")

// maxOrders is how many things to store may wait; a hub hands them over one by one.
const maxOrders = 4

// session is one welcomed connection.
type session struct {
	// Static.
	agent    *Agent
	log      logr.Logger
	conn     *socket.Conn
	welcome  wire.Welcome
	identity Identity
	token    Token // in use
	opened   time.Time

	orders chan order       // reader to keeper
	moving chan wire.Moving // reader to Run
	done   chan struct{}    // closed when nothing is left of it

	exchange *exchange // nil if nothing is deployed

	ended *socket.Ended // set before done is closed
	sent  wire.Facts    // owned by the beater
}

// greet says hello and waits for the welcome. When it fails, nothing is left of the
// connection.
func (a *Agent) greet(ctx context.Context, conn *socket.Conn) (*wire.Welcome, wire.Facts, error) {
	late := time.AfterFunc(wire.OpeningTimeout, func() { conn.Close(wire.EndSilent, "no welcome in time") })
	defer late.Stop()
	stop := context.AfterFunc(ctx, func() { conn.Close(wire.EndGoodbye, "the operator stops") })
	defer stop()
	facts := a.reporter.facts()
	err := conn.Send(wire.TypeHello, wire.Hello{
		Protocol: wire.Protocol, Schema: a.schema(), OperatorVersion: a.o.OperatorVersion,
		ClusterUID: a.o.ClusterUID, Process: a.o.Process, Time: time.Now(), Streams: a.o.Streams != nil, Facts: facts,
	})
	for err == nil {
		var e wire.Envelope
		if e, err = conn.Read(); err != nil {
			break
		}
		switch e.Type {
		case wire.TypeWelcome:
			var w wire.Welcome
			if err = e.Read(&w); err != nil {
				conn.Close(wire.EndProtocol, err.Error())
				break
			}
			if late.Stop() {
				return &w, facts, nil
			}
			err = errLate // and it is being closed
		case wire.TypeRefused:
			var r wire.Refusal
			if err = e.Read(&r); err == nil {
				err = &r
			}
			conn.Close(wire.EndRefused, "")
		default: // what a newer hub may say before
		}
	}
	conn.Wait()
	return nil, facts, err
}

// open dials with one token, and starts a session if it is welcomed.
func (a *Agent) open(ctx context.Context, t target, identity Identity) (*session, error) {
	ws, err := a.dialing.dial(ctx, t)
	if err != nil {
		return nil, err
	}
	// Until the welcome says otherwise, silence is bounded by greet.
	conn := socket.New(ws, socket.Options{Accept: a.acceptor(ctx)})
	welcome, facts, err := a.greet(ctx, conn)
	if err != nil {
		if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
			refusal.Message = redact(refusal.Message, t.token)
			return nil, refusal
		}
		return nil, &Failure{Kind: FailedAnswer, URL: t.url.String(), Err: fmt.Errorf("no welcome: %w", err)}
	}
	conn.SetTiming(welcome.Timing())
	s := &session{
		agent: a, conn: conn, welcome: *welcome, identity: identity, token: t.token, opened: time.Now(),
		log:    a.log.WithValues("session", welcome.Session, "epoch", welcome.Epoch),
		orders: make(chan order, maxOrders), moving: make(chan wire.Moving, 1), done: make(chan struct{}),
		sent: facts,
	}
	if a.o.Deployments != nil {
		s.exchange = newExchange(s, a.o.Deployments)
	}
	a.latest.Store(s)
	a.reporter.every.Store(int64(welcome.Timing().Heartbeat))
	s.log.Info("Connected to the hub", "url", t.url.String(), "replica", welcome.Replica,
		"hubVersion", welcome.HubVersion, "token", t.token)
	go s.run(ctx)
	return s, nil
}

// run reads until the session ends, and joins all that belongs to it.
func (s *session) run(ctx context.Context) {
	defer close(s.done)
	var others sync.WaitGroup
	others.Go(s.beat)
	others.Go(func() { s.keep(ctx) })
	others.Go(func() { s.exchange.run(ctx) })
	s.trust(&wire.Trust{CABundle: s.welcome.CABundle})
	for {
		e, err := s.conn.Read()
		if err != nil {
			if !errors.As(err, &s.ended) {
				s.ended = &socket.Ended{Ending: wire.EndLost, Err: err}
			}
			break
		}
		if err := s.handle(&e); err != nil {
			s.conn.Close(wire.EndProtocol, err.Error())
		}
	}
	s.conn.Wait()
	others.Wait()
}

// handle takes one message. It never blocks: the hub's pings are answered by the
// same goroutine.
func (s *session) handle(e *wire.Envelope) error {
	switch e.Type {
	case wire.TypeCredential:
		var m wire.Credential
		if err := e.Read(&m); err != nil {
			// The cause may quote the token.
			return fmt.Errorf("%w: %s", wire.ErrMalformed, e.Type)
		}
		s.credential(&m)
	case wire.TypeTrust:
		var m wire.Trust
		if err := e.Read(&m); err != nil {
			return err
		}
		s.trust(&m)
	case wire.TypeMoving:
		var m wire.Moving
		if err := e.Read(&m); err != nil {
			return err
		}
		select {
		case s.moving <- m:
		default: // it is moving already
		}
	case wire.TypeDeliver, wire.TypeRemove:
		return s.exchange.take(e)
	default:
		s.log.V(1).Info("Message of a type that this operator does not know", "type", fmt.Sprintf("%.40s", e.Type))
	}
	return nil
}

// beat sends heartbeats. The facts go along only when they say something new.
func (s *session) beat() {
	ticker := time.NewTicker(s.welcome.Timing().Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-s.conn.Done():
			return
		case <-ticker.C:
		}
		var beat wire.Heartbeat
		if facts := s.agent.reporter.facts(); !facts.Equal(&s.sent) {
			s.sent = facts
			beat.Facts = &facts
		}
		if err := s.conn.Send(wire.TypeHeartbeat, beat); err != nil {
			return // reading tells why
		}
	}
}

// newest reports whether no later session has been welcomed. State from another is
// out of date. Epochs don't tell: those of a hub that was restored or built anew
// begin lower.
func (s *session) newest() bool { return s.agent.latest.Load() == s }

// leave ends the session on purpose and waits until it is over.
func (s *session) leave(ending wire.Ending, reason string) {
	if ending == wire.EndGoodbye {
		_ = s.conn.Send(wire.TypeGoodbye, wire.Goodbye{Reason: reason}) // it may have ended just now
	}
	s.conn.Close(ending, reason)
	<-s.done
}

// held reports whether the session lasted long enough to call the way to the hub
// good.
func (s *session) held() bool {
	return time.Since(s.opened) >= 3*s.welcome.Timing().Heartbeat
}
