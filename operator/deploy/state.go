// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/health"
	"github.com/kubenest/kubenest/operator/stack"
)

// observation is what a pass has found out about a component.
type observation struct {
	// begun: something of it was there before the pass, or has been applied in it.
	begun bool
	// unknown: something failed that is tried again. Nothing is known anew.
	unknown bool
	// unapplied is what failed, when what is wanted is of a generation that was not
	// looked at before: what is known is about something else then.
	unapplied string
	// paused: nothing was done.
	paused bool
	// problem is why it could not be begun or brought up to date.
	problem *stack.Problem
	// changed: something else is wanted since this pass.
	changed bool
	// working: what is wanted is on its way, and health is not about it yet.
	working bool
	// installing: Helm is at it, and nothing was ready before, so that health is about
	// what is being installed.
	installing bool
	// health of what is there; nil when it was not looked at.
	health *health.Health
	// enough pods for an autoscaled workload; nil for others.
	enough *int32
	// image to show instead of that of the pods.
	image           string
	exports         []string
	exportsRevision string
	warnings        []string
}

// componentStatus derives a component's status from what was found out and what was so
// before. since moves with the phase, and when something else is wanted: the timeout
// counts from it.
func componentStatus(c *kubenestv1.Component, o *observation, before *kubenestv1.ComponentStatus, timeout time.Duration, now time.Time) kubenestv1.ComponentStatus {
	if before == nil {
		before = &kubenestv1.ComponentStatus{}
	}
	if o.unknown && before.Phase != "" {
		return asKnown(o, before, timeout, now)
	}
	s := kubenestv1.ComponentStatus{Name: c.Name, Type: c.Type, Image: o.image, Exports: o.exports, ExportsRevision: o.exportsRevision, Warnings: o.warnings}
	if h := o.health; h != nil {
		s.ReadyReplicas, s.DesiredReplicas = new(h.ReadyReplicas), new(h.DesiredReplicas)
		s.Image = cmp.Or(s.Image, h.Image)
	}
	s.Since = before.Since
	if (o.changed && before.Phase == kubenestv1.AppDeploying) || s.Since == nil {
		s.Since = new(metav1.NewTime(now))
	}
	s.Phase, s.Reason, s.Message = o.phase(before, now.Sub(s.Since.Time), timeout)
	if s.Phase != before.Phase {
		s.Since = new(metav1.NewTime(now))
	}
	s.Reason = wire.Line(s.Reason, 256)
	s.Message = wire.Line(s.Message, wire.MaxText)
	s.Image = wire.Line(s.Image, 512)
	return s
}

// asKnown is the status of a component of which nothing is known anew. It does not say
// of a change that it runs when it could not even be applied.
func asKnown(o *observation, before *kubenestv1.ComponentStatus, timeout time.Duration, now time.Time) kubenestv1.ComponentStatus {
	s := *before.DeepCopy()
	switch {
	case o.unapplied != "":
		s.Phase, s.Reason = kubenestv1.AppDeploying, kubenestv1.ReasonDeploying
		s.Message = wire.Line("this change could not be applied yet, and is tried again: "+o.unapplied, wire.MaxText)
		s.Since = new(metav1.NewTime(now))
	case s.Phase == kubenestv1.AppDeploying && s.Since != nil && now.Sub(s.Since.Time) >= timeout:
		s.Phase, s.Reason = kubenestv1.AppFailed, kubenestv1.ReasonTimeout
		s.Message = wire.Line(fmt.Sprintf("not ready within %s (spec.timeout), and tried on: %s", timeout, before.Message), wire.MaxText)
		s.Since = new(metav1.NewTime(now))
	}
	return s
}

// phase of a component that has been in its last one for age.
func (o *observation) phase(before *kubenestv1.ComponentStatus, age, timeout time.Duration) (phase kubenestv1.AppPhase, reason, message string) {
	switch {
	case o.problem != nil && !o.problem.Waiting:
		return kubenestv1.AppFailed, o.problem.Reason, o.problem.Message
	case !o.begun && o.problem != nil:
		return kubenestv1.AppPending, o.problem.Reason, o.problem.Message
	case !o.begun && o.paused:
		return kubenestv1.AppPending, kubenestv1.ReasonPaused, "the App is paused: it is begun when spec.paused is taken away"
	case o.paused:
		return kubenestv1.AppPaused, kubenestv1.ReasonPaused, o.words("the App is paused: what runs is left as it is")
	case o.health == nil:
		return kubenestv1.AppPending, kubenestv1.ReasonDeploying, "it is about to be begun"
	case o.ready(before):
		return kubenestv1.AppRunning, kubenestv1.ReasonRunning, ""
	}
	reason, message = o.cause()
	fallen := before.Phase == kubenestv1.AppRunning || before.Phase == kubenestv1.AppDegraded
	switch onItsWay := o.changed || o.working || o.health.Rolling || o.problem != nil; {
	case fallen && !onItsWay:
		return kubenestv1.AppDegraded, cmp.Or(reason, kubenestv1.ReasonDegraded), cmp.Or(message, o.count())
	case o.changed:
	case before.Phase == kubenestv1.AppFailed && before.Reason == kubenestv1.ReasonTimeout,
		before.Phase == kubenestv1.AppDeploying && age >= timeout:
		return kubenestv1.AppFailed, kubenestv1.ReasonTimeout, fmt.Sprintf(
			"not ready within %s (spec.timeout), and tried on: %s", timeout, joinCause(reason, cmp.Or(message, o.count())))
	}
	return kubenestv1.AppDeploying, cmp.Or(reason, kubenestv1.ReasonDeploying), cmp.Or(message, o.count())
}

