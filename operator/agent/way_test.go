// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/net/http/httpproxy"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

// authority makes a CA and a certificate of it for 127.0.0.1.
func authority(t *testing.T) (bundle string, serving *tls.Certificate) {
	t.Helper()
	g := NewWithT(t)
	issue := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		g.Expect(err).NotTo(HaveOccurred())
		if signer == nil {
			signer = key
		}
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		g.Expect(err).NotTo(HaveOccurred())
		return der, key
	}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, caKey := issue(ca, ca, nil)
	leaf := &x509.Certificate{
		Subject: pkix.Name{CommonName: "hub"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, leafKey := issue(leaf, ca, caKey)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})),
		&tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}
}

func TestANewAuthorityIsTrustedBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	bundle1, certificate1 := authority(t)
	bundle2, certificate2 := authority(t)
	hub := agenttest.Start(t, nil, certificate1)
	from := given(t, hub)
	from.CA = bundle1
	kept := credentials.NewMemory(from)
	start(t, agent.Options{Credentials: kept})
	s := next(t, hub.Sessions, "session")

	g.Expect(s.Send(wire.TypeTrust, wire.Trust{ID: "broken", CABundle: "not PEM"})).To(Succeed())
	g.Expect(nextMessage[wire.Stored](t, s, wire.TypeStored)).To(And(HaveField("ID", "broken"), HaveField("Error", ContainSubstring("not PEM"))))
	g.Expect(s.Send(wire.TypeTrust, wire.Trust{ID: "new", CABundle: bundle1 + bundle2})).To(Succeed())
	g.Expect(nextMessage[wire.Stored](t, s, wire.TypeStored)).To(Equal(wire.Stored{ID: "new"}))

	address := hub.Address()
	hub.Stop()
	listener, err := net.Listen("tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	hub = agenttest.Start(t, listener, certificate2)
	next(t, hub.Sessions, "session with a hub that has the new certificate")
}

func TestTheWelcomesAuthorityIsStored(t *testing.T) {
	t.Parallel()
	hub := agenttest.Start(t, nil, nil)
	bundle, _ := authority(t)
	hub.SetCABundle(hub.CA + bundle)
	kept := credentials.NewMemory(given(t, hub))
	start(t, agent.Options{Credentials: kept})
	next(t, hub.Sessions, "session")
	eventually(t, func() agent.Authorities {
		identity, err := kept.Load(t.Context())
		if err != nil {
			t.Error(err)
		}
		return identity.Authorities
	}).Should(ConsistOf(hub.CA, hub.CA+bundle))
}

func TestWhatAnswersIsExplained(t *testing.T) {
	t.Parallel()
	token := agenttest.Token(t, agenttest.Claims{Generation: 1})
	long := strings.Repeat("x", 1000)
	cases := map[string]struct {
		answer any
		wants  []string
	}{
		"a balancer":               {agenttest.HTTP{Status: 502, Body: "<h1>no\n upstream</h1>"}, []string{"502 Bad Gateway", "no upstream", "balancer"}},
		"a redirect":               {agenttest.HTTP{Status: 301, Header: http.Header{"Location": {"https://elsewhere.test/"}}}, []string{"301", "https://elsewhere.test/"}},
		"a wrong path":             {agenttest.HTTP{Status: 404}, []string{"404", "path"}},
		"a web site":               {agenttest.HTTP{Status: 200, Body: "<html>Welcome</html>"}, []string{"200", "WebSocket", "Welcome"}},
		"a lot of words":           {agenttest.HTTP{Status: 500, Body: long}, []string{strings.Repeat("x", 150), "…"}},
		"an echo of the token":     {agenttest.HTTP{Status: 500, Body: "you sent Bearer " + token}, []string{"you sent Bearer [redacted]"}},
		"half an echo":             {agenttest.HTTP{Status: 500, Body: long[:950] + token}, []string{"500"}},
		"another protocol":         {agenttest.NoSubprotocol{}, []string{wire.Subprotocol, "kubenest hub"}},
		"a refusal with the token": {wire.Refuse(wire.ClassConflict, "conflict of %s", token), []string{"conflict of [redacted]"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := agenttest.Start(t, nil, nil)
			hub.Answer(tc.answer)
			from := given(t, hub)
			from.Token = token
			op := start(t, agent.Options{Credentials: credentials.NewMemory(from)})
			trouble := func() string { st := op.State(); return st.Trouble() }
			for _, want := range tc.wants {
				eventually(t, trouble).Should(ContainSubstring(want))
			}
			g := NewWithT(t)
			if op.State().Failure != nil {
				g.Expect(trouble()).To(ContainSubstring("wss://" + hub.Address() + wire.Path))
			}
			g.Expect(trouble()).NotTo(ContainSubstring("bad handshake"))
			g.Expect(trouble()).NotTo(ContainSubstring(strings.Repeat("x", 201)))
			op.stop()
			g.Expect(op.log.String()).NotTo(ContainSubstring(token[:10]))
		})
	}
}

