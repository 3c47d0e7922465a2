// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/kubenest/kubenest/api/version"
)

const (
	dialTimeout  = 15 * time.Second
	maxRedirects = 5
)

// newClient makes a client for one fetch. It uses the environment's proxies, and
// never goes from https to http.
func newClient(access *Access, secure bool) (*http.Client, error) {
	roots, err := trusted(access.CA)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxManifest,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true, // a chart is fetched once
	}
	return &http.Client{
		Transport: &guard{next: transport, secure: secure},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects {
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			if r.URL.Host != via[0].URL.Host {
				r.Header.Del("Authorization") // net/http leaves it on for subdomains
			}
			return nil
		},
	}, nil
}

// trusted is nil, which means the system's, without a CA.
func trusted(ca []byte) (*x509.CertPool, error) {
	if len(ca) == 0 {
		return nil, nil //nolint:nilnil // crypto/tls takes a nil pool for the system's
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // some systems have none
	}
	if !roots.AppendCertsFromPEM(ca) {
		return nil, unavailable("%s in the Secret of chart.secretRef holds no certificate in PEM", KeyCA)
	}
	return roots, nil
}

// guard keeps credentials from unencrypted connections.
type guard struct {
	next   http.RoundTripper
	secure bool
}

var errDowngrade = errors.New("refused to go on without TLS")

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.secure && r.URL.Scheme != "https" {
		return nil, errDowngrade
	}
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", "kubenest-operator/"+version.String())
	return g.next.RoundTrip(r)
}

// get reads a URL. Credentials are sent if it is on host.
func get(ctx context.Context, u *url.URL, access *Access, host string, limit int64) ([]byte, error) {
	client, err := newClient(access, u.Scheme == "https")
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, unavailable("%s is no URL", shown(u))
	}
	if u.Host == host && access.Username+access.Password != "" {
		request.SetBasicAuth(access.Username, access.Password)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, unreachable(shown(u), err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, refused(shown(u), response.StatusCode, access)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return nil, unreachable(shown(u), err)
	case int64(len(data)) > limit:
		return nil, tooLarge("what is", shown(u), limit)
	}
	return data, nil
}

// unreachable says in words why there was no answer.
func unreachable(where string, err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err // it repeats the URL, with a redirect's query
	}
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var dns *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return unavailable("%s: its certificate is from an authority that is not known here: put that one's certificate as %s into the Secret of chart.secretRef",
			where, KeyCA)
	case errors.As(err, &wrongName):
		return unavailable("%s: its certificate is for another host", where)
	case errors.As(err, &dns):
		return unavailable("%s: no address is known for %s: check the URL, and the cluster's DNS and proxy", where, dns.Name)
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("%s: no whole answer within %s: check the cluster's network and proxy", where, fetchTimeout)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("fetch %s: %w", where, err)
	case errors.Is(err, errDowngrade):
		return unavailable("%s: it leads to an address without TLS, which is not followed", where)
	}
	return unavailable("%s can not be reached%s: check the URL, and the cluster's network and proxy", where, cause(err))
}

// cause of there being no answer, where this side can tell. What some service answered
// that speaks another protocol is not repeated: net/http quotes it, and who writes an App
// chooses the address.
func cause(err error) string {
	var connection *net.OpError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &connection):
		return " (" + connection.Error() + ")"
	case errors.As(err, &alert):
		return " (" + alert.Error() + ")"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return " (it does not speak TLS)"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return " (it hung up)"
	}
	return " (what answers there does not speak HTTP as it should)"
}

// refused says what a status means, and what to do.
func refused(where string, status int, access *Access) error {
	text := fmt.Sprintf("%s: %d %s", where, status, http.StatusText(status))
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		if access.Username+access.Password == "" {
			return unavailable("%s: it wants credentials: name a Secret with %s and %s in chart.secretRef", text, KeyUsername, KeyPassword)
		}
		return unavailable("%s: the credentials of chart.secretRef are not accepted for it", text)
	case http.StatusNotFound:
		return unavailable("%s: check the URL", text)
	case http.StatusTooManyRequests:
		return unavailable("%s: it is asked too often; it is tried again later", text)
	}
	return unavailable("%s: it is tried again later", text)
}
