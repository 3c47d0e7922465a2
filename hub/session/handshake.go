// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/token"
)

const (
	// busyRetry is when those that were refused as busy are asked to try again: at
	// the earliest, and spread over as long again, so that they don't come together.
	busyRetry = 2 * time.Second
	// strangersLogged is how many refusals a second of peers that nobody knows are
	// worth a line in the log.
	strangersLogged = 20
	// failureRetry is when those are that fail, or connect, too often.
	failureRetry = 30 * time.Second
)

// ServeHTTP turns a request for wire.Path into a session, or refuses it with a
// wire.Refusal as JSON.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	a := attempt{source: sourceOf(r, s.o.TrustedProxies), began: began}
	if refusal, status := check(r); refusal != nil {
		a.status = status
		s.refuse(w, a, refusal)
		return
	}
	if why, ok := s.door.enter(); !ok {
		s.refuse(w, a, busy("The hub does not accept sessions: %s. The operator tries again by itself.", why))
		return
	}
	if !s.admission.enter(r.Context()) {
		s.door.leave()
		s.refuse(w, a, busy("The hub is opening as many sessions as it can. The operator tries again by itself."))
		return
	}
	ws, refusal := s.authenticate(w, r, &a)
	if ws == nil {
		s.admission.leave()
		s.door.leave()
		if refusal != nil {
			s.refuse(w, a, refusal)
		}
		return
	}
	// Nothing of the request is used from here on, so that it can go.
	go s.open(ws, a) //nolint:contextcheck // a session outlives its request
}

// attempt is what is known of a connection that is not a session yet.
type attempt struct {
	began    time.Time
	source   netip.Addr
	identity Identity
	status   int   // of the answer, if it is not the class's
	cause    error // for the log
}

// authenticate makes a WebSocket of an authenticated request. If there is no
// WebSocket and no refusal, the request has been answered. With a WebSocket comes
// the cluster's place among the openings.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request, a *attempt) (*websocket.Conn, *wire.Refusal) {
	ctx, cancel := context.WithTimeout(r.Context(), wire.OpeningTimeout)
	defer cancel()
	identity, err := s.o.Authority.Authenticate(ctx, bearer(r))
	a.identity = identity
	if err != nil {
		a.cause = err
		refusal := refusalOf(err)
		if refusal.Class == wire.ClassUnauthorized && s.failures.tooMany(failureKey(a.source, claimed(err))) {
			a.status = http.StatusTooManyRequests
			refusal = wire.Refuse(refusal.Class, "%s", refusal.Message).After(failureRetry)
		}
		return nil, refusal
	}
	if s.connections.tooMany(identity.ClusterID) {
		return nil, wire.Refuse(wire.ClassBusy, "The operator of this cluster connects too often: does it crash, or run more than once?").After(failureRetry)
	}
	if !s.admission.enterAs(identity.ClusterID) {
		return nil, busy("Other connections of this cluster are being opened. The operator tries again by itself.")
	}
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		s.admission.leaveAs(identity.ClusterID)
		s.o.Logger.V(1).Info("Connection broke before it was a WebSocket", append(a.log(), "reason", err.Error())...)
		return nil, nil
	}
	return ws, nil
}

// check refuses what is no operator, with the HTTP status.
func check(r *http.Request) (*wire.Refusal, int) {
	unsupported := func(status int, message string) (*wire.Refusal, int) {
		return wire.Refuse(wire.ClassUnsupported, "%s", message), status
	}
	switch {
	case r.Method != http.MethodGet:
		return unsupported(http.StatusMethodNotAllowed, "This is a WebSocket endpoint for kubenest operators; it answers GET only.")
	case r.Header.Get("Origin") != "":
		return unsupported(http.StatusForbidden, "This endpoint is for kubenest operators, not for browsers: requests with an Origin header are refused.")
	case r.ProtoMajor != 1 || !websocket.IsWebSocketUpgrade(r):
		return unsupported(http.StatusUpgradeRequired,
			"This is a WebSocket endpoint for kubenest operators. If an operator sent this, a proxy on its way does not pass WebSocket upgrades on.")
	case !slices.Contains(websocket.Subprotocols(r), wire.Subprotocol):
		return unsupported(http.StatusUpgradeRequired,
			"This hub speaks "+wire.Subprotocol+", which was not offered in Sec-WebSocket-Protocol: upgrade the operator, or see whether a proxy removes the header.")
	}
	return nil, 0
}

// bearer is the token of a request; empty if there is none, or more than one.
func bearer(r *http.Request) string {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, raw, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(raw)
}

// notUpgraded answers when gorilla finds fault with a request.
func (s *Server) notUpgraded(w http.ResponseWriter, r *http.Request, status int, reason error) {
	a := attempt{source: sourceOf(r, s.o.TrustedProxies), status: status}
	s.refuse(w, a, wire.Refuse(wire.ClassUnsupported, "The request can't become a WebSocket: %v.", reason))
}

// refuse answers a request that does not become a session.
func (s *Server) refuse(w http.ResponseWriter, a attempt, refusal *wire.Refusal) {
	status := a.status
	if status == 0 {
		status = refusal.Class.HTTPStatus()
	}
	s.refused(a, refusal)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodGet)
	case http.StatusUpgradeRequired:
		h.Set("Upgrade", "websocket")
		h.Set("Sec-WebSocket-Protocol", wire.Subprotocol)
	}
	if refusal.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt((refusal.RetryAfter+999)/1000, 10))
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(refusal) // the peer may be gone
}

// refused counts and logs a refusal.
func (s *Server) refused(a attempt, refusal *wire.Refusal) {
	s.metrics.refusals.WithLabelValues(string(refusal.Class), reasonOf(a.cause)).Inc()
	values := append(a.log(), "class", refusal.Class)
	if a.cause != nil {
		values = append(values, "reason", a.cause.Error())
	} else {
		values = append(values, "reason", refusal.Message)
	}
	_, decided := errors.AsType[*wire.Refusal](a.cause)
	switch {
	case a.cause != nil && !decided:
		s.o.Logger.Error(a.cause, "Could not decide on a connection", values...)
	case a.status != 0, a.identity.ClusterID == "" && !s.said.Allow(): // anybody on the Internet can cause these, at any rate
		s.o.Logger.V(1).Info("Connection refused", values...)
	default:
		s.o.Logger.Info("Connection refused", values...)
	}
}

// log is what a log line says of an attempt.
func (a *attempt) log() []any {
	values := []any{"source", a.source.String()}
	if a.identity.ClusterID != "" {
		values = append(values, "cluster", a.identity.ClusterID, "kid", a.identity.KeyID, "jti", a.identity.TokenID)
	}
	return values
}

func busy(format string, args ...any) *wire.Refusal {
	return wire.Refuse(wire.ClassBusy, format, args...).After(busyRetry + rand.N(busyRetry))
}

// refusalOf is what an error of Authority is answered with.
func refusalOf(err error) *wire.Refusal {
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		return refusal
	}
	return busy("The hub cannot look the cluster up now. The operator tries again by itself.")
}

// claimed is the cluster that a token names which did not verify.
func claimed(err error) string {
	if rejection, ok := errors.AsType[*token.Rejection](err); ok {
		return rejection.Subject
	}
	return ""
}

// reasonOf is why a token was rejected, of which the bearer hears nothing.
func reasonOf(err error) string {
	if rejection, ok := errors.AsType[*token.Rejection](err); ok {
		return string(rejection.Reason)
	}
	return ""
}
