// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package session accepts, authenticates and holds the sessions of operators. It
// knows nothing of Kubernetes: what the hub remembers of its clusters is behind
// Authority, and what happens to sessions is told by Registry.
//
// # The way of a connection
//
//	ServeHTTP   handshake.go   is it an operator at all
//	            admission.go   a place among those that open, or busy
//	            Authority      who is it; failures.go slows those that nobody knows
//	            opening.go     hello, Authority.Claim, then in one step registered and welcomed
//	session     session.go     reads until the end
//	            beat.go        each heartbeat: ping, renewal of the token
//	            orders.go      what the operator is to store
//	            deployments.go what is sent to it, and what it says, of deployments
//
// # Goroutines
//
// The HTTP handler returns as soon as the connection is a WebSocket: its stack
// and net/http's buffers are worth more than the session itself. A goroutine of
// its own opens the session, and has another one read as soon as the hello came:
// the opening grows its stack, and an operator that hangs up while its session is
// claimed has to be noticed. A held session is this one reading goroutine, and one
// timer; it is never swept, so one stuck session can't delay another. A beat runs
// on the timer's goroutine, a writer exists while something is to be written.
// Close waits for all of them.
//
// # Who owns a cluster's session
//
// Authority.Claim gives each session an epoch, higher than all before, and has
// written it when it returns. The registry never lets a lower epoch replace a
// higher one, and removes a session only if it is the one that ended: a late end
// of an old connection does nothing to the new one.
//
// # Locks
//
// The registry's lock is taken before a session's. Neither is held while reading,
// writing or calling Authority or a subscriber.
package session
