// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// FailureKind names what went wrong with an attempt that no hub refused.
type FailureKind string

// Kinds of failure.
const (
	// FailedConfiguration: the operator's own settings or credentials are unusable.
	FailedConfiguration FailureKind = "configuration"
	// FailedDNS: the hub's or the proxy's name does not resolve.
	FailedDNS FailureKind = "dns"
	// FailedTLS: the certificate is not trusted, or the peer does not speak TLS.
	FailedTLS FailureKind = "tls"
	// FailedProxy: the proxy does not let the connection through.
	FailedProxy FailureKind = "proxy"
	// FailedNetwork: no connection, or it broke.
	FailedNetwork FailureKind = "network"
	// FailedTimeout: nobody answered in time.
	FailedTimeout FailureKind = "timeout"
	// FailedAnswer: somebody answered, but not as a hub would.
	FailedAnswer FailureKind = "answer"
)

// Failure is an attempt that reached no hub, or none that answered as one.
type Failure struct {
	Kind FailureKind
	// URL that was dialled; empty if it did not come that far.
	URL string
	// RetryAfter is how long the answer asked to wait, 0 if it did not.
	RetryAfter time.Duration
	Err        error
}

// Error says what was tried and what to do about it.
func (f *Failure) Error() string {
	if f.URL == "" {
		return f.Err.Error()
	}
	return fmt.Sprintf("connect to %s: %v", f.URL, f.Err)
}

// Unwrap is the cause.
func (f *Failure) Unwrap() error { return f.Err }

// refusal makes what an intermediary asks for count as a hub's.
func (f *Failure) refusal() *wire.Refusal {
	if f.RetryAfter == 0 {
		return nil
	}
	return wire.Refuse(wire.ClassBusy, "%s", f.Err).After(f.RetryAfter)
}

// shownBody is how much of an answer is quoted, in bytes.
const shownBody = 200

// answered explains an HTTP answer that is not an upgrade.
func answered(t target, r *http.Response) error {
	defer func() { _ = r.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10)) // what could be read is enough
	var refusal wire.Refusal
	if json.Unmarshal(body, &refusal) == nil && refusal.Class != "" && refusal.Validate() == nil {
		refusal.Message = redact(refusal.Message, t.token)
		return &refusal
	}
	why := fmt.Sprintf("the answer was %q, not a kubenest hub's", r.Status)
	switch {
	case r.StatusCode >= 300 && r.StatusCode < 400:
		why += fmt.Sprintf(", and points to %.200q: if the hub is there, make that its URL", redact(r.Header.Get("Location"), t.token))
	case r.StatusCode == http.StatusNotFound:
		why += ": does the hub have another path, as in https://example.com/kubenest?"
	case r.StatusCode == http.StatusSwitchingProtocols, r.StatusCode == http.StatusUpgradeRequired, r.StatusCode == http.StatusOK:
		why += ": does every proxy before the hub pass WebSocket upgrades on?"
	case r.StatusCode >= 500:
		why += ": the proxy or balancer before the hub may have no hub to pass it to"
	}
	if text := strings.Join(strings.Fields(string(body)), " "); text != "" {
		why += fmt.Sprintf("; it says: %q", wire.Shorten(redact(text, t.token), shownBody))
	}
	return &Failure{Kind: FailedAnswer, URL: t.url.String(), RetryAfter: retryAfter(r.Header), Err: errors.New(why)}
}

// jwtLike is anything that could be a part of a token: an answer may quote one.
var jwtLike = regexp.MustCompile(`eyJ[A-Za-z0-9_.-]+`)

func redact(text string, token Token) string {
	if raw := token.Raw(); raw != "" {
		text = strings.ReplaceAll(text, raw, token.String())
	}
	return jwtLike.ReplaceAllString(text, token.String())
}

// unreached explains an attempt that got no HTTP answer.
func unreached(u, proxy *url.URL, err error) *Failure {
	kind, hint := diagnose(err)
	if proxy != nil {
		hint = fmt.Sprintf(" through the proxy %s%s", proxy.Redacted(), hint)
		if kind == FailedNetwork && !isNetwork(err) {
			kind = FailedProxy // gorilla gives the proxy's answer as bare text
		}
	}
	return &Failure{Kind: kind, URL: u.String(), Err: fmt.Errorf("%w%s", err, hint)}
}

func isNetwork(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// diagnose names the kind of a dialling error and, if it can, what to do.
func diagnose(err error) (kind FailureKind, hint string) {
	var (
		dns       *net.DNSError
		unknown   x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		plain     tls.RecordHeaderError
		alert     tls.AlertError
		timeout   interface{ Timeout() bool }
		malformed = strings.Contains(err.Error(), "malformed HTTP")
	)
	switch {
	case errors.As(err, &dns):
		return FailedDNS, ": does this name resolve in the cluster?"
	case errors.As(err, &unknown):
		return FailedTLS, ": the hub's certificate is from an authority that the operator does not know; give it the hub's CA bundle in ca.crt"
	case errors.As(err, &hostname):
		return FailedTLS, ": the hub's certificate is for another name; use that in the hub URL, or give the hub a certificate for this one"
	case errors.As(err, &invalid), errors.As(err, &verify), errors.As(err, &alert):
		return FailedTLS, ""
	case errors.As(err, &plain):
		return FailedTLS, ": the peer does not speak TLS on this port"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return FailedTimeout, ": nobody answered; does a firewall or network policy drop the connection?"
	case malformed:
		return FailedAnswer, ": the peer does not speak HTTP; if it speaks TLS, the hub URL must begin with https://"
	default:
		return FailedNetwork, ""
	}
}
