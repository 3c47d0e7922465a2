// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials keeps what an operator proves itself with.
//
// Mounted is the real thing: what the chart gave is a mounted Secret, and what the
// hub handed over since goes into a second one that the chart does not own. So
// neither "helm upgrade" with old values nor a tool that reverts every change can
// take the newer token away. Memory serves simulators and tests.
package credentials
