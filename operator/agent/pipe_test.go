// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"net"
	"sync"

	"github.com/kubenest/kubenest/operator/agent"
)

// pipes is a network without sockets, so that time may be a test's.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "tcp" }
func (pipeAddr) String() string  { return "example.com:443" }

// dialing connects to whoever accepts.
func (p *pipes) dialing() agent.Dialing {
	return agent.Dialing{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case p.conns <- theirs:
			return ours, nil
		case <-p.closed:
			return nil, &net.OpError{Op: "dial", Net: network, Err: net.ErrClosed}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}
