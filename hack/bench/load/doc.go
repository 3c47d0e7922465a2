// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load plays the operators of bench, in processes of their own: it opens
// sessions and beats. It is not the real agent but the least that speaks its
// protocol, so that the cores that clients and servers share are left to the
// servers. fleetsim has the real one.
package load
