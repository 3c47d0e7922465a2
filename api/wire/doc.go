// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire is the contract between the hub and the operators: messages,
// refusals, endings and limits. It uses the standard library only, so that both
// sides, simulators and tests share it without sharing anything else.
//
// # Opening
//
//	operator                                            hub
//	   │ GET /ws/operator                                │
//	   │ Authorization: Bearer <cluster JWT>             │
//	   │ Sec-WebSocket-Protocol: kubenest.v1             │
//	   ├────────────────────────────────────────────────►│ verify the token
//	   │◄──────────────────────── 401/403/429/503 Refusal┤ or refuse (JSON body)
//	   │◄──────────────────────────────────────────── 101┤
//	   ├ hello ─────────────────────────────────────────►│ identity, then claim:
//	   │                                                 │ epoch+1 is written first
//	   │◄─────────────────────────────────────── refused ┤ or a refusal, then close
//	   │◄─────────────────────────────────────── welcome ┤
//
// # Steady state
//
//	├ heartbeat, every Welcome.Heartbeat ────────────►│ figures, complaints
//	│◄──────────────── WebSocket ping, once a beat ───┤ the pong counts as life
//	│◄──────── credential (a renewed token) ──────────┤
//	├ stored ────────────────────────────────────────►│ it is safe to rely on it
//	│◄──────── trust (a new CA bundle) ───────────────┤ stored before it is used
//	├ stored ────────────────────────────────────────►│
//
// # Deploying
//
// State goes down and comes up; nothing is queued that could be lost. After each
// welcome the operator says what it has, and the hub sends what differs.
//
//	├ inventory ─────────────────────────────────────►│ compared with what the hub has
//	├ report, exports: of everything, newest wins ───►│
//	│◄──────── deliver (a StackDeploy, its inputs) ───┤ at most MaxUnanswered at once
//	├ delivered (stored, or why not) ────────────────►│
//	│◄──────────────────────────────────── remove ────┤
//	├ removed (nothing of it is left) ───────────────►│
//	├ report, exports: of what changed ──────────────►│
//
// A hub removes what it has a record of only; what it does not know, the operator
// keeps.
//
// # Liveness
//
// Each side gives the other up after Welcome.DeadAfter without a frame, by its
// own monotonic clock: the two clocks need not agree.
//
// # Ending
//
//	│◄─────────────── moving (hub stops or is full) ──┤ the operator opens its next
//	│                                                 │ session before it closes this
//	├ goodbye (the operator stops) ──────────────────►│
//	│◄─────────────── close frame, code = Ending ─────┤
//
// # Frames
//
// A text frame is one Envelope of at most MaxFrame bytes. A larger message goes
// as several "chunk" envelopes, between which other messages may pass, so that
// a large one never delays a heartbeat. Envelopes of an unknown type are
// counted and ignored, which is how the protocol grows. Binary frames carry
// multiplexed byte streams.
//
// # Streams
//
// The hub opens byte streams within a session whose hello said that the operator
// takes them. Each has a flow control of its own, and ends with the session.
//
//	│◄──────── header: a line of JSON, kind and request ──┤
//	├ answer: a line of JSON, or why not ─────────────────►│
//	├ frames: type, length, data ─────────────────────────►│ keep-alives in silence
//	├ end: why, in words ─────────────────────────────────►│
//	│◄──────────────────────────── close, at any moment ──┤ and the operator stops
package wire
