// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
)

const (
	component  = "kubenest-operator"
	maxNote    = 1024 // the API's limit on an Event's note, in bytes
	podTimeout = 5 * time.Second
)

// event is what a state says to people, made on transitions only.
type event struct{ kind, reason, note string }

// eventOf is the Event of a state; none while the agent is about to try again.
func eventOf(s *agent.State) (e event, ok bool) {
	switch {
	case s.Connected:
		return event{corev1.EventTypeNormal, "Connected", "Connected to the hub, replica " + s.Replica}, true
	case s.Refusal != nil:
		return event{corev1.EventTypeWarning, "Refused" + camel(s.Refusal.Class), wire.Shorten(s.Refusal.Message, maxNote)}, true
	case s.Failure != nil:
		return event{corev1.EventTypeWarning, "HubUnreachable", wire.Shorten(s.Failure.Error(), maxNote)}, true
	default:
		return event{}, false
	}
}

// camel makes a reason of a class, such as NotYetValid. Classes of a newer hub have
// none.
func camel(class wire.Class) string {
	var b strings.Builder
	for word := range strings.SplitSeq(string(class), "_") {
		for i, r := range word {
			if r < 'a' || r > 'z' {
				return ""
			}
			if i == 0 {
				r += 'A' - 'a'
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}

// recorder makes Events of states until ctx ends. They are about the operator's
// pod, or about its namespace if it has none.
func recorder(ctx context.Context, client kubernetes.Interface, o *ClusterOptions) (func(agent.State), error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, broadcaster.Shutdown)
	record := broadcaster.NewRecorder(scheme.Scheme, component)
	about := subject(ctx, client, o)
	return func(s agent.State) {
		if e, ok := eventOf(&s); ok && ctx.Err() == nil {
			record.Eventf(about, nil, e.kind, e.reason, "Connect", "%s", e.note)
		}
	}, nil
}

func subject(ctx context.Context, client kubernetes.Interface, o *ClusterOptions) *corev1.ObjectReference {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	pod, err := client.CoreV1().Pods(o.Namespace).Get(ctx, o.PodName, metav1.GetOptions{})
	if err != nil {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: o.Namespace, Namespace: o.Namespace}
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}
}
