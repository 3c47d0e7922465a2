// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Token is a bearer token that cannot be printed, logged or encoded by mistake:
// everything but Reveal gives "[redacted]".
type Token struct {
	// A function, because fmt and dumpers of test libraries read unexported
	// fields by reflection and would find a string, even behind a pointer.
	reveal func() string
}

// Conceal makes a Token of a raw one.
func Conceal(raw string) Token {
	return Token{reveal: func() string { return raw }}
}

// Reveal returns the raw token, empty for the zero value. The result must never
// reach a log, an Event, a status, a URL or an environment variable.
func (t Token) Reveal() string {
	if t.reveal == nil {
		return ""
	}
	return t.reveal()
}

// String redacts.
func (Token) String() string { return redacted }

// GoString redacts.
func (Token) GoString() string { return redacted }

// Format redacts, whatever the verb.
func (Token) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalJSON redacts.
func (Token) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText redacts.
func (Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue redacts for slog.
func (Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalLog redacts for logr.
func (Token) MarshalLog() any { return redacted }
