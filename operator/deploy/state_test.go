// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/health"
	"github.com/kubenest/kubenest/operator/stack"
)

func components(specs ...string) []kubenestv1.Component {
	var list []kubenestv1.Component
	for _, s := range specs { // name:dependency,dependency or name=addon whose export it uses
		c := kubenestv1.Component{Type: kubenestv1.ComponentWorkload, WorkloadSpec: &kubenestv1.WorkloadSpec{}}
		if name, addon, ok := strings.Cut(s, "="); ok {
			c.Name = name
			c.WorkloadSpec.Env = []kubenestv1.EnvVar{{ValueFrom: &kubenestv1.EnvVarSource{
				ExportRef: &kubenestv1.ExportReference{Component: addon, Key: "dsn"},
			}}}
		} else {
			name, dependsOn, _ := strings.Cut(s, ":")
			c.Name = name
			if dependsOn != "" {
				c.DependsOn = strings.Split(dependsOn, ",")
			}
		}
		list = append(list, c)
	}
	return list
}

func TestOrder(t *testing.T) {
	for name, test := range map[string]struct {
		components      []kubenestv1.Component
		ordered, cyclic string
	}{
		"as listed":                      {components("a", "b"), "a, b", ""},
		"dependencies first":             {components("a:b", "b:c", "c"), "c, b, a", ""},
		"exports first":                  {components("web=db", "db"), "db, web", ""},
		"elsewhere":                      {components("web=db", "a:other"), "web, a", ""},
		"a circle, and what hangs on it": {components("a:b", "b:a", "c:a", "d"), "d", "a, b, c"},
		"itself":                         {components("a:a"), "", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			ordered, cyclic := order(test.components)
			if got := names(ordered); got != test.ordered {
				t.Errorf("ordered %q, want %q", got, test.ordered)
			}
			if got := names(cyclic); got != test.cyclic {
				t.Errorf("cyclic %q, want %q", got, test.cyclic)
			}
		})
	}
}

