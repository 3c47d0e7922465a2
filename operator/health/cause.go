// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// podCause is why pods are not ready: that of the newest pod that says something, for
// it has what is wanted now.
func podCause(pods []corev1.Pod) (reason, message string) {
	for _, look := range []func(*corev1.Pod) (string, string){failure, unready} {
		for _, p := range newest(pods) {
			if !p.DeletionTimestamp.IsZero() || isReady(&p) || p.Status.Phase == corev1.PodSucceeded {
				continue
			}
			if reason, message = look(&p); reason != "" {
				return reason, message
			}
		}
	}
	return "", ""
}

// failure is something that goes wrong in a pod.
func failure(p *corev1.Pod) (reason, message string) {
	if p.Status.Phase == corev1.PodFailed && p.Status.Reason != "" { // Evicted, for one
		return p.Status.Reason, fmt.Sprintf("pod %s: %s", p.Name, p.Status.Message)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return ReasonUnschedulable, fmt.Sprintf("pod %s finds no node: %s", p.Name, c.Message)
		}
	}
	for _, s := range append(append([]corev1.ContainerStatus{}, p.Status.InitContainerStatuses...), p.Status.ContainerStatuses...) {
		if reason, message = containerFailure(p, &s); reason != "" {
			return reason, message
		}
	}
	return "", ""
}

func containerFailure(p *corev1.Pod, s *corev1.ContainerStatus) (reason, message string) {
	where := fmt.Sprintf("container %s of pod %s", s.Name, p.Name)
	switch waiting := s.State.Waiting; {
	case waiting == nil:
	case waiting.Reason == "" || waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing":
	case waiting.Reason == "ImagePullBackOff" || waiting.Reason == "ErrImagePull":
		return "ImagePullBackOff", fmt.Sprintf("%s: image %s can not be pulled: %s", where, cmp.Or(s.Image, imageNamed(p, s.Name)), waiting.Message)
	case waiting.Reason == "CrashLoopBackOff" && s.LastTerminationState.Terminated != nil:
		reason, message = ended(where, p, s, s.LastTerminationState.Terminated)
		return cmp.Or(reason, waiting.Reason), fmt.Sprintf("%s (%d restarts)", cmp.Or(message, where+" ends again and again"), s.RestartCount)
	case waiting.Reason == "CreateContainerConfigError":
		return waiting.Reason, where + " lacks something that its environment names: " + waiting.Message
	default: // InvalidImageName, CreateContainerError, RunContainerError …
		return waiting.Reason, where + ": " + cmp.Or(waiting.Message, waiting.Reason)
	}
	if t := s.State.Terminated; t != nil {
		return ended(where, p, s, t)
	}
	if t := s.LastTerminationState.Terminated; t != nil && s.RestartCount > 0 { // it runs again, and is not ready
		return ended(where, p, s, t)
	}
	return "", ""
}

// ended says how a container did. One of success has no reason.
func ended(where string, p *corev1.Pod, s *corev1.ContainerStatus, t *corev1.ContainerStateTerminated) (reason, message string) {
	switch {
	case t.Reason == "OOMKilled":
		limit := ""
		for i := range p.Spec.Containers {
			c := &p.Spec.Containers[i]
			if m, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && c.Name == s.Name {
				limit = " of " + m.String()
			}
		}
		return "OOMKilled", fmt.Sprintf("%s used more memory than its limit%s, and was killed: raise resources.limits.memory", where, limit)
	case t.Signal != 0:
		message = fmt.Sprintf("%s ended by signal %d", where, t.Signal)
	case t.ExitCode == 0:
		return "", ""
	default:
		message = fmt.Sprintf("%s ended with exit code %d", where, t.ExitCode)
	}
	if t.Message != "" {
		message += ": " + strings.TrimSpace(t.Message)
	}
	reason = t.Reason
	if s.State.Waiting != nil {
		reason = s.State.Waiting.Reason
	}
	return cmp.Or(reason, "Error"), message
}

func imageNamed(p *corev1.Pod, container string) string {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == container {
			return p.Spec.Containers[i].Image
		}
	}
	return ""
}

// unready is a pod in which nothing goes wrong and that is not ready all the same.
func unready(p *corev1.Pod) (reason, message string) {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Running != nil && !s.Ready {
			return ReasonNotReady, fmt.Sprintf("container %s of pod %s runs and is not ready: its readiness or startup probe has not succeeded", s.Name, p.Name)
		}
	}
	return "", ""
}
