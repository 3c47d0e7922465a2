// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"

	"github.com/kubenest/kubenest/api/wire"
)

// Deployments takes what operators say of deployments. Its methods are called by
// the goroutine that reads the session, in the order of the messages and after
// Opened was told, and must not block. A message is the callee's to keep.
type Deployments interface {
	// Inventory is everything that the operator has.
	Inventory(from Info, m *wire.Inventory)
	// Delivered answers a wire.Deliver.
	Delivered(from Info, m *wire.Delivered)
	// Removed answers a wire.Remove.
	Removed(from Info, m *wire.Removed)
	// Report is the state of something that was delivered.
	Report(from Info, m *wire.Report)
	// Exports are the values that an addon exports. They are secret.
	Exports(from Info, m *wire.Exports)
}

// Send queues a message for an operator, and does not wait. It fails with
// ErrNotConnected if the session is not held here, or not any more.
func (r *Registry) Send(clusterID, sessionID string, t wire.Type, m any) error {
	held, ok := r.session(clusterID)
	if !ok || held.info.SessionID != sessionID {
		return ErrNotConnected
	}
	if err := held.conn.Send(t, m); err != nil {
		return fmt.Errorf("send to cluster %s: %w", clusterID, err)
	}
	return nil
}

// deployment takes a message about deployments. Its error breaks the protocol.
func (s *session) deployment(e *wire.Envelope) error {
	d := s.server.o.Deployments
	if d == nil {
		s.server.metrics.dropped(droppedNobody)
		return nil
	}
	switch e.Type {
	case wire.TypeInventory:
		return pass(s, e, d.Inventory)
	case wire.TypeDelivered:
		return pass(s, e, d.Delivered)
	case wire.TypeRemoved:
		return pass(s, e, d.Removed)
	case wire.TypeReport:
		return pass(s, e, d.Report)
	default:
		return pass(s, e, d.Exports)
	}
}

// pass reads a message and passes it on.
func pass[M any](s *session, e *wire.Envelope, to func(Info, *M)) error {
	m := new(M)
	if err := e.Read(m); err != nil {
		return err
	}
	to(s.snapshot(), m)
	return nil
}