func TestCertificatesAreExplained(t *testing.T) {
	t.Parallel()
	hub := agenttest.Start(t, nil, nil)
	other, _ := authority(t)
	cases := map[string]struct {
		change func(*credentials.Given)
		want   string
	}{
		"of an unknown authority": {func(g *credentials.Given) { g.CA = other }, "ca.crt"},
		"of none that is public":  {func(g *credentials.Given) { g.CA = "" }, "ca.crt"},
		"for another name":        {func(g *credentials.Given) { g.HubURL = strings.Replace(g.HubURL, "127.0.0.1", "localhost", 1) }, "another name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := given(t, hub)
			tc.change(&from)
			dialing := agent.Dialing{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, hub.Address())
			}}
			op := start(t, agent.Options{Credentials: credentials.NewMemory(from), Dialing: dialing})
			eventually(t, kindOf(op)).Should(Equal(agent.FailedTLS))
			NewWithT(t).Expect(op.State().Failure.Error()).To(ContainSubstring(tc.want))
		})
	}
}

// kindOf is the kind of an operator's last failure. Nil is no error to gomega.
func kindOf(op *operator) func() agent.FailureKind {
	return func() agent.FailureKind {
		if f := op.State().Failure; f != nil {
			return f.Kind
		}
		return ""
	}
}

// proxy is an HTTP proxy that knows CONNECT and wants a password.
type proxy struct {
	url  string
	seen atomic.Int32
}

func startProxy(t *testing.T, target string, secured bool) *proxy {
	t.Helper()
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	p := &proxy{url: "http://" + listener.Addr().String()}
	if secured {
		_, certificate := authority(t)
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*certificate}})
		p.url = "https://" + listener.Addr().String()
	}
	var tunnels sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	tunnels.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			tunnels.Go(func() { p.tunnel(ctx, conn, target) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		tunnels.Wait()
	})
	return p
}

func (p *proxy) tunnel(ctx context.Context, conn net.Conn, target string) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	p.seen.Add(1)
	if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("shop:hunter2")) {
		_, _ = io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return
	}
	hub, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = hub.Close() }()
	stopHub := context.AfterFunc(ctx, func() { _ = hub.Close() })
	defer stopHub()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { _, _ = io.Copy(hub, conn); _ = hub.Close() }()
	_, _ = io.Copy(conn, hub)
}

func throughProxy(proxyURL, user, noProxy string) agent.Dialing {
	scheme, host, _ := strings.Cut(proxyURL, "://")
	config := &httpproxy.Config{HTTPSProxy: scheme + "://" + user + host, NoProxy: noProxy}
	return agent.Dialing{Proxy: config.ProxyFunc()}
}

func TestThroughAProxy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	p := startProxy(t, hub.Address(), false)
	from := given(t, hub)
	from.HubURL = "https://example.com" // resolved by the proxy only
	op := start(t, agent.Options{Credentials: credentials.NewMemory(from), Dialing: throughProxy(p.url, "shop:hunter2@", "")})
	s := next(t, hub.Sessions, "session")
	nextMessage[wire.Heartbeat](t, s, wire.TypeHeartbeat)
	g.Expect(p.seen.Load()).To(BeEquivalentTo(1))
	op.stop()
	g.Expect(op.log.String()).NotTo(ContainSubstring("hunter2"))
}

func TestNoProxy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	p := startProxy(t, hub.Address(), false)
	from := given(t, hub)
	from.HubURL = "https://hub.example.com"
	dialing := throughProxy(p.url, "shop:hunter2@", "example.com")
	dialing.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
		g.Expect(address).To(Equal("hub.example.com:443"), "it dials the hub, not the proxy")
		return nil, &net.DNSError{Err: "no such host", Name: "hub.example.com", IsNotFound: true}
	}
	op := start(t, agent.Options{Credentials: credentials.NewMemory(from), Dialing: dialing})
	eventually(t, kindOf(op)).Should(Equal(agent.FailedDNS))
	g.Expect(p.seen.Load()).To(BeZero())
}

func TestProxiesThatDoNotWorkAreExplained(t *testing.T) {
	t.Parallel()
	hub := agenttest.Start(t, nil, nil)
	plain, secured := startProxy(t, hub.Address(), false), startProxy(t, hub.Address(), true)
	cases := map[string]struct {
		dialing agent.Dialing
		kind    agent.FailureKind
		want    string
	}{
		"a wrong password":     {throughProxy(plain.url, "shop:hunter3@", ""), agent.FailedProxy, "Proxy Authentication Required"},
		"nobody there":         {throughProxy("http://127.0.0.1:1", "shop:hunter3@", ""), agent.FailedNetwork, "connection refused"},
		"an unknown authority": {throughProxy(secured.url, "shop:hunter3@", ""), agent.FailedTLS, "unknown authority"},
		"another kind": {agent.Dialing{Proxy: func(*url.URL) (*url.URL, error) {
			return url.Parse("socks5://shop:hunter3@127.0.0.1:1080")
		}}, agent.FailedConfiguration, "socks5://"},
		"no URL": {agent.Dialing{Proxy: func(*url.URL) (*url.URL, error) {
			return nil, errors.New(`invalid proxy address "http://shop:hunter3@%zz"`)
		}}, agent.FailedConfiguration, "HTTPS_PROXY"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := given(t, hub)
			from.HubURL = "https://example.com"
			op := start(t, agent.Options{Credentials: credentials.NewMemory(from), Dialing: tc.dialing})
			eventually(t, kindOf(op)).ShouldNot(BeEmpty())
			g := NewWithT(t)
			failure := op.State().Failure
			g.Expect(failure.Kind).To(Equal(tc.kind), failure.Error())
			g.Expect(failure.Error()).To(ContainSubstring(tc.want))
			op.stop()
			g.Expect(op.log.String() + failure.Error()).NotTo(ContainSubstring("hunter3"))
		})
	}
}
