// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/environment"
	"github.com/kubenest/kubenest/hack/process"
)

func hubs() []*process.Process {
	var all []*process.Process
	for _, r := range env.Hub().Replicas() {
		all = append(all, r.Process)
	}
	return all
}

// record reads a cluster's record now.
func record(ctx context.Context, c *environment.Workload) *kubenestv1.ManagedCluster {
	GinkgoHelper()
	r, err := c.Record(ctx)
	Expect(err).NotTo(HaveOccurred())
	return r
}

func sessionID(r *kubenestv1.ManagedCluster) string {
	if r.Status.Session == nil {
		return ""
	}
	return r.Status.Session.ID
}

// connected is a check, for Eventually, that a cluster is connected; with
// otherThan, by another session than that one.
func connected(c *environment.Workload, otherThan ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.Record(ctx)
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(r.Status.Conditions, kubenestv1.ConditionConnected)
		if condition == nil || condition.Status != metav1.ConditionTrue {
			return fmt.Errorf("%s is not connected: %+v", c.Name(), condition)
		}
		if slices.Contains(otherThan, sessionID(r)) {
			return fmt.Errorf("%s still has session %s", c.Name(), sessionID(r))
		}
		return nil
	}
}

// allConnected is connected for all clusters.
func allConnected(ctx context.Context) error {
	var errs []error
	for _, c := range env.Clusters() {
		errs = append(errs, connected(c)(ctx))
	}
	return errors.Join(errs...)
}

// disconnected is a check that a cluster is not connected, for one of reasons.
func disconnected(c *environment.Workload, reasons ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.Record(ctx)
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(r.Status.Conditions, kubenestv1.ConditionConnected)
		if condition == nil || condition.Status != metav1.ConditionFalse || !slices.Contains(reasons, condition.Reason) {
			return fmt.Errorf("%s is not disconnected for %v: %+v", c.Name(), reasons, condition)
		}
		return nil
	}
}

// events gives the notes of a record's Events of a reason.
func events(ctx context.Context, c *environment.Workload, reason string) []string {
	var list eventsv1.EventList
	if err := env.Client().List(ctx, &list, client.InNamespace(environment.Organization)); err != nil {
		return nil
	}
	var notes []string
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == reason && e.Regarding.Name == c.Name() {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// connectionSecret reads what the cluster's operator needs to connect.
func connectionSecret(ctx context.Context, c *environment.Workload) *corev1.Secret {
	GinkgoHelper()
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: environment.Organization, Name: c.SecretName()}
	Expect(env.Client().Get(ctx, key, &secret)).To(Succeed())
	return &secret
}

// logSince gives what a process logs from now on.
func logSince(p *process.Process) func() string {
	GinkgoHelper()
	_, from, err := p.Log(0)
	Expect(err).NotTo(HaveOccurred())
	return func() string {
		text, _, _ := p.Log(from)
		return text
	}
}

// history is what a watch tells of a record.
type history struct {
	mu       sync.Mutex
	statuses []metav1.ConditionStatus // of Connected, without repetitions
	epochs   []int64
	uids     map[string]bool
}

// watch follows a record until the spec ends, through any outage.
func watch(c *environment.Workload) *history {
	GinkgoHelper()
	h := &history{uids: map[string]bool{}}
	api := env.Client()
	ctx, cancel := context.WithCancel(suite)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var list kubenestv1.ManagedClusterList
			w, err := api.Watch(ctx, &list, client.InNamespace(environment.Organization), client.MatchingFields{"metadata.name": c.Name()})
			if err != nil {
				time.Sleep(200 * time.Millisecond) // the API server is away
				continue
			}
			for event := range w.ResultChan() {
				if r, ok := event.Object.(*kubenestv1.ManagedCluster); ok {
					h.add(r)
				}
			}
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
	Eventually(h.Statuses).Should(Equal([]metav1.ConditionStatus{metav1.ConditionTrue}))
	return h
}

func (h *history) add(r *kubenestv1.ManagedCluster) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uids[string(r.UID)+" "+r.Status.ClusterID] = true
	if s := r.Status.Session; s != nil {
		h.epochs = append(h.epochs, s.Epoch)
	}
	c := meta.FindStatusCondition(r.Status.Conditions, kubenestv1.ConditionConnected)
	if c != nil && (len(h.statuses) == 0 || h.statuses[len(h.statuses)-1] != c.Status) {
		h.statuses = append(h.statuses, c.Status)
	}
}

// Statuses are those that Connected had.
func (h *history) Statuses() []metav1.ConditionStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.statuses)
}

// expectSound checks what must hold through any disturbance: the record stays
// the same, its epoch never falls, and Connected changed at most once each way.
func (h *history) expectSound() {
	GinkgoHelper()
	h.mu.Lock()
	defer h.mu.Unlock()
	Expect(h.uids).To(HaveLen(1), "UID and cluster id")
	Expect(slices.IsSorted(h.epochs)).To(BeTrue(), "epochs %v", h.epochs)
	always := []metav1.ConditionStatus{metav1.ConditionTrue}
	once := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionTrue}
	Expect(h.statuses).To(BeElementOf(always, once))
}
