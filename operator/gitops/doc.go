// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops delivers an App through a Git repository and Argo CD: it commits
// the App's objects, keeps the Application and what that needs, and reads back what
// Argo CD makes of it.
//
// Each App has a folder <path>/<organization>/<namespace>/<app> with one file an
// object, which holds exactly what the App has: what somebody else puts there is
// removed with the next commit. A file in it says for whom it is, so that two clusters
// with one branch and path do not fight over it. There is one commit a change, and
// none without one. Secrets are never committed.
//
// Argo CD applies with its own rights, so that the AppProject is the guard: one a
// Project, its namespace as the only destination, and no kinds that belong to the
// whole cluster unless its owner allows them. Where Argo CD is set to impersonate, it
// uses the Project's ServiceAccount.
//
// Argo CD tracks what it applied by an annotation since version 3. Where a cluster's
// argocd-cm says resourceTrackingMethod: label, it sets app.kubernetes.io/instance on
// the objects; the labels and annotations of kubenest stay as they are in Git.
package gitops
