// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package setup wires the hub together: what main runs, and what the
// development environment, the simulator and the tests start.
//
// One hub process has two managers. The first holds the caches and everything
// that runs on every replica: the session server, its controllers, the replica's
// Lease. The second holds what runs on the leader only. controller-runtime ends a
// manager that loses its leadership, at once; were there only one, an API server
// that is away for ten seconds would close every session. The second manager is
// made anew instead, on the first one's caches.
package setup
