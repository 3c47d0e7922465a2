// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kubenest/kubenest/operator/health"
)

// deployment of n pods of which some are ready, all of them new.
func deployment(n, ready int32, mutate ...func(*appsv1.Deployment)) appsv1.Deployment {
	d := appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-web", Generation: 2},
		Spec:       appsv1.DeploymentSpec{Replicas: new(n)},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: n, UpdatedReplicas: n, ReadyReplicas: ready},
	}
	for _, m := range mutate {
		m(&d)
	}
	return d
}

func refused(message string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
		}}
	}
}

// pod in the state of its one container.
func pod(name string, age time.Duration, s corev1.ContainerStatus) corev1.Pod {
	s.Name = "web"
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "web:v1",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{s}},
	}
	if s.Ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func crashed(t corev1.ContainerStateTerminated) corev1.ContainerStatus {
	s := waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container")
	s.RestartCount = 7
	s.LastTerminationState.Terminated = &t
	return s
}

func unschedulable() corev1.Pod {
	p := pod("p", 0, corev1.ContainerStatus{})
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims",
	}}}
	return p
}

func running(ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func TestCauses(t *testing.T) {
	for name, test := range map[string]struct {
		deployment appsv1.Deployment
		pods       []corev1.Pod
		reason     string
		words      []string
	}{
		"image": {
			deployment(1, 0),
			[]corev1.Pod{pod("p", 0, waiting("ErrImagePull", "not found"))},
			"ImagePullBackOff",
			[]string{"web:v1", "not found", "pod p"},
		},
		"no image": {deployment(1, 0), []corev1.Pod{pod("p", 0, waiting("InvalidImageName", "bad"))}, "InvalidImageName", []string{"bad"}},
		"memory": {
			deployment(1, 0),
			[]corev1.Pod{pod("p", 0, crashed(corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}))},
			"OOMKilled",
			[]string{"64Mi", "resources.limits.memory", "7 restarts"},
		},
		"exit code": {
			deployment(1, 0),
			[]corev1.Pod{pod("p", 0, crashed(corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3, Message: "no DATABASE_URL\n"}))},
			"CrashLoopBackOff",
			[]string{"exit code 3: no DATABASE_URL (7 restarts)"},
		},
		"ends with success": {
			deployment(1, 0),
			[]corev1.Pod{pod("p", 0, crashed(corev1.ContainerStateTerminated{Reason: "Completed"}))},
			"CrashLoopBackOff",
			[]string{"again and again"},
		},
		"a Secret is missing": {
			deployment(1, 0),
			[]corev1.Pod{pod("p", 0, waiting("CreateContainerConfigError", `couldn't find key dsn in Secret shop/db`))},
			"CreateContainerConfigError",
			[]string{"key dsn"},
		},
		"quota": {
			deployment(1, 0, refused(`pods "x" is forbidden: exceeded quota: kubenest, requested: pods=1, used: pods=2, limited: pods=2`)), nil,
			health.ReasonExceededQuota,
			[]string{"limited: pods=2", "spec.quota"},
		},
		"pod security": {
			deployment(1, 0, refused(`pods "x" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes`)), nil,
			health.ReasonPodSecurity,
			[]string{"hostPath"},
		},
		"no node":   {deployment(1, 0), []corev1.Pod{unschedulable()}, health.ReasonUnschedulable, []string{"PersistentVolumeClaims"}},
		"not ready": {deployment(1, 0), []corev1.Pod{pod("p", 0, running(false))}, health.ReasonNotReady, []string{"probe"}},
		"the newest pod's": {
			deployment(2, 1),
			[]corev1.Pod{pod("old", time.Hour, waiting("ErrImagePull", "")), pod("new", 0, waiting("InvalidImageName", ""))},
			"InvalidImageName",
			nil,
		},
		"a failure before what is merely slow": {
			deployment(2, 0),
			[]corev1.Pod{pod("new", 0, running(false)), pod("old", time.Hour, waiting("ErrImagePull", ""))},
			"ImagePullBackOff",
			nil,
		},
		"still being created": {deployment(1, 0), []corev1.Pod{pod("p", 0, waiting("ContainerCreating", ""))}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := health.Of(&health.Objects{Deployments: []appsv1.Deployment{test.deployment}, Pods: test.pods})
			if h.Ready || h.Reason != test.reason {
				t.Errorf("got ready %t, %s %q; want %s", h.Ready, h.Reason, h.Message, test.reason)
			}
			for _, w := range test.words {
				if !strings.Contains(h.Text(), w) {
					t.Errorf("%q does not say %q", h.Text(), w)
				}
			}
		})
	}
}

