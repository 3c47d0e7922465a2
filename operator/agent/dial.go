// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/net/http/httpproxy"

	"github.com/kubenest/kubenest/api/wire"
)

// Dialing is how connections are made. The zero value is right for production.
type Dialing struct {
	// Proxy says which proxy leads to a URL, nil if none; by default what HTTPS_PROXY
	// and NO_PROXY say.
	Proxy func(*url.URL) (*url.URL, error)
	// DialContext makes TCP connections. By default names are resolved anew at each
	// attempt.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// InsecurePlainHTTP allows hub URLs without TLS.
	InsecurePlainHTTP bool
	// UserAgent of the opening request.
	UserAgent string
}

func (d *Dialing) withDefaults() Dialing {
	out := *d
	if out.Proxy == nil {
		out.Proxy = httpproxy.FromEnvironment().ProxyFunc()
	}
	if out.DialContext == nil {
		// The session has its own heartbeats, so TCP's would be traffic without use.
		out.DialContext = (&net.Dialer{Timeout: wire.OpeningTimeout, KeepAlive: -1}).DialContext
	}
	if out.UserAgent == "" {
		out.UserAgent = "kubenest-operator"
	}
	return out
}

// target is one attempt's destination.
type target struct {
	url   *url.URL
	roots *x509.CertPool
	token Token
}

// dial opens a WebSocket. Its error is a *wire.Refusal if a hub refused, else a
// *Failure.
func (d *Dialing) dial(ctx context.Context, t target) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, wire.OpeningTimeout)
	defer cancel()
	proxy, err := d.proxyFor(t.url)
	if err != nil {
		return nil, &Failure{Kind: FailedConfiguration, URL: t.url.String(), Err: err}
	}
	// gorilla heeds a deadline, but not a context that is cancelled while it waits for
	// an answer; without this, stopping could take as long as the timeout.
	var abort []func() bool
	defer func() {
		for _, stop := range abort {
			stop()
		}
	}()
	connect := func(within context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(within, network, address)
		if err == nil {
			abort = append(abort, context.AfterFunc(ctx, func() { _ = conn.Close() }))
		}
		return conn, err
	}
	dialer := websocket.Dialer{
		NetDialContext:   connect,
		TLSClientConfig:  &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: t.roots},
		HandshakeTimeout: wire.OpeningTimeout,
		Subprotocols:     []string{wire.Subprotocol},
		Proxy:            func(*http.Request) (*url.URL, error) { return proxy, nil },
	}
	if proxy != nil {
		dialer.NetDialTLSContext = dialTLSProxy(connect, proxy)
	}
	header := http.Header{
		"Authorization": {"Bearer " + t.token.Raw()},
		"User-Agent":    {d.UserAgent},
	}
	ws, response, err := dialer.DialContext(ctx, t.url.String(), header)
	switch {
	case errors.Is(err, websocket.ErrBadHandshake) && response != nil:
		return nil, answered(t, response)
	case err != nil:
		return nil, unreached(t.url, proxy, err)
	case ws.Subprotocol() != wire.Subprotocol:
		_ = ws.Close()
		return nil, &Failure{Kind: FailedAnswer, URL: t.url.String(), Err: fmt.Errorf(
			"it accepted a WebSocket, but does not speak %s: is this a kubenest hub, and does every proxy before it pass Sec-WebSocket-Protocol on?",
			wire.Subprotocol)}
	}
	return ws, nil
}

// proxyFor is the proxy on the way to a WebSocket URL, nil if there is none.
func (d *Dialing) proxyFor(u *url.URL) (*url.URL, error) {
	asked := *u
	asked.Scheme = "https"
	if u.Scheme == "ws" {
		asked.Scheme = "http"
	}
	proxy, err := d.Proxy(&asked)
	switch {
	case err != nil:
		// The cause may quote the variable, with the proxy's password.
		return nil, errors.New("the proxy in HTTPS_PROXY or HTTP_PROXY can not be used: expected something like http://proxy.example.com:3128")
	case proxy == nil:
		return nil, nil //nolint:nilnil // as in net/http: no proxy is nil
	}
	switch proxy.Scheme {
	case "http", "https":
		return proxy, nil
	default:
		return nil, fmt.Errorf("the proxy in HTTPS_PROXY or HTTP_PROXY begins with %.20s://: only http:// and https:// proxies are supported", proxy.Scheme)
	}
}

// dialTLSProxy connects to a proxy that is itself behind TLS. It is checked against
// the system's authorities (SSL_CERT_FILE names others), not against the hub's.
func dialTLSProxy(
	connect func(ctx context.Context, network, address string) (net.Conn, error), proxy *url.URL,
) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secured := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: proxy.Hostname()})
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return secured, nil
	}
}

// retryAfter reads the header of answers that are no hub's; 0 if there is none.
func retryAfter(h http.Header) time.Duration {
	d, err := time.ParseDuration(h.Get("Retry-After") + "s")
	if err != nil || d < 0 {
		return 0
	}
	return min(d, longestRetryAfter)
}
