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
// generated, and keeps the value that it has on the cluster, if it has one. Charts
// that use "lookup" for that do as they are used to; it looks with the Project's
// rights.
package chart
