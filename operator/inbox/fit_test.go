// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// TestFitOfTheLargest takes as much as the schema allows, of bytes that JSON makes
// six of.
func TestFitOfTheLargest(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return strings.Repeat("\x01", n) }
	var s kubenestv1.StackDeploy
	s.Status.Phase, s.Status.Message, s.Status.Drift = kubenestv1.AppFailed, text(4096), text(1024)
	for range 16 {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "T", Message: text(32768), Reason: "R"})
	}
	for range 32 {
		s.Status.Waiting = append(s.Status.Waiting, text(512))
	}
	for range 128 {
		c := kubenestv1.ComponentStatus{
			Name: strings.Repeat("n", 40), Cluster: text(320), Reason: text(256), Message: text(1024), Image: text(512),
		}
		for range 64 {
			c.Exports = append(c.Exports, text(63))
		}
		for range 5 {
			c.Warnings = append(c.Warnings, text(512))
		}
		s.Status.Components = append(s.Status.Components, c)
	}
	before, err := json.Marshal(s.Status)
	if err != nil {
		t.Fatal(err)
	}
	data, err := fit(&s)
	if err != nil || len(data) == 0 || len(data) > wire.MaxStatus {
		t.Fatalf("fit made %d bytes of %d, and %v; at most %d are allowed", len(data), len(before), err, wire.MaxStatus)
	}
	var status kubenestv1.StackDeployStatus
	if err := json.Unmarshal(data, &status); err != nil {
		t.Fatal(err)
	}
	if status.Phase != kubenestv1.AppFailed || !strings.Contains(status.Message, "too large to be shown whole") {
		t.Errorf("phase %q, message %q", status.Phase, status.Message)
	}
	if after, err := json.Marshal(s.Status); err != nil || len(after) != len(before) {
		t.Errorf("the status itself was changed: %d bytes, and %v", len(after), err)
	}
}

// TestFitOfMost leaves a status alone that has room.
func TestFitOfMost(t *testing.T) {
	t.Parallel()
	var s kubenestv1.StackDeploy
	s.Status.Message = "all is well"
	want, err := json.Marshal(s.Status)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fit(&s); err != nil || string(got) != string(want) {
		t.Errorf("fit made %s and %v, want %s", got, err, want)
	}
}
