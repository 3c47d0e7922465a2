// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"net"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestUserTimeoutIsSet(t *testing.T) {
	g := NewWithT(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer l.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	defer conn.Close()

	setUserTimeout(conn, 40*time.Second)

	control, err := conn.(syscall.Conn).SyscallConn()
	g.Expect(err).NotTo(HaveOccurred())
	var millis int
	g.Expect(control.Control(func(fd uintptr) {
		millis, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	})).To(Succeed())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(millis).To(Equal(40_000))
}