func TestReadiness(t *testing.T) {
	set := func(ready int32, revision string) health.Objects {
		return health.Objects{StatefulSets: []appsv1.StatefulSet{{
			Spec:   appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)},
			Status: appsv1.StatefulSetStatus{ReadyReplicas: ready, CurrentRevision: "1", UpdateRevision: revision},
		}}}
	}
	job := func(c ...batchv1.JobCondition) health.Objects {
		return health.Objects{Jobs: []batchv1.Job{{Status: batchv1.JobStatus{Conditions: c}}}}
	}
	for name, test := range map[string]struct {
		objects        health.Objects
		ready, rolling bool
		pods           string
	}{
		"nothing":          {health.Objects{}, true, false, "0/0"},
		"all ready":        {health.Objects{Deployments: []appsv1.Deployment{deployment(2, 2)}}, true, false, "2/2"},
		"scaled to zero":   {health.Objects{Deployments: []appsv1.Deployment{deployment(0, 0)}}, true, false, "0/0"},
		"some ready":       {health.Objects{Deployments: []appsv1.Deployment{deployment(2, 1)}}, false, false, "1/2"},
		"not observed yet": {health.Objects{Deployments: []appsv1.Deployment{deployment(2, 2, func(d *appsv1.Deployment) { d.Generation++ })}}, false, true, "2/2"},
		"old pods remain": {
			health.Objects{Deployments: []appsv1.Deployment{deployment(2, 3, func(d *appsv1.Deployment) { d.Status.Replicas = 3 })}}, false, true, "2/2",
		},
		"a StatefulSet":          {set(2, "1"), true, false, "2/2"},
		"a StatefulSet's update": {set(2, "2"), false, true, "2/2"},
		"a DaemonSet": {
			health.Objects{DaemonSets: []appsv1.DaemonSet{{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 2}}}},
			false, false, "2/3",
		},
		"a Job at work":  {job(), false, true, "0/0"},
		"a Job complete": {job(batchv1.JobCondition{Type: batchv1.JobComplete, Status: "True"}), true, false, "0/0"},
		"a Job failed":   {job(batchv1.JobCondition{Type: batchv1.JobFailed, Status: "True", Reason: "BackoffLimitExceeded"}), false, false, "0/0"},
		"not there":      {health.Objects{Missing: []string{"Deployment shop/shop-web"}}, false, true, "0/0"},
	} {
		t.Run(name, func(t *testing.T) {
			h := health.Of(&test.objects)
			if h.Ready != test.ready || h.Rolling != test.rolling || fmt.Sprintf("%d/%d", h.ReadyReplicas, h.DesiredReplicas) != test.pods {
				t.Errorf("got %+v, want ready %t, rolling %t, %s", h, test.ready, test.rolling, test.pods)
			}
		})
	}
}

func TestImageIsWhatRuns(t *testing.T) {
	old := pod("old", time.Hour, running(true))
	old.Status.ContainerStatuses[0].Image = "docker.io/library/web:v0"
	fresh := pod("new", 0, waiting("ErrImagePull", ""))
	fresh.Status.Phase = corev1.PodPending
	objects := health.Objects{Deployments: []appsv1.Deployment{deployment(1, 0)}, Pods: []corev1.Pod{fresh, old}}
	if h := health.Of(&objects); h.Image != "docker.io/library/web:v0" {
		t.Errorf("image %q, want that of the pod that is ready", h.Image)
	}
	objects.Pods = []corev1.Pod{pod("p", 0, corev1.ContainerStatus{Ready: true, Image: "sha256:0123"})}
	if h := health.Of(&objects); h.Image != "web:v1" {
		t.Errorf("image %q, want one that people know", h.Image)
	}
}

func TestWarnings(t *testing.T) {
	event := func(kind, name, reason, message string, second int64) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Reason: reason, Message: message,
			LastTimestamp: metav1.NewTime(time.Unix(second, 0)),
		}
	}
	objects := &health.Objects{Deployments: []appsv1.Deployment{deployment(1, 0)}, Pods: []corev1.Pod{pod("p", 0, running(false))}}
	events := []corev1.Event{
		event("Pod", "p", "Unhealthy", "Readiness probe failed: 503", 3),
		event("Pod", "p", "Unhealthy", "Readiness probe failed: 503", 4),
		event("ReplicaSet", "shop-web-5d4f", "FailedCreate", "quota", 9),
		event("ReplicaSet", "shop-web-admin-5d4f", "FailedCreate", "another's", 10),
		event("Pod", "other", "BackOff", "another's", 11),
	}
	got := health.Warnings(objects, events)
	if strings.Join(got, "|") != "FailedCreate: quota|Unhealthy: Readiness probe failed: 503" {
		t.Errorf("got %q", got)
	}
	h := health.Of(objects)
	h.CauseOf(got[1:])
	if h.Reason != "Unhealthy" || !strings.Contains(h.Message, "503") {
		t.Errorf("got %s %q, want what the probe said", h.Reason, h.Message)
	}
	for n := range int64(9) {
		events = append(events, event("Pod", "p", "R", strings.Repeat("x", 600)+fmt.Sprint(n), n), event("Pod", "p", fmt.Sprint(n), "m", n))
	}
	got = health.Warnings(objects, events)
	if len(got) != 5 {
		t.Errorf("%d warnings, want 5", len(got))
	}
	for _, w := range got {
		if len(w) > 512 {
			t.Errorf("a warning of %d bytes", len(w))
		}
	}
}
