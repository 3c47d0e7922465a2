// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Hello is the operator's first message: who it is, and its first figures, so
// that a connection costs the hub one write.
type Hello struct {
	// Protocol is the highest protocol version that the operator speaks.
	Protocol int `json:"protocol"`
	// Schema is the version of the operator's StackDeploy schema.
	Schema int `json:"schema"`
	// OperatorVersion is the operator's release.
	OperatorVersion string `json:"operatorVersion"`
	// ClusterUID is the UID of the cluster's kube-system namespace.
	ClusterUID string `json:"clusterUID"`
	// Process is drawn anew each time an operator becomes the active one of its
	// cluster.
	Process string `json:"process"`
	// Time is the operator's clock when it sent this.
	Time time.Time `json:"time"`
	// Streams says that the operator accepts byte streams.
	Streams bool `json:"streams,omitempty"`
	// Facts are the cluster's figures.
	Facts Facts `json:"facts"`
}

// Validate checks what the schema of the message cannot say.
func (h *Hello) Validate() error {
	switch {
	case h.Protocol < 1:
		return fmt.Errorf("protocol %d", h.Protocol)
	case !isID(h.ClusterUID):
		return errors.New("clusterUID is not an id")
	case !isID(h.Process):
		return errors.New("process is not an id")
	case len(h.OperatorVersion) > MaxName:
		return fmt.Errorf("operatorVersion over %d bytes", MaxName)
	}
	h.OperatorVersion = Line(h.OperatorVersion, MaxName)
	return h.Facts.Validate()
}

// isID accepts 1 to MaxName letters, digits, dashes, dots and underscores: ids
// end up in messages that people copy into a shell.
func isID(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '-', r == '.', r == '_':
		default:
			return false
		}
	}
	return true
}

// Source of a usage figure.
const (
	// SourceMetrics: measured by the cluster's metrics.k8s.io API.
	SourceMetrics = "metrics.k8s.io"
	// SourceRequests: the sum of the resource requests of running pods.
	SourceRequests = "requests"
)

// Facts are the figures of a whole cluster. What the operator does not know is
// nil, never zero.
type Facts struct {
	// KubernetesVersion of the API server, such as "v1.37.2".
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Nodes counts all nodes.
	Nodes *int32 `json:"nodes,omitempty"`
	// CPUTotal and CPUUsed are in thousandths of a core.
	CPUTotal *int64 `json:"cpuTotal,omitempty"`
	CPUUsed  *int64 `json:"cpuUsed,omitempty"`
	// MemTotal and MemUsed are in bytes.
	MemTotal *int64 `json:"memTotal,omitempty"`
	MemUsed  *int64 `json:"memUsed,omitempty"`
	// Source says where the usage is from; empty when it is not known.
	Source string `json:"source,omitempty"`
	// Error is a complaint of the operator that it cannot mend by itself, in
	// words for a person.
	Error string `json:"error,omitempty"`
	// Unreachable says why the operator cannot reach its cluster's API server. The
	// figures are then nil.
	Unreachable string `json:"unreachable,omitempty"`
}

// Validate refuses figures that cannot be and words that are too long.
func (f *Facts) Validate() error {
	if f.Nodes != nil && *f.Nodes < 0 {
		return fmt.Errorf("nodes %d", *f.Nodes)
	}
	for _, n := range []*int64{f.CPUTotal, f.CPUUsed, f.MemTotal, f.MemUsed} {
		if n != nil && *n < 0 {
			return fmt.Errorf("negative figure %d", *n)
		}
	}
	switch f.Source {
	case "", SourceMetrics, SourceRequests:
	default:
		return fmt.Errorf("unknown source of usage %.40q", f.Source)
	}
	if len(f.KubernetesVersion) > MaxName {
		return fmt.Errorf("kubernetesVersion over %d bytes", MaxName)
	}
	f.KubernetesVersion = Line(f.KubernetesVersion, MaxName)
	f.Error = Line(f.Error, MaxText)
	f.Unreachable = Line(f.Unreachable, MaxText)
	return nil
}

