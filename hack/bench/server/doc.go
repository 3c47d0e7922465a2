// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server has the servers that bench compares. Each runs in a process of
// its own, is served alike, with the same certificate, and speaks the same
// messages, so that what is left between two numbers is what the server does.
//
// A second, plain HTTP address is for the one who measures: figures, collecting
// garbage, tokens and profiles.
package server
