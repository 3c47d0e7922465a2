// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment runs kubenest as a whole on one machine: a management
// cluster with the hub, and workload clusters with an operator each. "make run"
// and the end-to-end tests start the same thing.
//
// Everything is a process of its own and listens on 127.0.0.1. What they keep
// lives in one folder, so that an environment started again on that folder is
// the one it was: the same records, tokens and URLs.
package environment
