// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall lacks.
const tcpUserTimeout = 18

// setUserTimeout makes the kernel give a TCP connection up when what was sent is
// not acknowledged for d. Without it, writes to a half-open connection succeed
// for about 15 minutes.
func setUserTimeout(conn net.Conn, d time.Duration) {
	tcp, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	control, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	// On failure (not TCP, or already closed) silence is still noticed.
	_ = control.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
}
