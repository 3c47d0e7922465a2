// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tcpproxy forwards TCP connections and, on demand, does to them what
// networks do: cut them, refuse them, or fall silent without a word.
package tcpproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	dialTimeout = 2 * time.Second
	bufferSize  = 32 << 10
)

// Proxy listens on one address and forwards each connection to the first of its
// upstreams that answers, beginning with another one each time.
type Proxy struct {
	listener  net.Listener
	upstreams []string
	running   sync.WaitGroup
	ctx       context.Context //nolint:containedctx // ends the dials, together with the connections, at Close
	cancel    context.CancelFunc

	mu      sync.Mutex
	next    int
	refuse  bool
	flowing chan struct{} // closed while data flows
	links   map[*link]struct{}
}

// link is a connection and its forwarding.
type link struct{ client, server net.Conn }

// Listen starts a proxy on an address of this machine. It runs until Close, not
// until ctx ends.
func Listen(ctx context.Context, address string, upstreams ...string) (*Proxy, error) {
	if len(upstreams) == 0 {
		return nil, errors.New("a proxy needs an upstream")
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("listen for connections to forward: %w", err)
	}
	p := &Proxy{
		listener: listener, upstreams: upstreams, ctx: ctx, cancel: cancel,
		flowing: make(chan struct{}), links: map[*link]struct{}{},
	}
	close(p.flowing)
	p.running.Go(p.accept)
	return p, nil
}

// Address that the proxy listens on.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Connections counts those that are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Cut closes all connections, as a proxy that restarts would. New ones are
// forwarded.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Refuse closes all connections, and new ones at once, until Resume.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	p.Cut()
}

// Stall stops all data in both directions until Resume, and closes nothing:
// neither side can tell, as when a firewall forgets a connection. New
// connections are accepted and as silent.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flowing:
		p.flowing = make(chan struct{})
	default: // stalled already
	}
}

// Resume ends Refuse and Stall. What stalled connections hold back is delivered.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = false
	select {
	case <-p.flowing:
	default:
		close(p.flowing)
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.listener.Close()
	p.Cut()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client went away again
		}
		p.running.Go(func() { p.forward(client) })
	}
}

func (p *Proxy) forward(client net.Conn) {
	defer client.Close()
	if p.refuses() {
		return
	}
	server, err := p.dial()
	if err != nil {
		return // as if nobody listened: the client sees its connection close
	}
	l := &link{client: client, server: server}
	if !p.add(l) {
		l.close()
		return
	}
	defer p.remove(l)
	var both sync.WaitGroup
	both.Go(func() { p.copy(l, server, client) })
	both.Go(func() { p.copy(l, client, server) })
	both.Wait()
}

// dial tries the upstreams in turn.
func (p *Proxy) dial() (net.Conn, error) {
	p.mu.Lock()
	first := p.next
	p.next++
	p.mu.Unlock()
	var errs []error
	for i := range p.upstreams {
		dialer := net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(p.ctx, "tcp", p.upstreams[(first+i)%len(p.upstreams)])
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// copy forwards one direction. It holds what it has read while the proxy is
// stalled, so that the end of a connection is held back, too.
func (p *Proxy) copy(l *link, to, from net.Conn) {
	defer l.close()
	buffer := make([]byte, bufferSize)
	for {
		n, readErr := from.Read(buffer)
		if !p.awaitFlow() {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil || readErr != nil {
			return
		}
	}
}

func (p *Proxy) awaitFlow() bool {
	p.mu.Lock()
	flowing := p.flowing
	p.mu.Unlock()
	select {
	case <-flowing:
		return true
	case <-p.ctx.Done():
		return false
	}
}

func (p *Proxy) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.ctx.Err() != nil {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
