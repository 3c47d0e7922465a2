// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// goodView is the longest time between two of our own renewals that still
// counts as a good view: an attempt may take as long as the wait before it.
const goodView = 2 * RenewEvery

// pastHolders bounds what is remembered of a Lease's earlier holders.
const pastHolders = 32

// Watcher tells which replicas live. The package's doc says when one is dead.
type Watcher struct {
	client    client.WithWatch
	namespace string
	self      ID
	log       logr.Logger
	clock     clock.PassiveClock
	informer  cache.Controller

	mu       sync.Mutex
	leases   map[string]*observed // by the Lease's name
	unknown  map[string]int       // replica without a Lease → renewals when first asked about
	good     time.Duration        // time with a good view, in all
	renewals int                  // of our own Lease, as seen
	lastOwn  time.Time            // when the last one was seen
}

// observed is what was seen of one Lease.
type observed struct {
	lease *coordinationv1.Lease
	past  []string
	// heard is the good time at the last renewal, and patience how much more of
	// it may pass until the next.
	heard, patience time.Duration
}

// NewWatcher makes a Watcher for the replica self, whose Keeper must be running
// too: its renewals are the proof that others' would be seen.
func NewWatcher(c client.WithWatch, namespace string, self ID, log logr.Logger) *Watcher {
	w := &Watcher{
		client: c, namespace: namespace, self: self, log: log, clock: clock.RealClock{},
		leases: map[string]*observed{}, unknown: map[string]int{},
	}
	_, w.informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				var list coordinationv1.LeaseList
				err := c.List(ctx, &list, w.ours(&o))
				return &list, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, &coordinationv1.LeaseList{}, w.ours(&o))
			},
		}, c),
		ObjectType: &coordinationv1.Lease{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.observe(o.(*coordinationv1.Lease)) },
			UpdateFunc: func(_, o any) { w.observe(o.(*coordinationv1.Lease)) },
			DeleteFunc: func(o any) { w.forget(o) },
		},
	})
	return w
}

// ours narrows a request to the Leases of hub replicas.
func (w *Watcher) ours(raw *metav1.ListOptions) *client.ListOptions {
	return &client.ListOptions{
		Namespace: w.namespace, LabelSelector: labels.SelectorFromSet(labels.Set{Label: "true"}), Raw: raw,
	}
}

// Run watches until ctx ends, and returns nil then.
func (w *Watcher) Run(ctx context.Context) error {
	w.informer.RunWithContext(ctx)
	return nil
}

// Alive reports whether a replica, as ID.String writes it, lives. checkAgain is
// when that may change at the earliest; zero if it never will.
func (w *Watcher) Alive(replica string) (alive bool, checkAgain time.Duration) {
	id, err := Parse(replica)
	switch {
	case err != nil:
		return false, 0 // nobody
	case id == w.self:
		return true, 0
	case id.Name == w.self.Name:
		return false, 0 // we replaced it
	case !w.informer.HasSynced():
		return true, RenewEvery
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.leases[leaseName(id.Name)]
	switch {
	case o == nil, !slices.Contains(o.past, replica) && holderOf(o.lease) != replica:
		return w.stranger(replica)
	case holderOf(o.lease) != replica:
		return false, 0
	}
	left := o.patience - (w.good - o.heard)
	return left > 0, max(left, 0)
}

// stranger judges a replica that was never seen as a holder: a dead one that
// nobody remembers, or one that is so new that the news of its Lease is behind
// the news of its sessions. Two more renewals of our own, seen through the same
// watch, prove that no such news is under way.
func (w *Watcher) stranger(replica string) (alive bool, checkAgain time.Duration) {
	asked, known := w.unknown[replica]
	if !known {
		asked = w.renewals
		w.unknown[replica] = asked
	}
	if w.renewals >= asked+2 {
		return false, 0
	}
	return true, RenewEvery
}

// observe takes note of a Lease that was added or changed.
func (w *Watcher) observe(lease *coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, known := w.leases[lease.Name]
	if !known {
		o = &observed{lease: &coordinationv1.Lease{}}
		w.leases[lease.Name] = o
	}
	before := o.lease
	o.lease = lease
	holder := holderOf(lease)
	if former := holderOf(before); former != "" && former != holder {
		w.log.Info("Replica is no longer there", "replica", former, "successor", holder)
		o.past = append(o.past, former)
		o.past = o.past[max(0, len(o.past)-pastHolders):]
	}
	if known && holder == holderOf(before) && lease.Spec.RenewTime.Equal(before.Spec.RenewTime) {
		return // an edit, not a renewal
	}
	delete(w.unknown, holder)
	now := w.clock.Now()
	if holder == w.self.String() {
		w.observeSelf(now)
	}
	o.heard, o.patience = w.good, durationOf(lease)
	if since := now.Sub(w.lastOwn); !w.lastOwn.IsZero() && since < goodView {
		o.heard += since // counted in advance; an outage gives everybody new patience
	}
}

// observeSelf counts the time since our last renewal, if it was a good time, and
// else gives everybody who was alive before the outage time to be heard again.
func (w *Watcher) observeSelf(now time.Time) {
	since := now.Sub(w.lastOwn)
	switch {
	case w.lastOwn.IsZero():
	case since <= goodView:
		w.good += since
	default:
		w.log.Info("Leases could not be watched for a while: replicas have time to be heard of again",
			"outage", since.String(), "time", RenewalDeadline.String())
		for _, o := range w.leases {
			if w.good-o.heard < o.patience {
				o.heard, o.patience = w.good, RenewalDeadline
			}
		}
	}
	w.lastOwn = now
	w.renewals++
}

func durationOf(lease *coordinationv1.Lease) time.Duration {
	if s := lease.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	return LeaseDuration
}

func (w *Watcher) forget(deleted any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(deleted)
	if err != nil {
		return
	}
	_, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.leases, name)
}

// Peers are the other replicas that live, as far as can be seen now: none while
// the API server cannot be reached.
func (w *Watcher) Peers() []ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lastOwn.IsZero() || w.clock.Since(w.lastOwn) > LeaseDuration {
		return nil
	}
	var peers []ID
	for _, o := range w.leases {
		id, err := Parse(holderOf(o.lease))
		if err == nil && id.Name != w.self.Name && w.good-o.heard < o.patience {
			peers = append(peers, id)
		}
	}
	return peers
}

// PeerReady reports whether there is another replica to move sessions to.
func (w *Watcher) PeerReady() bool { return len(w.Peers()) > 0 }

// Prune deletes Leases that lapsed more than PruneAfter ago. The leader calls it
// now and then.
func (w *Watcher) Prune(ctx context.Context) error {
	var errs []error
	for _, lease := range w.lapsed() {
		err := w.client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // gone, or alive again
			errs = append(errs, fmt.Errorf("delete lapsed Lease %s: %w", lease.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (w *Watcher) lapsed() []*coordinationv1.Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lapsed []*coordinationv1.Lease
	for name, o := range w.leases {
		if name != leaseName(w.self.Name) && w.good-o.heard > o.patience+PruneAfter {
			lapsed = append(lapsed, o.lease)
		}
	}
	return lapsed
}