// ready reports whether the component runs as it is wanted. Pods that an autoscaler has
// just added do not make a running one worse.
func (o *observation) ready(before *kubenestv1.ComponentStatus) bool {
	switch {
	case o.changed || o.working || o.problem != nil:
		return false
	case o.health.Ready:
		return true
	}
	return o.enough != nil && before.Phase == kubenestv1.AppRunning && !o.health.Rolling &&
		o.health.ReadyReplicas >= *o.enough && (o.health.Reason == "" || o.health.Reason == health.ReasonNotReady)
}

// cause of not being ready, if there is one to be seen.
func (o *observation) cause() (reason, message string) {
	if o.problem != nil {
		return o.problem.Reason, o.problem.Message
	}
	if (o.changed || o.working) && !o.installing { // health is about what was before
		return "", ""
	}
	return o.health.Reason, o.health.Text()
}

// count says how many pods are ready.
func (o *observation) count() string {
	if o.changed || o.working || o.health.DesiredReplicas == 0 {
		return "on its way"
	}
	return fmt.Sprintf("%d of %d pods are ready", o.health.ReadyReplicas, o.health.DesiredReplicas)
}

// words with what is wrong besides.
func (o *observation) words(message string) string {
	if o.health == nil || o.health.Ready || o.health.Text() == "" {
		return message
	}
	return message + ". " + o.health.Text()
}

func joinCause(reason, message string) string {
	if reason == "" || strings.Contains(message, reason) {
		return message
	}
	return reason + ": " + message
}

// summary of all components.
type summary struct {
	phase   kubenestv1.AppPhase
	reason  string
	message string
}

// summarize takes the phase that most needs to be known, and the words of the first
// component that has it.
func summarize(components []kubenestv1.ComponentStatus, paused bool) summary {
	rank := []kubenestv1.AppPhase{
		kubenestv1.AppFailed, kubenestv1.AppDegraded, kubenestv1.AppDeploying, kubenestv1.AppPending,
	}
	for _, phase := range rank {
		for i := range components {
			c := &components[i]
			if c.Phase != phase {
				continue
			}
			s := summary{phase: phase, reason: c.Reason, message: c.Name + ": " + cmp.Or(c.Message, c.Reason)}
			if paused {
				s.phase, s.reason = kubenestv1.AppPaused, kubenestv1.ReasonPaused
			}
			return s
		}
	}
	if paused {
		return summary{phase: kubenestv1.AppPaused, reason: kubenestv1.ReasonPaused, message: "what runs is left as it is"}
	}
	return summary{phase: kubenestv1.AppRunning, reason: kubenestv1.ReasonRunning}
}

// setConditions derives Ready, Reconciling and Stalled. The transition time moves only
// when a condition's status does.
func setConditions(status *kubenestv1.StackDeployStatus, before []metav1.Condition, s summary, now time.Time) {
	s.reason = conditionReason(s.reason)
	ready := metav1.Condition{Type: kubenestv1.ConditionReady, Status: metav1.ConditionFalse, Reason: s.reason, Message: s.message}
	var second string
	switch s.phase {
	case kubenestv1.AppRunning:
		ready.Status = metav1.ConditionTrue
	case kubenestv1.AppFailed:
		second = kubenestv1.ConditionStalled
	case kubenestv1.AppPending, kubenestv1.AppDeploying, kubenestv1.AppDegraded:
		second = kubenestv1.ConditionReconciling
	default: // Paused is what was asked for
	}
	status.Conditions = nil
	for _, c := range []metav1.Condition{ready, {Type: second, Status: metav1.ConditionTrue, Reason: s.reason, Message: s.message}} {
		if c.Type == "" {
			continue
		}
		c.ObservedGeneration = status.ObservedGeneration
		c.LastTransitionTime = metav1.NewTime(now)
		for i := range before {
			if before[i].Type == c.Type && before[i].Status == c.Status {
				c.LastTransitionTime = before[i].LastTransitionTime
			}
		}
		status.Conditions = append(status.Conditions, c)
	}
}

// conditionReason fits what others call a reason to what a condition takes.
func conditionReason(reason string) string {
	fit := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, reason)
	if fit == "" || (fit[0] >= '0' && fit[0] <= '9') {
		return kubenestv1.ReasonDegraded
	}
	return fit
}
