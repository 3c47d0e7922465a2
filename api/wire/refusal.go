// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net/http"
	"time"
)

// Class tells a program why a connection was refused.
type Class string

// Classes of refusal. All but ClassUnauthorized, ClassBusy and ClassUnsupported
// are given only to the bearer of a token whose signature verifies.
const (
	// ClassUnauthorized is the one answer to every token that does not verify:
	// malformed, unknown key, wrong audience or issuer.
	ClassUnauthorized Class = "unauthorized"
	// ClassNotYetValid: the token begins later, by the hub's clock.
	ClassNotYetValid Class = "not_yet_valid"
	// ClassExpired: the token expired too long ago to be renewed.
	ClassExpired Class = "expired"
	// ClassRevoked: the token's generation is below the floor.
	ClassRevoked Class = "revoked"
	// ClassUnknownCluster: no record has the token's cluster id.
	ClassUnknownCluster Class = "unknown_cluster"
	// ClassConflict: the record is pinned to another cluster.
	ClassConflict Class = "conflict"
	// ClassDuplicate: another operator of this identity is connected.
	ClassDuplicate Class = "duplicate"
	// ClassUnsupported: the hub does not speak the operator's protocol version.
	ClassUnsupported Class = "unsupported"
	// ClassBusy: the hub cannot take the session now; RetryAfter says when to ask.
	ClassBusy Class = "busy"
)

// Retriable reports whether the same attempt may succeed by itself soon. An
// operator that meets a refusal that is not goes to the slow end of its backoff
// at once, and keeps trying: people mend these.
func (c Class) Retriable() bool {
	switch c {
	case ClassRevoked, ClassUnknownCluster, ClassConflict, ClassDuplicate, ClassExpired, ClassUnsupported:
		return false
	default:
		return true
	}
}

// HTTPStatus is the status of a refusal that is given before the upgrade.
func (c Class) HTTPStatus() int {
	switch c {
	case ClassBusy:
		return http.StatusServiceUnavailable
	case ClassConflict, ClassDuplicate:
		return http.StatusConflict
	case ClassUnsupported:
		return http.StatusUpgradeRequired
	default:
		return http.StatusUnauthorized
	}
}

// Refusal is the body of an HTTP answer before the upgrade, and the refused
// message after it.
type Refusal struct {
	Class Class `json:"class"`
	// Message is one sentence for a person, with what to do next.
	Message string `json:"message"`
	// RetryAfter is in milliseconds; 0 leaves it to the operator's backoff.
	RetryAfter int64 `json:"retryAfterMillis,omitempty"`
}

// Refuse makes a refusal.
func Refuse(class Class, format string, args ...any) *Refusal {
	return &Refusal{Class: class, Message: fmt.Sprintf(format, args...)}
}

// After sets when to ask again.
func (r *Refusal) After(d time.Duration) *Refusal {
	r.RetryAfter = d.Milliseconds()
	return r
}

// Error makes a refusal an error.
func (r *Refusal) Error() string { return fmt.Sprintf("refused (%s): %s", r.Class, r.Message) }

// Validate bounds the words.
func (r *Refusal) Validate() error {
	r.Message = Line(r.Message, MaxText)
	if r.Class == "" || len(r.Class) > MaxName || r.RetryAfter < 0 {
		return fmt.Errorf("class %.40q, retry after %d ms", r.Class, r.RetryAfter)
	}
	return nil
}
