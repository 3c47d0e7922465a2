// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// An API server's metrics count requests, and do not say whose they were. Its
// audit log does.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: Metadata
`

// auditArgs are the API server's arguments for an audit log of all that is about
// objects.
func auditArgs(policy, log string) ([]string, error) {
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}, nil
}

// auditEvent is what is looked at of a line.
type auditEvent struct {
	Verb      string
	UserAgent string
	User      struct{ Username string }
	ObjectRef *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	Received  time.Time `json:"requestReceivedTimestamp"`
}

// read reports whether it changed nothing.
func (e *auditEvent) read() bool { return slices.Contains([]string{"get", "list", "watch"}, e.Verb) }

// audited says who did what between two times and how often, the most frequent
// first.
func audited(log string, from, to time.Time, which func(*auditEvent) bool) ([]string, error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	counts := map[string]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		if e.Received.Before(from) || e.Received.After(to) || e.ObjectRef == nil || e.ObjectRef.Resource == "leases" || !which(&e) {
			continue
		}
		agent, _, _ := strings.Cut(e.UserAgent, "/")
		what := strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
		counts[fmt.Sprintf("%s (%s): %s %s, such as %s/%s", e.User.Username, agent, e.Verb, what, e.ObjectRef.Namespace, trim(e.ObjectRef.Name))]++
	}
	all := make([]string, 0, len(counts))
	for who, n := range counts {
		all = append(all, fmt.Sprintf("%6d × %s", n, who))
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all, lines.Err()
}

// trim cuts the number off the name of a simulated cluster, so that they count as
// one.
func trim(name string) string {
	return strings.TrimRight(name, "0123456789abcdef.")
}
