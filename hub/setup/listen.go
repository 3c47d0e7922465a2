// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/pires/go-proxyproto"

	"github.com/kubenest/kubenest/api/wire"
)

// listen opens the port for operators: TCP, then the PROXY protocol where a
// balancer speaks it, then TLS.
func (o *ServerOptions) listen(ctx context.Context, config *tls.Config) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for operators (--listen-address): %w", err)
	}
	if o.ProxyProtocol {
		policy, err := proxyproto.PolicyFromRanges(o.TrustedProxies, proxyproto.REQUIRE, proxyproto.SKIP)
		if err != nil {
			return nil, fmt.Errorf("--trusted-proxies: %w", err)
		}
		listener = &proxied{&proxyproto.Listener{Listener: listener, ConnPolicy: policy, ReadHeaderTimeout: wire.OpeningTimeout}}
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	return listener, nil
}

// proxied gives connections whose TCP connection can be reached below the PROXY
// protocol, as it can below TLS: a session tears that one down.
type proxied struct{ net.Listener }

func (l *proxied) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if proxy, ok := conn.(*proxyproto.Conn); ok {
		return proxiedConn{proxy}, err
	}
	return conn, err
}

type proxiedConn struct{ *proxyproto.Conn }

// NetConn is the connection below, as tls.Conn calls it.
func (c proxiedConn) NetConn() net.Conn { return c.Raw() }