// Equal reports whether two sets of facts say the same.
func (f *Facts) Equal(g *Facts) bool {
	return f.KubernetesVersion == g.KubernetesVersion && same(f.Nodes, g.Nodes) &&
		same(f.CPUTotal, g.CPUTotal) && same(f.CPUUsed, g.CPUUsed) &&
		same(f.MemTotal, g.MemTotal) && same(f.MemUsed, g.MemUsed) &&
		f.Source == g.Source && f.Error == g.Error && f.Unreachable == g.Unreachable
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Heartbeat is sent every Welcome.Heartbeat seconds.
type Heartbeat struct {
	// Facts are nil when they are those sent last in this session.
	Facts *Facts `json:"facts,omitempty"`
}

// Validate checks the facts, if any.
func (h *Heartbeat) Validate() error {
	if h.Facts == nil {
		return nil
	}
	return h.Facts.Validate()
}

// Welcome is the hub's answer to Hello. The session exists from here on.
type Welcome struct {
	// Session is the session's id.
	Session string `json:"session"`
	// Epoch counts the cluster's sessions; the operator applies state from the
	// highest it was welcomed with only.
	Epoch int64 `json:"epoch"`
	// HubVersion is the hub's release.
	HubVersion string `json:"hubVersion"`
	// Replica names the hub replica, for logs.
	Replica string `json:"replica"`
	// Heartbeat and DeadAfter are in milliseconds.
	Heartbeat int64 `json:"heartbeatMillis"`
	DeadAfter int64 `json:"deadAfterMillis"`
	// CABundle is the PEM bundle to check the hub's certificate against, stored
	// before it is used; empty for public authorities.
	CABundle string `json:"caBundle,omitempty"`
}

// Timing of the session that the hub asks for.
func (w *Welcome) Timing() Timing {
	return Timing{
		Heartbeat: time.Duration(w.Heartbeat) * time.Millisecond,
		DeadAfter: time.Duration(w.DeadAfter) * time.Millisecond,
	}
}

// Validate checks the session's id and timing.
func (w *Welcome) Validate() error {
	if w.Session == "" || len(w.Session) > MaxName {
		return errors.New("no session id, or one too long")
	}
	return w.Timing().Validate()
}

// Credential hands a renewed token to the operator.
type Credential struct {
	// ID comes back in Stored.
	ID string `json:"id"`
	// Token is the JWT. It must never be logged.
	Token string `json:"token"`
}

// Validate bounds the id and the token, and does not repeat the token.
func (c *Credential) Validate() error {
	if err := validateID(c.ID); err != nil {
		return err
	}
	if c.Token == "" || len(c.Token) > MaxToken {
		return fmt.Errorf("token of %d bytes, want 1 to %d", len(c.Token), MaxToken)
	}
	return nil
}

// Trust hands a changed CA bundle to the operator.
type Trust struct {
	// ID comes back in Stored.
	ID string `json:"id"`
	// CABundle is PEM; empty for public authorities.
	CABundle string `json:"caBundle"`
}

// Validate bounds the id.
func (t *Trust) Validate() error { return validateID(t.ID) }

// Stored says that what came under ID is stored durably, or why not.
type Stored struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"`
}

// Validate bounds the words.
func (s *Stored) Validate() error {
	s.Error = Line(s.Error, MaxText)
	return validateID(s.ID)
}

func validateID(id string) error {
	if id == "" || len(id) > MaxName {
		return errors.New("no id, or one too long")
	}
	return nil
}

// Moving asks the operator to open its next session, elsewhere if it can, and
// then to close this one.
type Moving struct {
	// Within is how long the operator may take, in milliseconds. It dials at a
	// random moment in it.
	Within int64 `json:"withinMillis"`
	// Reason is for the log.
	Reason string `json:"reason"`
}

// Validate refuses a time that can't be waited for, and bounds the words.
func (m *Moving) Validate() error {
	m.Reason = Line(m.Reason, MaxText)
	if m.Within < 0 || m.Within > time.Hour.Milliseconds() {
		return fmt.Errorf("move within %d ms", m.Within)
	}
	return nil
}

// Goodbye says that the operator stops on purpose.
type Goodbye struct {
	// Reason is for people, such as "operator is shutting down".
	Reason string `json:"reason"`
}

// Validate bounds the words.
func (g *Goodbye) Validate() error {
	g.Reason = Line(g.Reason, MaxText)
	return nil
}

// Shorten cuts a text to at most n bytes, at a rune's edge and with an ellipsis.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const ellipsis = "…"
	cut := n - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}

// Line makes a text of a peer one line of at most n bytes that can be shown: it
// ends up in statuses and terminals, where what is not printable (escape
// sequences, line breaks, changes of the writing direction) could pose as
// something else.
func Line(s string, n int) string {
	return strings.Map(func(r rune) rune {
		switch { // never with something longer than what it stands for
		case r == utf8.RuneError:
			return '?'
		case unicode.IsPrint(r):
			return r
		}
		return ' '
	}, Shorten(s, n))
}
