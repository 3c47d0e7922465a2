// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package project gives each Project its namespace: on the cluster of its
// clusterRef, and on each further one that its Apps have a StackDeploy for.
//
//	reconciler.go  one Project, from reading to writing
//	setup.go       what it follows, and the cache's indexes
//	targets.go     which clusters, and which of them are refused
//	claims.go      of several Projects, which has a namespace on a cluster
//	stacks.go      the StackDeploy with namespaceSettings, one a cluster
//	removal.go     a Project that is being deleted: Apps, namespaces, finalizer
//	observe.go     what the status says; pure
//
// What the Apps of a Project target is read from the StackDeploys that the app
// controller makes, so that the rules by which a component finds its cluster are in
// one place. It runs on the leader.
package project
