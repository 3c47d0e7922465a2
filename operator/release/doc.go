// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release installs addons by Helm, with the rights of their Project's
// ServiceAccount: releases can be seen and mended with the helm command line.
//
// Everything is decided from what is stored, so that it survives a restart of the
// operator. Each revision of a release carries, as labels of its Secret, for whom it
// is and the digest of chart and values. So
//   - a release that is deployed with the wanted digest needs no chart and no Helm:
//     only its objects are compared with the manifest, and put right;
//   - a digest that failed is not tried again until it changes, but for slow retries;
//   - a release that Helm left pending belongs to an operator that died, since there is
//     one at a time, and is taken up where it can be.
//
// Before Helm begins, the chart is rendered, checked against the rules, compared with
// what exists and applied as a dry run: what can be refused is refused before anything
// was changed. Helm is then given exactly what was checked, in a chart without templates:
// it never runs an author's. A failed upgrade is rolled back. A failed first install is
// left as it is, so that its pods can be looked at; the next try goes on from there, or
// from the start if nothing had been made.
//
// # Bounds
//
// A Project's people write charts, and may write the Secrets of its releases. What Helm
// reads of these is measured first (records). How many releases are worked on at a time
// is bounded, for each namespace, too; one that waits, for its pods or its hooks, is not
// in the way of those that do something (slots).
//
// # Generated values
//
// A chart that makes a password with randAlphaNum makes another one each time it is
// rendered. It is rendered only for a new digest, and then a value that was generated
// keeps what the cluster has (chart.Settle). To have new ones, delete the Secret and
// change the values.
package release
