// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package tcpproxy_test

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/hack/tcpproxy"
)

const (
	soon  = 5 * time.Second
	quiet = 300 * time.Millisecond // long enough for what would come to have come
)

// echo starts a server that answers each line with its name and the line.
func echo(t *testing.T, name string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					_, _ = io.WriteString(conn, name+" "+lines.Text()+"\n")
				}
			}()
		}
	}()
	return listener.Addr().String()
}

type client struct {
	g    *WithT
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, p *tcpproxy.Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{g: NewWithT(t), conn: conn, in: bufio.NewReader(conn)}
}

func (c *client) send(line string) { _, _ = io.WriteString(c.conn, line+"\n") }

func (c *client) receive(within time.Duration) (string, error) {
	c.g.Expect(c.conn.SetReadDeadline(time.Now().Add(within))).To(Succeed())
	return c.in.ReadString('\n')
}

func (c *client) expect(line string) {
	c.g.THelper()
	got, err := c.receive(soon)
	c.g.Expect(err).NotTo(HaveOccurred())
	c.g.Expect(got).To(Equal(line + "\n"))
}

func (c *client) expectClosed() {
	c.g.THelper()
	_, err := c.receive(soon)
	c.g.Expect(err).To(HaveOccurred())
	timeout, is := err.(net.Error) //nolint:errorlint // asked of this very error
	c.g.Expect(is && timeout.Timeout()).To(BeFalse(), "the connection is still open")
}

func (c *client) expectSilence() {
	c.g.THelper()
	_, err := c.receive(quiet)
	timeout, is := err.(net.Error) //nolint:errorlint // asked of this very error
	c.g.Expect(is && timeout.Timeout()).To(BeTrue(), "got %v", err)
}

func listen(t *testing.T, upstreams ...string) *tcpproxy.Proxy {
	t.Helper()
	p, err := tcpproxy.Listen(t.Context(), "127.0.0.1:0", upstreams...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestForwardsAndCuts(t *testing.T) {
	p := listen(t, echo(t, "a"))
	c := dial(t, p)
	c.send("hello")
	c.expect("a hello")
	p.Cut()
	c.expectClosed()
	again := dial(t, p)
	again.send("back")
	again.expect("a back")
}

func TestStalledConnectionsStayOpenAndSilent(t *testing.T) {
	p := listen(t, echo(t, "a"))
	c := dial(t, p)
	c.send("one")
	c.expect("a one")
	p.Stall()
	c.send("two")
	c.expectSilence()
	late := dial(t, p)
	late.send("three")
	late.expectSilence()
	p.Resume()
	c.expect("a two")
	late.expect("a three")
}

func TestRefusesUntilResumed(t *testing.T) {
	p := listen(t, echo(t, "a"))
	c := dial(t, p)
	c.send("one")
	c.expect("a one")
	p.Refuse()
	c.expectClosed()
	dial(t, p).expectClosed()
	p.Resume()
	again := dial(t, p)
	again.send("two")
	again.expect("a two")
}

func TestGoesToTheUpstreamThatAnswers(t *testing.T) {
	g := NewWithT(t)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gone.Close()).To(Succeed())
	p := listen(t, gone.Addr().String(), echo(t, "b"))
	for range 3 {
		c := dial(t, p)
		c.send("hello")
		c.expect("b hello")
	}
	g.Expect(p.Connections()).To(Equal(3))
}

func TestCloseEndsStalledConnections(t *testing.T) {
	p := listen(t, echo(t, "a"))
	c := dial(t, p)
	p.Stall()
	c.send("hello")
	NewWithT(t).Expect(p.Close()).To(Succeed())
	c.expectClosed()
}
