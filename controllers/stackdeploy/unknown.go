// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
)

const (
	// unknownAfter is how long after an inventory unknown work is told of: what was
	// made just now is not in the cache yet.
	unknownAfter = 5 * time.Second
	// unknownNames is how many are named.
	unknownNames = 10
	// unknownClusters is for how many clusters it is remembered what was told.
	unknownClusters = 4096
)

// unknownReconciler tells of work that clusters have and this hub has no record of,
// once for each set of it. It is left alone: the hub's database may be older than
// the work. Its key is a cluster id.
type unknownReconciler struct {
	Client  client.Reader
	Mailbox *Mailbox
	Events  events.EventRecorder

	told *lru.Cache // digest of the names, by cluster id
}

func (r *unknownReconciler) setUp(mgr ctrl.Manager) error {
	r.told = lru.New(unknownClusters)
	everywhere := false
	err := builder.TypedControllerManagedBy[string](mgr).
		Named("stack-inventory").
		WatchesRawSource(source.TypedFunc[string](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[string]) error {
			r.Mailbox.startClusters(later{queue})
			return nil
		})).
		WithOptions(controller.TypedOptions[string]{NeedLeaderElection: &everywhere}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set stack-inventory up: %w", err)
	}
	return nil
}

// later adds keys when caches have had time to settle.
type later struct {
	queue workqueue.TypedRateLimitingInterface[string]
}

// Add adds a key after unknownAfter.
func (l later) Add(key string) { l.queue.AddAfter(key, unknownAfter) }

// Reconcile tells of a cluster's unknown work.
func (r *unknownReconciler) Reconcile(ctx context.Context, clusterID string) (ctrl.Result, error) {
	names := r.Mailbox.unknownOf(clusterID)
	if len(names) == 0 {
		r.told.Remove(clusterID)
		return ctrl.Result{}, nil
	}
	all := wire.Digest([]byte(strings.Join(names, ",")))
	if last, ok := r.told.Get(clusterID); ok && last == all {
		return ctrl.Result{}, nil
	}
	record, err := clusters.ByID(ctx, r.Client, clusterID)
	if err != nil || record == nil {
		return ctrl.Result{}, err
	}
	r.told.Add(clusterID, all)
	shown := strings.Join(names[:min(len(names), unknownNames)], ", ")
	if more := len(names) - unknownNames; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	log.FromContext(ctx).Info("Cluster has work that the hub does not know", "cluster", clusterID, "stackDeploys", len(names))
	r.Events.Eventf(record, nil, corev1.EventTypeWarning, kubenestv1.EventUnknownWork, "Compare", "%s", note(fmt.Sprintf(
		"The cluster runs what this hub has no record of, and it is left alone: %s. If it is to go, set spec.removed=true on its StackDeploy in the operator's namespace there.",
		shown)))
	return ctrl.Result{}, nil
}

// note fits a message into an Event.
func note(message string) string { return wire.Shorten(message, wire.MaxText) }
