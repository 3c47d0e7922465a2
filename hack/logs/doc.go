// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs tests that logs of pods reach the hub: from a kubelet, which kwok
// plays, through a real API server, an operator and its session.
package logs
