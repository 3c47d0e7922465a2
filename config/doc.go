// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds what kubenest asks of a management cluster besides a
// place to run: CRDs, admission policies and roles. The CRDs and policies are
// embedded, and each hub replica applies them when it starts, so that they are
// never older than the hub that relies on them. "kubectl apply -k
// config/default" applies all of them by hand.
package config
