// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kubenest/kubenest/api/wire"
)

// sending is the error of sending in an error, nil if there is none.
func sending(err error) error {
	if failed, ok := errors.AsType[*unsent](err); ok {
		return failed.error
	}
	return nil
}

// follow sends what there is and what is written, until it is told to stop or what
// it follows is gone.
func (t *tail) follow(ctx context.Context) wire.StreamEnd {
	ctx, t.stop = context.WithCancelCause(ctx)
	defer t.running.Wait()
	defer t.stop(nil)
	list, wait, first := t.first, reopenAfter, true
	for ctx.Err() == nil {
		if list != nil {
			t.replace(ctx, list, first)
			first = false
			began := time.Now()
			if err := t.watch(ctx, list.ResourceVersion); err != nil && ctx.Err() == nil {
				t.log.V(1).Info("Watch of pods broke, listing them again", "namespace", t.request.Namespace, "reason", err.Error())
			}
			if time.Since(began) > reopenMax {
				wait = reopenAfter
			}
		}
		pause(ctx, wait, nil)
		wait = min(2*wait, reopenMax)
		var err error
		if list, err = t.list(ctx); err != nil {
			list = nil // what could not be read says nothing of what is there
		}
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			return wire.StreamEnd{Reason: wire.ReasonFailed, Message: "The pods can not be read any more: " + words(err)}
		}
	}
	return endOfStream(context.Cause(ctx))
}

// watch follows the pods until the watch ends.
func (t *tail) watch(ctx context.Context, version string) error {
	o := selector(&t.request)
	o.ResourceVersion, o.AllowWatchBookmarks = version, true
	pods, err := t.pods.Watch(ctx, o)
	if err != nil {
		return err
	}
	defer pods.Stop()
	for event := range pods.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		switch event.Type {
		case watch.Added, watch.Modified:
			t.observe(ctx, pod, false)
		case watch.Deleted:
			t.mu.Lock()
			t.forgetLocked(pod.Name)
			t.mu.Unlock()
		default: // a bookmark says nothing of a pod
		}
	}
	return nil
}

// replace takes a list of all pods that there are.
func (t *tail) replace(ctx context.Context, list *corev1.PodList, first bool) {
	there := map[string]bool{}
	for i := range list.Items {
		there[list.Items[i].Name] = true
		t.observe(ctx, &list.Items[i], first)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.readers {
		if !there[key.pod] {
			t.forgetLocked(key.pod)
		}
	}
	maps.DeleteFunc(t.finished, func(key source, _ types.UID) bool { return !there[key.pod] })
}

// observe has the containers of a pod read, and tells their readers how they are.
func (t *tail) observe(ctx context.Context, pod *corev1.Pod, first bool) {
	for _, container := range t.containers(pod) {
		key, state := source{pod.Name, container}, instanceOf(pod, container)
		t.mu.Lock()
		r, known := t.readers[key]
		if known {
			r.becomeLocked(state)
		}
		finished := t.finished[key] == pod.UID
		full := len(t.readers) >= wire.MaxLogSources
		say := full && !known && !finished && !t.crowded
		t.crowded = t.crowded || say
		t.mu.Unlock()
		switch {
		case known, finished:
		case say:
			t.crowd()
		case !full:
			r := t.newReader(pod, container, first)
			r.state = state
			t.start(ctx, r)
		}
	}
}

func (t *tail) crowd() {
	// If it can't be said, the stream has ended.
	_ = t.out.note(0, fmt.Sprintf("Only %d containers are followed at once; others are left out: name a component, a pod or a container.", wire.MaxLogSources))
}

func (t *tail) start(ctx context.Context, r *reader) {
	t.mu.Lock()
	t.readers[r.key] = r
	t.mu.Unlock()
	t.running.Go(func() {
		err := r.follow(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.readers, r.key)
		if !r.state.gone {
			t.finished[r.key] = r.uid
		}
		switch {
		case err != nil:
			t.stop(err)
		case t.request.Pod == "" || len(t.readers) > 0 || ctx.Err() != nil:
		case r.state.gone:
			t.stop(&ended{wire.StreamEnd{Reason: wire.ReasonGone, Message: "Pod " + r.key.pod + " is gone."}})
		default:
			t.stop(&ended{wire.StreamEnd{Reason: wire.ReasonComplete, Message: "The containers of pod " + r.key.pod + " ended."}})
		}
	})
}

// forgetLocked tells the readers of a pod that it is gone.
func (t *tail) forgetLocked(pod string) {
	maps.DeleteFunc(t.finished, func(key source, _ types.UID) bool { return key.pod == pod })
	for key, r := range t.readers {
		if key.pod == pod {
			state := r.state
			state.gone = true
			r.becomeLocked(state)
		}
	}
}
