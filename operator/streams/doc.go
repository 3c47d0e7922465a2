// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package streams serves the byte streams that the hub opens, each kind with a
// handler of its own: it reads what is asked for, answers, carries frames with
// keep-alives between them, and says why a stream ended. It stops a handler when
// the hub closes the stream or the session ends.
package streams
