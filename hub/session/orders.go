// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/kubenest/kubenest/api/wire"
)

// ErrNotConnected says that no session of the cluster is held by this replica.
var ErrNotConnected = errors.New("no session of the cluster is held here")

// HandOver hands a token to the operator of a cluster and waits until it is stored
// durably, wire.StoreTimeout at most. It fails with ErrNotConnected if no session
// is held here, and with what the operator said if it could not store the token.
func (r *Registry) HandOver(ctx context.Context, clusterID, token string) error {
	held, ok := r.session(clusterID)
	if !ok {
		return ErrNotConnected
	}
	return held.handOver(ctx, token)
}

func (s *session) handOver(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, wire.StoreTimeout)
	defer cancel()
	id, answer := rand.Text(), make(chan string, 1)
	s.expect(id, answer)
	defer s.expect(id, nil)
	if err := s.conn.Send(wire.TypeCredential, wire.Credential{ID: id, Token: token}); err != nil {
		return fmt.Errorf("hand the token over: %w", err)
	}
	select {
	case problem := <-answer:
		if problem != "" {
			return fmt.Errorf("the operator could not store the token: %s", problem)
		}
		return nil
	case <-s.conn.Done():
		return fmt.Errorf("the session ended (%s) before the operator said that the token is stored", s.conn.Ended())
	case <-ctx.Done():
		return fmt.Errorf("the operator did not say that the token is stored: %w", ctx.Err())
	}
}

// expect has the answer to an order sent on, or no longer if answer is nil.
func (s *session) expect(id string, answer chan<- string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer == nil {
		if delete(s.orders, id); len(s.orders) == 0 {
			s.orders = nil // maps don't shrink
		}
		return
	}
	if s.orders == nil {
		s.orders = make(map[string]chan<- string, 1)
	}
	s.orders[id] = answer
}

// stored passes an operator's answer on.
func (s *session) stored(m *wire.Stored) {
	s.mu.Lock()
	answer := s.orders[m.ID]
	delete(s.orders, m.ID)
	s.mu.Unlock()
	switch {
	case answer != nil:
		answer <- m.Error // has room, and gets one
	case m.Error != "":
		s.server.o.Logger.Info("Operator could not store what it was handed", append(s.log(), "id", m.ID, "message", m.Error)...)
	}
}

// trust sends a CA bundle. Nobody waits for the answer: until it is stored, the
// operator trusts the one before, and the next welcome carries it again.
func (s *session) trust(bundle string) {
	_ = s.conn.Send(wire.TypeTrust, wire.Trust{ID: rand.Text(), CABundle: bundle})
}
