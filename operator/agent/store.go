// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubenest/kubenest/api/wire"
)

// What is stored, as a metric's label.
const (
	keptToken = "token"
	keptCA    = "ca"
)

// order is something to store. Storing may take seconds, so the keeper does it.
type order struct {
	id    string // comes back in Stored; empty if nobody waits for that
	what  string
	store func(context.Context) error
}

// credential takes a renewed token. It is a bearer's value that its generation
// orders, not state, so the session's epoch does not matter.
func (s *session) credential(m *wire.Credential) {
	token, err := s.agent.acceptable(m.Token, s.token)
	if err != nil {
		s.refuse(m.ID, keptToken, err)
		return
	}
	s.order(order{id: m.ID, what: keptToken, store: func(ctx context.Context) error {
		if err := s.agent.o.Credentials.StoreToken(ctx, token); err != nil {
			return err
		}
		s.log.Info("Stored a renewed token", "token", token)
		s.agent.storedToken(token)
		return nil
	}})
}

// trust takes a CA bundle, of a trust message or of the welcome.
func (s *session) trust(m *wire.Trust) {
	switch err := CheckBundle(m.CABundle); {
	case err != nil:
		s.refuse(m.ID, keptCA, err)
	case !s.newest():
		s.refuse(m.ID, keptCA, errors.New("a newer session has been welcomed"))
	default:
		s.order(order{id: m.ID, what: keptCA, store: func(ctx context.Context) error {
			return s.agent.o.Credentials.StoreCA(ctx, m.CABundle)
		}})
	}
}

// order hands something to the keeper.
func (s *session) order(o order) {
	select {
	case s.orders <- o:
	default:
		s.refuse(o.id, o.what, errors.New("too much is waiting to be stored"))
	}
}

func (s *session) refuse(id, what string, err error) {
	s.log.Error(err, "Refused what the hub handed over", "what", what)
	s.agent.metrics.stores.WithLabelValues(what, "refused").Inc()
	s.answer(id, err)
}

// answer tells the hub how storing went.
func (s *session) answer(id string, err error) {
	if id == "" {
		return
	}
	stored := wire.Stored{ID: id}
	if err != nil {
		stored.Error = err.Error()
	}
	_ = s.conn.Send(wire.TypeStored, stored) // if the session has ended, nobody waits for it
}

// keep stores what is ordered, in order. What has come is stored even when the
// session ends meanwhile: the hub may hand it over once only.
func (s *session) keep(ctx context.Context) {
	for {
		select {
		case o := <-s.orders:
			s.answer(o.id, s.store(ctx, &o))
			continue
		default:
		}
		select {
		case o := <-s.orders:
			s.answer(o.id, s.store(ctx, &o))
		case <-s.conn.Done():
			if len(s.orders) == 0 {
				return
			}
		}
	}
}

func (s *session) store(ctx context.Context, o *order) error {
	ctx, cancel := context.WithTimeout(ctx, wire.StoreTimeout)
	defer cancel()
	result := "stored"
	err := o.store(ctx)
	if err != nil {
		result = "failed"
		s.log.Error(err, "Could not store what the hub handed over", "what", o.what)
	}
	s.agent.metrics.stores.WithLabelValues(o.what, result).Inc()
	return err
}

// acceptable checks a token that the hub handed over against the one in use, and
// against what was stored before: of two sessions, the older one's may come later.
func (a *Agent) acceptable(raw string, inUse Token) (Token, error) {
	token, err := ParseToken(raw)
	if err != nil {
		return Token{}, errors.New("the token can not be read")
	}
	a.mu.Lock()
	stored := a.stored
	a.mu.Unlock()
	switch {
	case !token.sameOwner(inUse):
		return Token{}, fmt.Errorf("the token is from %q for cluster %q, but this is cluster %q of %q",
			token.Issuer, token.Subject, inUse.Subject, inUse.Issuer)
	case token.Generation < inUse.Generation:
		return Token{}, fmt.Errorf("the token is of generation %d, older than the one in use, %d", token.Generation, inUse.Generation)
	case stored != nil && stored.sameOwner(token) && stored.newer(token):
		return Token{}, fmt.Errorf("a newer token, %s, is stored already", stored.ID)
	}
	return token, nil
}

func (a *Agent) storedToken(token Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stored = &token
}
