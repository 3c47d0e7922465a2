// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stackdeploy brings the management cluster's StackDeploys to the operators
// of their clusters, and back what becomes of them. Nothing is queued that could be
// lost: what is owed to an operator follows from what it says it has.
//
//	mailbox.go   what operators say → per session, newest wins             every replica
//	delivery.go  StackDeploy, and what the operator has → what to send     every replica
//	inputs.go    what travels beside it, read from the API server
//	removal.go   deleted → removed on the cluster → finalizer off
//	exports.go   an addon's exports → Secret                               every replica
//	unknown.go   work that this hub has no record of → an Event            every replica
//	absence.go   clusters that nobody holds → Unknown; what is left behind leader
//
// What is written is computed by pure functions: report.go (what of an operator's
// words may be shown), status.go (status of a cluster that is connected) and
// away.go (of one that is not). write.go writes it.
//
// A replica acts for a cluster while the cluster's record names the session that it
// holds, and not before the operator's inventory came; the leader while the record
// names no session. Each write carries the resourceVersion of what it was computed
// from, so that a writer with an outdated idea of who it is changes nothing.
package stackdeploy
