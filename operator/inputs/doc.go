// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inputs keeps what travels beside a StackDeploy: exports of addons on other
// clusters, charts, and credentials of Git repositories. They are Secrets in the
// operator's namespace, one for each revision, so that a delivery that is refused, or
// ends in the middle, takes nothing from the one that is in force.
package inputs
