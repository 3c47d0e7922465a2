// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests kubenest as a whole: real API servers, a real hub, real
// operators, each a process that is killed, paused, cut off and restored. It runs
// the environment of "make run", with shorter heartbeats.
package e2e
