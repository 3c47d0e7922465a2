// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deploy makes the StackDeploys in the operator's namespace true on this
// cluster, and says in their status how far that is.
//
// A StackDeploy is of a Project's namespace or of an App. Of an App, components are
// begun in the order of their dependencies: one that depends on others when those run,
// and one that is held when it is held no more. What has been begun once is kept as
// the spec says, whatever becomes of its dependencies. Nothing is remembered that
// could be lost: every pass looks at what there is, and works without the hub.
//
// How objects reach the API server is behind the interfaces in delivery.go. Removal is
// the state spec.removed; a StackDeploy that is merely deleted leaves what runs running.
package deploy
