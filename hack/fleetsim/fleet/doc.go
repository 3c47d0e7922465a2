// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet plays many clusters in one process: each has the operator's real
// agent, credentials in memory, and figures that rest or move a little in place of
// a Kubernetes API server. To the hub they are clusters like any others.
package fleet
