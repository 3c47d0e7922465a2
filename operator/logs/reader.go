// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

const (
	// A log that ended too early is opened again after reopenAfter, then after twice
	// that, up to reopenMax.
	reopenAfter = time.Second
	reopenMax   = 15 * time.Second
	// goneGrace is how long the log of a pod that is gone may go on.
	goneGrace = 5 * time.Second
)

// reader reads one container's log.
type reader struct {
	tail      *tail
	key       source
	uid       types.UID // of the pod, when it was seen first
	component string
	id        uint32

	// Owned by the reading goroutine.
	at      cursor
	lines   *int64 // PodLogOptions, for the first time
	seconds *int64
	done    string // the instance that was read to its end

	wake chan struct{} // state changed
	// Guarded by tail.mu.
	state instance
	gone  func() // stops reading soon; nil when the pod is not gone, or nothing is read
}

// instance of a container: each start makes another.
type instance struct {
	id      string // empty: none has started yet
	ending  string // how it ended, in words; empty while it runs
	forGood bool   // no other will come
	gone    bool   // with its pod
}

func componentOf(pod *corev1.Pod) string { return pod.Labels[kubenestv1.ComponentLabel] }

// instanceOf is what a pod's status says of a container.
func instanceOf(pod *corev1.Pod, container string) instance {
	forGood := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			if s.Name != container {
				continue
			}
			n, ended := instance{forGood: forGood}, s.State.Terminated
			if s.State.Waiting != nil {
				ended = s.LastTerminationState.Terminated // its log is what can be read
			}
			if ended != nil {
				n.ending = ending(ended)
			}
			if s.State.Running != nil || ended != nil {
				n.id = fmt.Sprintf("%s/%s/%d", pod.UID, s.ContainerID, s.RestartCount)
			}
			return n
		}
	}
	return instance{forGood: forGood}
}

func (r *reader) introduce() (err error) {
	r.id, err = r.tail.out.introduce(r.key.pod, r.key.container, r.component)
	return err
}

// copy sends what the log has after what was sent.
func (r *reader) copy(ctx context.Context, follow bool) (sent bool, err error) {
	o := &corev1.PodLogOptions{
		Container: r.key.container, Follow: follow, Previous: r.tail.request.Previous, Timestamps: true,
		TailLines: r.lines, SinceSeconds: r.seconds,
	}
	if !r.at.time.IsZero() {
		o.SinceTime = new(metav1.NewTime(r.at.time.Truncate(time.Second))) // it has no fractions; the sieve has
		o.SinceSeconds = nil
	}
	log, err := r.tail.pods.GetLogs(r.key.pod, o).Stream(ctx)
	if err != nil {
		return false, err
	}
	defer log.Close()
	sent, err = copyLines(log, &r.at, func(t *wire.LogText) error {
		t.Source = r.id
		if err := r.tail.out.text(t); err != nil {
			return &unsent{err}
		}
		return nil
	})
	if sent {
		r.lines, r.seconds = nil, nil
	}
	return sent, err
}

// unsent is an error of sending, not of reading.
type unsent struct{ error }

func (u *unsent) Unwrap() error { return u.error }

// follow reads until the container is gone or ended for good, or ctx ends. Its error
// is one of sending.
func (r *reader) follow(ctx context.Context) error {
	if err := r.introduce(); err != nil {
		return err
	}
	wait := reopenAfter
	for ctx.Err() == nil {
		before := r.now()
		switch {
		case before.gone:
			return r.tail.out.note(r.id, "The pod is gone.")
		case before.id == r.done && before.forGood: // or it never started
			return nil
		case before.id == "" || before.id == r.done:
			pause(ctx, reopenMax, r.wake)
			continue
		}
		sent, err := r.stream(ctx)
		if failed := sending(err); failed != nil || ctx.Err() != nil {
			return failed
		}
		after := r.now()
		if err == nil && after.id == before.id && after.ending != "" {
			r.done = after.id
			if err := r.tail.out.note(r.id, after.ending); err != nil {
				return err
			}
			continue
		}
		if sent {
			wait = reopenAfter
		}
		r.tail.log.V(1).Info("Log ended early, opening it again", "pod", r.key.pod, "container", r.key.container, "retryIn", wait.String(), "failed", err != nil)
		if after == before { // else what comes next is known already
			pause(ctx, wait, r.wake)
			wait = min(2*wait, reopenMax)
		}
	}
	return nil
}

// stream copies one instance's log as it grows.
func (r *reader) stream(ctx context.Context) (sent bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.tail.mu.Lock()
	r.gone = func() { time.AfterFunc(goneGrace, cancel) }
	r.tail.mu.Unlock()
	defer func() {
		r.tail.mu.Lock()
		defer r.tail.mu.Unlock()
		r.gone = nil
	}()
	return r.copy(ctx, true)
}

func (r *reader) now() instance {
	r.tail.mu.Lock()
	defer r.tail.mu.Unlock()
	return r.state
}

// becomeLocked takes a new state.
func (r *reader) becomeLocked(n instance) {
	if r.state == n {
		return
	}
	if r.state = n; n.gone && r.gone != nil {
		r.gone()
	}
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// ending says how a container ended.
func ending(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("The container ended: %s, exit code %d.", t.Reason, t.ExitCode)
	if t.Reason == "" {
		text = fmt.Sprintf("The container ended with exit code %d.", t.ExitCode)
	}
	if t.Signal != 0 {
		text = fmt.Sprintf("The container ended by signal %d.", t.Signal)
	}
	return text
}
