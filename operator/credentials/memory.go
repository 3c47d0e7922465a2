// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"sync"

	"github.com/kubenest/kubenest/operator/agent"
)

// Given is what a connection Secret says.
type Given struct {
	HubURL string
	// Token is the JWT.
	Token string
	// CA is a PEM bundle, empty for public authorities.
	CA string
}

// Memory keeps credentials in memory only. It implements agent.Credentials.
type Memory struct {
	changed chan struct{}

	mu    sync.Mutex
	given Given
	kept  stored
}

// NewMemory makes credentials as if a Secret with them were mounted.
func NewMemory(given Given) *Memory {
	return &Memory{changed: make(chan struct{}, 1), given: given}
}

// Replace does what a changed Secret does.
func (m *Memory) Replace(given Given) {
	m.mu.Lock()
	m.given = given
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default: // one is waiting to be received
	}
}

// Load tells what is known now.
func (m *Memory) Load(context.Context) (agent.Identity, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	token, err := agent.ParseToken(m.given.Token)
	if err != nil {
		return agent.Identity{}, err
	}
	identity := agent.Identity{
		HubURL: m.given.HubURL, ClusterID: token.Subject,
		Tokens:      agent.Candidates(token, m.kept.token),
		Authorities: agent.Authorities{m.given.CA},
	}
	if m.kept.ca != nil {
		identity.Authorities = append(identity.Authorities, *m.kept.ca)
	}
	return identity, nil
}

// StoreToken keeps a renewed token.
func (m *Memory) StoreToken(_ context.Context, token agent.Token) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept.token = &token
	return nil
}

// StoreCA keeps the hub's CA bundle.
func (m *Memory) StoreCA(_ context.Context, bundle string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept.ca = &bundle
	return nil
}

// Changed receives when Replace was called.
func (m *Memory) Changed() <-chan struct{} { return m.changed }
