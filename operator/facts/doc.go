// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package facts tells what a cluster looks like: its version, nodes, capacity and
// use, and what keeps the operator from knowing. What is not known is nil, never
// zero.
//
// Use is measured by metrics.k8s.io where that works. It may come and go, so it is
// asked each time; meanwhile use is the sum of what running pods request, and
// wire.Facts.Source says which it is. Pods are watched only once that was needed:
// most clusters have metrics, and their pods cost memory.
package facts