func TestComponentStatus(t *testing.T) {
	const timeout = 10 * time.Minute
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	was := func(phase kubenestv1.AppPhase, reason string, age time.Duration) *kubenestv1.ComponentStatus {
		since := metav1.NewTime(now.Add(-age))
		return &kubenestv1.ComponentStatus{Name: "web", Phase: phase, Reason: reason, Since: &since}
	}
	well := &health.Health{Ready: true, ReadyReplicas: 2, DesiredReplicas: 2, Image: "web:v1"}
	ill := &health.Health{Reason: "ImagePullBackOff", Message: "image can not be pulled", ReadyReplicas: 1, DesiredReplicas: 2}
	slow := &health.Health{ReadyReplicas: 1, DesiredReplicas: 2}
	rolling := &health.Health{Rolling: true, ReadyReplicas: 2, DesiredReplicas: 2}
	two := int32(2)
	for name, test := range map[string]struct {
		o       observation
		before  *kubenestv1.ComponentStatus
		phase   kubenestv1.AppPhase
		reason  string
		message string
		fresh   bool // since is now
	}{
		"waits": {
			observation{problem: stack.Wait("WaitingForDependency", "db does not run")},
			nil,
			kubenestv1.AppPending, "WaitingForDependency", "db", true,
		},
		"refused":                           {observation{begun: true, health: well, problem: stack.Refuse("Forbidden", "no")}, was("Running", "Running", time.Hour), "Failed", "Forbidden", "no", true},
		"just applied":                      {observation{begun: true, changed: true, health: well}, was("Running", "Running", time.Hour), "Deploying", "Deploying", "on its way", true},
		"applied again while it deploys":    {observation{begun: true, changed: true, health: slow}, was("Deploying", "", time.Hour), "Deploying", "Deploying", "", true},
		"the cache is behind":               {observation{begun: true, working: true, health: well}, was("Deploying", "", time.Minute), "Deploying", "Deploying", "", false},
		"first ready":                       {observation{begun: true, health: well}, was("Deploying", "", time.Minute), "Running", "Running", "", true},
		"still ready":                       {observation{begun: true, health: well}, was("Running", "Running", time.Hour), "Running", "Running", "", false},
		"a rollout by Kubernetes":           {observation{begun: true, health: rolling}, was("Running", "Running", time.Hour), "Deploying", "Deploying", "2 of 2", true},
		"on its way, with a cause":          {observation{begun: true, health: ill}, was("Deploying", "", time.Minute), "Deploying", "ImagePullBackOff", "pulled", false},
		"past the timeout":                  {observation{begun: true, health: ill}, was("Deploying", "", timeout), "Failed", "Timeout", "ImagePullBackOff: image can not be pulled", true},
		"still past the timeout":            {observation{begun: true, health: slow}, was("Failed", "Timeout", time.Second), "Failed", "Timeout", "1 of 2", false},
		"recovers by itself":                {observation{begun: true, health: well}, was("Failed", "Timeout", time.Hour), "Running", "Running", "", true},
		"another try after a timeout":       {observation{begun: true, changed: true, health: ill}, was("Failed", "Timeout", time.Hour), "Deploying", "Deploying", "", true},
		"no longer refused":                 {observation{begun: true, health: slow}, was("Failed", "Forbidden", time.Hour), "Deploying", "Deploying", "1 of 2", true},
		"was ready, is not":                 {observation{begun: true, health: ill}, was("Running", "Running", time.Hour), "Degraded", "ImagePullBackOff", "pulled", true},
		"degraded does not time out":        {observation{begun: true, health: slow}, was("Degraded", "", time.Hour), "Degraded", "Degraded", "1 of 2", false},
		"pods that an autoscaler adds":      {observation{begun: true, enough: new(int32(1)), health: slow}, was("Running", "Running", time.Hour), "Running", "Running", "", false},
		"fewer than the autoscaler's least": {observation{begun: true, enough: &two, health: slow}, was("Running", "Running", time.Hour), "Degraded", "Degraded", "", true},
		"paused":                            {observation{begun: true, paused: true, health: ill}, was("Running", "Running", time.Hour), "Paused", "Paused", "image can not be pulled", true},
		"paused before it was begun":        {observation{paused: true}, nil, "Pending", "Paused", "paused", true},
		"an export has no address yet":      {observation{begun: true, health: well, problem: stack.Wait("WaitingForAddress", "lb")}, was("Deploying", "", time.Minute), "Deploying", "WaitingForAddress", "lb", false},
		"nothing new is known":              {observation{unknown: true}, was("Degraded", "OOMKilled", time.Minute), "Degraded", "OOMKilled", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &kubenestv1.Component{Name: "web", Type: kubenestv1.ComponentWorkload}
			s := componentStatus(c, &test.o, test.before, timeout, now)
			if s.Phase != test.phase || s.Reason != test.reason || !strings.Contains(s.Message, test.message) {
				t.Errorf("got %s %s %q, want %s %s %q", s.Phase, s.Reason, s.Message, test.phase, test.reason, test.message)
			}
			if fresh := s.Since.Time.Equal(now); fresh != test.fresh {
				t.Errorf("since %s, want now: %t", s.Since, test.fresh)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	status := func(name string, phase kubenestv1.AppPhase) kubenestv1.ComponentStatus {
		return kubenestv1.ComponentStatus{Name: name, Phase: phase, Reason: string(phase) + "Reason", Message: "m"}
	}
	for name, test := range map[string]struct {
		components []kubenestv1.ComponentStatus
		paused     bool
		want       string
		conditions string
	}{
		"all run":       {[]kubenestv1.ComponentStatus{status("a", "Running")}, false, "Running ", "Ready=True"},
		"the worst":     {[]kubenestv1.ComponentStatus{status("a", "Pending"), status("b", "Failed"), status("c", "Degraded")}, false, "Failed b: m", "Ready=False Stalled=True"},
		"on its way":    {[]kubenestv1.ComponentStatus{status("a", "Running"), status("b", "Pending")}, false, "Pending b: m", "Ready=False Reconciling=True"},
		"paused":        {[]kubenestv1.ComponentStatus{status("a", "Paused")}, true, "Paused what runs is left as it is", "Ready=False"},
		"no components": {nil, false, "Running ", "Ready=True"},
	} {
		t.Run(name, func(t *testing.T) {
			s := summarize(test.components, test.paused)
			if got := string(s.phase) + " " + s.message; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			var status kubenestv1.StackDeployStatus
			setConditions(&status, nil, s, time.Now())
			var got []string
			for _, c := range status.Conditions {
				got = append(got, c.Type+"="+string(c.Status))
			}
			if strings.Join(got, " ") != test.conditions {
				t.Errorf("conditions %v, want %s", got, test.conditions)
			}
		})
	}
}

func TestConditionReason(t *testing.T) {
	for in, want := range map[string]string{"OOMKilled": "OOMKilled", "Back-off pulling": "Backoffpulling", "": "Degraded", "404": "Degraded"} {
		if got := conditionReason(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
