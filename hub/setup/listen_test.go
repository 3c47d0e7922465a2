// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"io"
	"net"
	"testing"

	. "github.com/onsi/gomega"
)

func TestListenBelievesTrustedProxiesOnly(t *testing.T) {
	for name, c := range map[string]struct {
		trusted      string
		sent         string
		from, passed string
	}{
		"a balancer names its client":           {"127.0.0.0/8", "PROXY TCP4 203.0.113.7 127.0.0.1 4711 443\r\nhello", "203.0.113.7", "hello"},
		"anybody else names somebody in vain":   {"10.0.0.0/8", "PROXY TCP4 203.0.113.7 127.0.0.1 4711 443\r\n", "127.0.0.1", "PROXY"},
		"others need not speak it":              {"10.0.0.0/8", "hello", "127.0.0.1", "hello"},
		"a balancer that does not is cut short": {"127.0.0.0/8", "hello, world, without a header", "127.0.0.1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := &ServerOptions{Address: "127.0.0.1:0", ProxyProtocol: true, TrustedProxies: []string{c.trusted}}
			listener, err := o.listen(t.Context(), nil)
			g.Expect(err).NotTo(HaveOccurred())
			defer listener.Close()

			client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
			g.Expect(err).NotTo(HaveOccurred())
			defer client.Close()
			_, err = io.WriteString(client, c.sent)
			g.Expect(err).NotTo(HaveOccurred())

			conn, err := listener.Accept()
			g.Expect(err).NotTo(HaveOccurred())
			defer conn.Close()
			got := make([]byte, len(c.passed))
			_, err = io.ReadFull(conn, got)
			if c.passed == "" {
				_, err = conn.Read(make([]byte, 1))
				g.Expect(err).To(HaveOccurred())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(got)).To(Equal(c.passed))
			host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(host).To(Equal(c.from))
			below, ok := conn.(interface{ NetConn() net.Conn })
			if ok {
				g.Expect(below.NetConn()).To(BeAssignableToTypeOf(&net.TCPConn{}))
			} else {
				g.Expect(conn).To(BeAssignableToTypeOf(&net.TCPConn{}))
			}
		})
	}
}
