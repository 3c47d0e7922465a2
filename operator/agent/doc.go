// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent keeps one session with the hub: it dials out, holds, reports, and
// comes back. It knows nothing of Kubernetes; who it is and what its cluster looks
// like is handed to it.
//
// # The loop
//
//	load credentials ─► dial ─► hello/welcome ─► hold ──┐
//	      ▲                 │ refused or failed         │ ended
//	      └── wait, or until credentials change ◄───────┘
//
// It never gives up. Waiting is full jitter over a span that doubles from 1 s to
// 60 s; a session that held for three heartbeats starts it over.
//
// # Refusals
//
//   - unauthorized, not_yet_valid, expired, revoked: about this token, so the next
//     candidate is tried at once.
//   - revoked, unknown_cluster, conflict, duplicate, expired, unsupported: people
//     mend these, so the wait is 30 s to 60 s at once.
//   - busy, unauthorized, not_yet_valid: waits as after a failure.
//
// A refusal's RetryAfter is a lower bound, and is itself bounded by 10 minutes. No
// refusal makes the agent drop a credential.
//
// # Deployments
//
// Each session begins with a complete inventory, and nothing about deployments goes
// before it. Then what the hub asks for is applied in its order, and the hub is told
// of all that there is, and of what changes: of each thing what is so when its turn
// comes. Nothing is kept from one session to the next, and only the newest session
// applies anything.
//
// # Goroutines
//
// Run decides; facts are collected by one goroutine, so that a slow API server
// delays no heartbeat. A session has a reader, which never blocks, a beater, and a
// keeper that stores what the hub hands over; with deployments also one that applies
// them, one that follows them and one that tells of them. While the operator is asked
// to move, one more opens the next session. Run joins them all.
package agent
