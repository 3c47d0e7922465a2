// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import "fmt"

// Problem is why a component is not as it should be, as its status says it.
type Problem struct {
	// Reason is one of the API's, or Kubernetes' own.
	Reason string
	// Message names what is wrong, where, and what to do next. It holds no secrets.
	Message string
	// Waiting: nothing is wrong, and it goes on by itself. Otherwise it is tried again
	// slowly, and at once when the spec changes.
	Waiting bool
}

func (p *Problem) Error() string { return p.Message }

// Refuse makes a Problem that somebody has to mend.
func Refuse(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Wait makes a Problem that goes away by itself.
func Wait(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...), Waiting: true}
}
