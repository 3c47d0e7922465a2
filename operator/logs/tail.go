// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kubenest/kubenest/api/wire"
)

// source names a container.
type source struct{ pod, container string }

// tail serves one request.
type tail struct {
	// Static.
	pods    corev1client.PodInterface
	request wire.LogRequest
	log     logr.Logger
	first   *corev1.PodList
	out     *output

	mu      sync.Mutex
	resume  map[source]cursor
	readers map[source]*reader // of followed containers
	// finished are the UIDs of the pods whose containers were read for good.
	finished map[source]types.UID
	crowded  bool // it was said that some are left out
	stop     context.CancelCauseFunc
	running  sync.WaitGroup
}

func newTail(pods corev1client.PodInterface, request wire.LogRequest, log logr.Logger) *tail {
	t := &tail{pods: pods, request: request, log: log, resume: map[source]cursor{}, readers: map[source]*reader{}, finished: map[source]types.UID{}}
	for _, p := range request.Resume {
		t.resume[source{p.Pod, p.Container}] = cursor{time: p.Time, lines: p.Lines}
	}
	return t
}

// what the request is about, for people.
func (t *tail) what() string {
	if t.request.Component == "" {
		return "App " + t.request.App
	}
	return fmt.Sprintf("component %s of App %s", t.request.Component, t.request.App)
}

// list the pods, oldest first.
func (t *tail) list(ctx context.Context) (*corev1.PodList, error) {
	o := selector(&t.request)
	o.Limit = maxPods
	list, err := t.pods.List(ctx, o)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// containers of a pod that were asked for.
func (t *tail) containers(pod *corev1.Pod) []string {
	return slices.DeleteFunc(containerNames(pod), func(name string) bool {
		return t.request.Container != "" && t.request.Container != name
	})
}

func (t *tail) run(ctx context.Context) wire.StreamEnd {
	if t.request.Follow {
		return t.follow(ctx)
	}
	return t.readAll(ctx)
}

// readAll sends what there is, one container after the other.
func (t *tail) readAll(ctx context.Context) wire.StreamEnd {
	var failed error
	sources, read := 0, 0
	for i := range t.first.Items {
		pod := &t.first.Items[i]
		for _, container := range t.containers(pod) {
			if sources++; sources > wire.MaxLogSources {
				return wire.StreamEnd{Reason: wire.ReasonLimit, Message: fmt.Sprintf(
					"More than %d containers have logs; the rest is left out: name a component, a pod or a container.", wire.MaxLogSources)}
			}
			r := t.newReader(pod, container, true)
			err := r.introduce()
			if err == nil {
				_, err = r.copy(ctx, false)
			}
			switch {
			case err == nil:
				read++
			case ctx.Err() != nil || errors.Is(err, errLimit):
				return endOfStream(err)
			default:
				failed = err
				if err := t.out.note(r.id, "The log could not be read: "+words(err)); err != nil {
					return endOfStream(err)
				}
			}
		}
	}
	if read == 0 && failed != nil {
		return wire.StreamEnd{Reason: wire.ReasonFailed, Message: "No log could be read: " + words(failed)}
	}
	return wire.StreamEnd{Reason: wire.ReasonComplete, Message: "These are all logs that there are now."}
}

// endOfStream says why nothing more is sent.
func endOfStream(err error) wire.StreamEnd {
	end, ok := errors.AsType[*ended](err)
	switch {
	case ok:
		return end.StreamEnd
	case errors.Is(err, errLimit):
		return wire.StreamEnd{Reason: wire.ReasonLimit, Message: "As much was sent as was asked for."}
	case errors.Is(err, context.Canceled): // nobody reads this any more
		return wire.StreamEnd{Reason: wire.ReasonStopping, Message: "The operator or its session stops."}
	}
	return wire.StreamEnd{Reason: wire.ReasonFailed, Message: err.Error()}
}

// ended is why a stream is over, as an error.
type ended struct{ wire.StreamEnd }

func (e *ended) Error() string { return e.Message }

// newReader reads one container's log. first: the container was there when the
// stream began, and its past is cut as the request says.
func (t *tail) newReader(pod *corev1.Pod, container string, first bool) *reader {
	key := source{pod.Name, container}
	r := &reader{tail: t, key: key, uid: pod.UID, component: componentOf(pod), wake: make(chan struct{}, 1)}
	t.mu.Lock()
	at, resumed := t.resume[key]
	delete(t.resume, key)
	t.mu.Unlock()
	switch {
	case resumed:
		r.at = at
	case first:
		r.lines, r.seconds = t.request.TailLines, t.request.SinceSeconds
		if t.request.SinceTime != nil {
			r.at.time = *t.request.SinceTime
		}
	}
	return r
}

// pause waits.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}
