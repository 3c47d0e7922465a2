// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package managedcluster lets a cluster's record live: it is registered, its
// operator connects, figures follow, the session ends, somebody says so.
//
//	registration.go  record seen → id, token, Secret <name>-connection     leader
//	authority.go     bearer token → identity, or a refusal                 every replica
//	identity.go      may this cluster and this process connect? pure
//	claim.go         hello → epoch+1 and all session fields, one write     every replica
//	session.go       session here, or just ended → status                  every replica
//	absence.go       nobody living holds it → status                       leader
//	guard.go         used by Projects or Apps → deletion waits             leader
//
// What is written is computed by pure functions: observe.go (session fields,
// conditions, phase), figures.go (when figures are worth a write), columns.go
// (what kubectl prints) and ending.go (an ending in words).
package managedcluster
