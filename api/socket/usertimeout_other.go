// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package socket

import (
	"net"
	"time"
)

// setUserTimeout is for Linux only. Elsewhere, silence alone tells of a half-open
// connection.
func setUserTimeout(net.Conn, time.Duration) {}
