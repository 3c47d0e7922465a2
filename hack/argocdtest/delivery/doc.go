// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package delivery tests that the two ways of delivering an App, direct and argocd,
// end alike: with a real hub, a real operator that has the rights it is given and no
// others, a real Argo CD on the workload cluster and a Git server by https.
package delivery
