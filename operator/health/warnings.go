// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubenest/kubenest/api/wire"
)

const (
	// maxEvents that are read of a namespace at once. Events live for an hour.
	maxEvents = 500
	// maxWarnings that a component shows, and maxWarning is how long one may be, in
	// bytes.
	maxWarnings = 5
	maxWarning  = 512
)

// ListWarnings reads the Warning events of a namespace, at most 500. reader reads from
// the API server: events are too many to be cached.
func ListWarnings(ctx context.Context, reader client.Reader, namespace string) ([]corev1.Event, error) {
	var list corev1.EventList
	err := reader.List(ctx, &list, client.InNamespace(namespace), client.Limit(maxEvents),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("type", corev1.EventTypeWarning)})
	if err != nil {
		return nil, fmt.Errorf("list the events of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// Warnings of a component: the last distinct ones about its objects, the newest first.
func Warnings(o *Objects, events []corev1.Event) []string {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return seen(&b).Compare(seen(&a)) })
	var words []string
	for i := range events {
		e := &events[i]
		if !o.involves(&e.InvolvedObject) {
			continue
		}
		w := wire.Line(e.Reason+": "+e.Message, maxWarning)
		if !slices.Contains(words, w) {
			words = append(words, w)
		}
		if len(words) == maxWarnings {
			break
		}
	}
	return words
}

// CauseOf takes a cause from warnings where the objects themselves tell none: what the
// API server refuses of StatefulSets, DaemonSets and Jobs, volumes, probes.
func (h *Health) CauseOf(warnings []string) {
	if h.Ready || (h.Reason != "" && h.Reason != ReasonNotReady) || len(warnings) == 0 {
		return
	}
	reason, message, _ := strings.Cut(warnings[0], ": ")
	if reason == "FailedCreate" {
		reason, message = refusal(message)
	}
	h.Reason, h.Message = reason, message
}

// seen is when an event happened last.
func seen(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	times := []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time}
	return slices.MaxFunc(times, time.Time.Compare)
}

// involves reports whether an event is about one of the objects, or about what they
// have made: ReplicaSets are named after their Deployment, and volume claims are the
// pods'.
func (o *Objects) involves(ref *corev1.ObjectReference) bool {
	switch ref.Kind {
	case "Pod":
		return slices.ContainsFunc(o.Pods, func(p corev1.Pod) bool { return p.Name == ref.Name })
	case "Deployment", "HorizontalPodAutoscaler", "Service", "Ingress":
		return slices.ContainsFunc(o.Deployments, func(d appsv1.Deployment) bool { return d.Name == ref.Name })
	case "ReplicaSet":
		return slices.ContainsFunc(o.Deployments, func(d appsv1.Deployment) bool { return ofDeployment(ref.Name, d.Name) })
	case "StatefulSet":
		return slices.ContainsFunc(o.StatefulSets, func(s appsv1.StatefulSet) bool { return s.Name == ref.Name })
	case "DaemonSet":
		return slices.ContainsFunc(o.DaemonSets, func(d appsv1.DaemonSet) bool { return d.Name == ref.Name })
	case "Job":
		return slices.ContainsFunc(o.Jobs, func(j batchv1.Job) bool { return j.Name == ref.Name })
	case "PersistentVolumeClaim":
		return slices.ContainsFunc(o.Pods, func(p corev1.Pod) bool { return claims(&p, ref.Name) })
	}
	return false
}

// ofDeployment reports whether a ReplicaSet is named <deployment>-<hash>.
func ofDeployment(replicaSet, deployment string) bool {
	hash, found := strings.CutPrefix(replicaSet, deployment+"-")
	return found && hash != "" && !strings.Contains(hash, "-")
}

func claims(p *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// Text is the health's message, bounded.
func (h *Health) Text() string { return wire.Line(cmp.Or(h.Message, h.Reason), wire.MaxText) }
