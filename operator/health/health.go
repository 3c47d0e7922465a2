// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health tells from a component's objects how it is, and if it is not well,
// why, in words.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Reasons that Kubernetes has as parts of messages only, or not at all.
const (
	ReasonExceededQuota = "ExceededQuota"
	ReasonPodSecurity   = "PodSecurity"
	ReasonUnschedulable = "Unschedulable"
	ReasonNotReady      = "NotReady"
	ReasonMissing       = "Missing"
)

// Objects of a component, as they are on the cluster.
type Objects struct {
	Deployments  []appsv1.Deployment
	StatefulSets []appsv1.StatefulSet
	DaemonSets   []appsv1.DaemonSet
	Jobs         []batchv1.Job
	// Pods with the component's labels.
	Pods []corev1.Pod
	// Missing are wanted objects that are not there, as kubectl names them.
	Missing []string
}

// Health is how a component is.
type Health struct {
	// Ready: everything is there and ready, and nothing old runs beside it.
	Ready bool
	// Rolling: what is wanted is not all of what runs yet, and Kubernetes is at it.
	Rolling bool
	// Cause in one word, and in words, of what keeps it from being ready. Empty when
	// nothing is wrong that could be seen.
	Reason  string
	Message string
	// ReadyReplicas and DesiredReplicas count pods that are to run for good.
	ReadyReplicas   int32
	DesiredReplicas int32
	// Image that ready pods run, or others if there are none.
	Image string
}

// Of a component.
func Of(o *Objects) Health {
	h := Health{Ready: true}
	for i := range o.Deployments {
		h.addDeployment(&o.Deployments[i])
	}
	for i := range o.StatefulSets {
		h.addStatefulSet(&o.StatefulSets[i])
	}
	for i := range o.DaemonSets {
		h.addDaemonSet(&o.DaemonSets[i])
	}
	for i := range o.Jobs {
		h.addJob(&o.Jobs[i])
	}
	if len(o.Missing) > 0 {
		h.Ready, h.Rolling = false, true
		h.fail(ReasonMissing, "not there yet: "+strings.Join(o.Missing, ", "))
	}
	h.Image = image(o.Pods)
	if !h.Ready {
		if reason, message := podCause(o.Pods); reason != "" {
			h.Reason, h.Message = reason, message
		}
	}
	return h
}

// fail keeps the first cause.
func (h *Health) fail(reason, message string) {
	h.Ready = false
	if h.Reason == "" {
		h.Reason, h.Message = reason, message
	}
}

// count adds pods that are to run for good.
func (h *Health) count(ready, desired int32, rolling bool) {
	h.ReadyReplicas += ready
	h.DesiredReplicas += desired
	h.Rolling = h.Rolling || rolling
	if ready < desired || rolling {
		h.Ready = false
	}
}

func (h *Health) addDeployment(d *appsv1.Deployment) {
	desired := ptr.Deref(d.Spec.Replicas, 1)
	s := &d.Status
	ready := min(s.ReadyReplicas, desired) // old ones may run beside the new
	rolling := s.ObservedGeneration < d.Generation || s.Replicas > s.UpdatedReplicas
	h.count(ready, desired, rolling)
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			h.fail(refusal(c.Message))
		}
	}
}

func (h *Health) addStatefulSet(s *appsv1.StatefulSet) {
	desired := ptr.Deref(s.Spec.Replicas, 1)
	rolling := s.Status.ObservedGeneration < s.Generation ||
		(s.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType && s.Status.CurrentRevision != s.Status.UpdateRevision)
	h.count(min(s.Status.ReadyReplicas, desired), desired, rolling)
}

func (h *Health) addDaemonSet(d *appsv1.DaemonSet) {
	s := &d.Status
	rolling := s.ObservedGeneration < d.Generation ||
		(d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && s.UpdatedNumberScheduled < s.DesiredNumberScheduled)
	h.count(min(s.NumberReady, s.DesiredNumberScheduled), s.DesiredNumberScheduled, rolling)
}

func (h *Health) addJob(j *batchv1.Job) {
	for _, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete || c.Type == batchv1.JobSuspended:
			return
		case c.Type == batchv1.JobFailed:
			h.fail(cmp.Or(c.Reason, "JobFailed"), fmt.Sprintf("Job %s failed: %s", j.Name, c.Message))
			return
		}
	}
	h.Ready, h.Rolling = false, true
}

// refusal of a pod by the API server, as the workload controllers pass it on.
func refusal(message string) (reason, words string) {
	switch {
	case strings.Contains(message, "exceeded quota"):
		_, rest, _ := strings.Cut(message, "exceeded quota")
		return ReasonExceededQuota, "pods do not fit the Project's quota" + rest + ". Raise the Project's spec.quota, or ask for less"
	case strings.Contains(message, "violates PodSecurity"):
		_, rest, _ := strings.Cut(message, "violates PodSecurity")
		return ReasonPodSecurity, "pods are above the pod security level that the cluster's owner allows:" + rest
	}
	return "FailedCreate", "pods can not be created: " + message
}

// image of the newest pod that is ready; else of the newest that runs.
func image(pods []corev1.Pod) string {
	pods = newest(pods)
	for _, want := range []func(*corev1.Pod) bool{isReady, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }} {
		for i := range pods {
			p := &pods[i]
			if p.DeletionTimestamp.IsZero() && len(p.Spec.Containers) > 0 && want(p) {
				return imageOf(p)
			}
		}
	}
	return ""
}

// imageOf the first container: what the runtime says that it runs, if that is a
// reference that people know.
func imageOf(p *corev1.Pod) string {
	c := &p.Spec.Containers[0]
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == c.Name && s.Image != "" && !strings.HasPrefix(s.Image, "sha256:") {
			return s.Image
		}
	}
	return c.Image
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// newest first.
func newest(pods []corev1.Pod) []corev1.Pod {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return pods
}
