// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package socket carries wire messages over one WebSocket, in the same way at
// both ends.
//
// # Goroutines
//
// One goroutine of the caller's reads; it never waits for a write. Any goroutine
// sends: messages are queued, and a writer goroutine exists only while something
// is queued, so that an idle connection costs one goroutine. Both are joined by
// Wait.
//
// # Order
//
// Messages that fit a frame keep their order, and so do larger ones, but a small
// one passes the chunks of a large one, so that a large one never delays a
// heartbeat. The very first message is never passed: it opens the session. Bytes of
// streams go when nothing else waits.
//
// # Streams
//
// Binary frames carry a yamux session, which begins with the first stream: before
// that it costs nothing, and then two or three goroutines and some 30 KB until the
// connection ends. One end opens streams and the other accepts. What a stream carries
// is bounded by its window, so the reading goroutine takes all that comes and never
// waits for a stream's reader; a peer that sends more has broken the rules. A stream
// whose reader is slow holds wire.StreamWindow bytes here, or twice that while its
// buffer grows, and its writer at the other end waits.
//
// # Life and death
//
// Every frame counts as life, ping and pong too. After Timing.DeadAfter without
// one, the connection ends as wire.EndSilent. A connection ends once, with the
// ending that came first; its TCP connection is gone at most wire.CloseTimeout
// later, whether or not the peer answers: on a half-open connection nobody does.
package socket
