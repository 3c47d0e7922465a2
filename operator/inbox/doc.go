// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inbox keeps on its cluster what the hub delivers: a copy of each StackDeploy
// in the operator's namespace, and the inputs that it lists. Whatever deploys works
// from the copies alone, whether the hub is there or not; their statuses, and the
// exports of addons, are what the hub is told.
//
// A copy's spec.source is the memory of a delivery. The order of writes is inputs,
// copy, and then what inputs are left over, each idempotent, so that an operator that
// is killed in between is told the same again and ends in the same.
//
// Data of inputs and exports may be secret. It is in no log, error or status, and is
// not cached.
package inbox
