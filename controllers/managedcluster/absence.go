// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

const (
	// lostGrace is how long operators of a replica that died may take to connect
	// elsewhere before their clusters are called disconnected. It covers several
	// rounds of an operator's backoff.
	lostGrace = 30 * time.Second
	// lostForgotten is when a lost replica is forgotten. A record that still names
	// it then, which would be odd, gives it the grace once more.
	lostForgotten = 20 * time.Minute
	// lookEvery is how often the leader asks which replicas live.
	lookEvery = time.Second
)

// AbsenceReconciler speaks for clusters that no living replica holds: those
// whose operator has yet to connect, those it has left, and those whose replica
// is gone. It runs on the leader.
type AbsenceReconciler struct {
	Authority *Authority
	// Clock drives the look-out for lost replicas.
	Clock clock.WithTicker

	mu sync.Mutex
	// seen are the replicas that records name, with the time since when each is
	// known to be gone; zero while it lives.
	seen map[string]time.Time
}

// SetupWithManager adds the controller to the leader's manager.
func (r *AbsenceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.seen = map[string]time.Time{}
	err := builder.ControllerManagedBy(mgr).
		Named("cluster-absence").
		For(&kubenestv1.ManagedCluster{}).
		WatchesRawSource(source.Func(r.watchReplicas)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set cluster-absence up: %w", err)
	}
	return nil
}

// watchReplicas looks at the few replicas, not at the many clusters, and names
// the clusters of a replica when it is found gone.
func (r *AbsenceReconciler) watchReplicas(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		ticker := r.Clock.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
				r.lookForLost(ctx, queue)
			}
		}
	}()
	return nil
}

func (r *AbsenceReconciler) lookForLost(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for _, replica := range r.newlyLost() {
		var list kubenestv1.ManagedClusterList
		if err := r.Authority.Client.List(ctx, &list, client.MatchingFields{indexReplica: replica}); err != nil {
			log.FromContext(ctx).Error(err, "List clusters of a lost replica", "replica", replica)
			r.see(replica)
			continue
		}
		log.FromContext(ctx).Info("Replica is gone", "replica", replica, "clusters", len(list.Items))
		for i := range list.Items {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
}

// newlyLost marks replicas that were seen alive and are no longer.
func (r *AbsenceReconciler) newlyLost() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lost []string
	for replica, since := range r.seen {
		if !since.IsZero() {
			if r.Clock.Since(since) > lostForgotten {
				delete(r.seen, replica)
			}
			continue
		}
		if alive, _ := r.Authority.Replicas.Alive(replica); !alive {
			r.seen[replica] = r.Clock.Now()
			lost = append(lost, replica)
		}
	}
	return lost
}

// see takes note of a replica, and returns since when it is gone, if it is.
func (r *AbsenceReconciler) see(replica string) (lostSince time.Time) {
	alive, _ := r.Authority.Replicas.Alive(replica)
	r.mu.Lock()
	defer r.mu.Unlock()
	since, known := r.seen[replica]
	switch {
	case alive:
		since = time.Time{}
	case !known || since.IsZero():
		since = r.Clock.Now()
	}
	r.seen[replica] = since
	return since
}

// Reconcile brings the status of a cluster that nobody holds up to date.
func (r *AbsenceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var record kubenestv1.ManagedCluster
	if err := r.Authority.Client.Get(ctx, req.NamespacedName, &record); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if deleted(&record) || !takenUp(&record) {
		return ctrl.Result{}, nil
	}
	reason, message := present(&record)
	var lastHeard *metav1.MicroTime
	if s := record.Status.Session; s != nil {
		lastHeard = s.LastHeardAt
		if s.Replica != "" && !clusterIDTaken(&record) { // else the session is the older record's
			lost := r.see(s.Replica)
			if lost.IsZero() {
				return ctrl.Result{}, nil
			}
			if left := lostGrace - r.Clock.Since(lost); left > 0 {
				return ctrl.Result{RequeueAfter: left}, nil
			}
			reason, message = kubenestv1.ReasonReplicaLost,
				"The hub replica that held the session is gone and the operator has not connected to another; it tries by itself."
		}
	}
	if record.Spec.Abandoned {
		reason, message = kubenestv1.ReasonAbandoned, abandonedMessage
	}
	desired := record.Status.DeepCopy()
	setDisconnected(&record, desired, reason, message, lastHeard, metav1.NewTime(r.Authority.Clock.Now()).Rfc3339Copy())
	err := r.Authority.writer.write(ctx, &record, desired)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, err
}

// takenUp reports whether registration has had its say. It comes first: two
// controllers that wrote a new record at once would only meet conflicts.
func takenUp(record *kubenestv1.ManagedCluster) bool {
	return meta.FindStatusCondition(record.Status.Conditions, kubenestv1.ConditionRegistered) != nil
}

// present is why the cluster is not connected, as far as its record knows.
func present(record *kubenestv1.ManagedCluster) (reason, message string) {
	c := meta.FindStatusCondition(record.Status.Conditions, kubenestv1.ConditionConnected)
	if c != nil && c.Status == metav1.ConditionFalse && c.Reason != kubenestv1.ReasonNeverConnected && c.Reason != kubenestv1.ReasonAbandoned {
		return c.Reason, c.Message
	}
	if s := record.Status.Session; s != nil && s.Epoch > 0 {
		if c != nil && c.Reason == kubenestv1.ReasonAbandoned {
			return kubenestv1.ReasonTokenRevoked, fmt.Sprintf(
				"The operator's token was revoked when the cluster was given up. Install the operator again with the values.yaml in Secret %s.",
				record.ConnectionSecretName())
		}
		return kubenestv1.ReasonSessionClosed, "The operator is not connected; it connects again by itself."
	}
	return kubenestv1.ReasonNeverConnected, neverConnected(record)
}

// neverConnected says what to do next: for a cluster of the user's own, to
// install the operator.
func neverConnected(record *kubenestv1.ManagedCluster) string {
	if record.Spec.Provision != nil {
		return "The operator has not connected yet."
	}
	return fmt.Sprintf("Waiting for the operator: install it on the cluster with the values.yaml in Secret %s.", record.ConnectionSecretName())
}
