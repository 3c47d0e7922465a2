// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart fetches Helm charts, opens them and renders them for one release.
//
// Whatever comes from a network or an App's author is bounded: an index, a packed
// and an unpacked chart in bytes, a fetch in time, and the template functions that
// make much out of little. Credentials go to the host that they are for, and nowhere
// else; neither they nor values stand in an error.
//
// What a chart generates by chance (passwords, certificates) would change with each
// rendering. So everything is rendered twice: what differs between the two was
// generated, and keeps the value that it has on the cluster, if it has one.
//
// Templates are run in a process of their own, which is this program again and has
// nothing of the operator: no credentials, no environment, 20 s and 512 MiB. So "lookup"
// finds nothing there, as with "helm template"; a chart that looks a password up, and
// generates one if there is none, keeps it in the way above.
package chart
