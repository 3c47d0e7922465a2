// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs the programs of a development environment as a node's
// kubelet would run containers: each with a log of its own, started again when
// it dies, and gone when the environment is.
//
// A test may kill, pause, hold down and start each program. No program outlives
// this one, on Linux not even when this one is killed.
package process
