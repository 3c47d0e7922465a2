// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/hub/session"
)

const (
	// settleTime is how long a claim and the opening of its session may lie apart,
	// as this replica's own status write and its cache may.
	settleTime = wire.OpeningTimeout + 5*time.Second
	// movingGrace is how long a cluster that was asked to move may take to open its
	// next session before it is called disconnected.
	movingGrace = 45 * time.Second
	// complaintsEvery is the least time between two writes for an operator's
	// complaints alone: one whose words change all the time must not cost a write
	// each.
	complaintsEvery = 10 * time.Second
	// complaintsAtOnce of them are shown without a wait.
	complaintsAtOnce = 4
)

// SessionReconciler keeps the status of the clusters whose sessions this
// replica holds, or held until just now, and ends sessions whose record no longer
// allows them. Its key is a cluster id.
type SessionReconciler struct {
	Authority *Authority
	Sessions  *session.Registry
	Timing    wire.Timing

	// ages remembers when sessions were lost, by cluster id.
	ages *lru.Cache
	// complained bounds how often complaints are written, by cluster id.
	complained *lru.Cache
}

// remembered bounds the memory of lost sessions' ages, and of complaints.
const remembered = 4096

// SetupWithManager adds the controller. It runs on every replica.
func (r *SessionReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.ages, r.complained = lru.New(remembered), lru.New(remembered)
	everywhere := false
	byID := func(_ context.Context, o client.Object) []string {
		return []string{o.(*kubenestv1.ManagedCluster).ID()}
	}
	err := builder.TypedControllerManagedBy[string](mgr).
		Named("cluster-session").
		Watches(&kubenestv1.ManagedCluster{}, handler.TypedEnqueueRequestsFromMapFunc[client.Object, string](byID)).
		WatchesRawSource(source.TypedFunc[string](r.watchSessions)).
		WithOptions(controller.TypedOptions[string]{MaxConcurrentReconciles: 8, NeedLeaderElection: &everywhere}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set cluster-session up: %w", err)
	}
	return nil
}

// watchSessions turns the registry's events into keys. Facts are frequent and
// mostly not worth a write, so they are judged here, before they cost a
// reconcile.
func (r *SessionReconciler) watchSessions(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string]) error {
	cancel := r.Sessions.Subscribe(func(e session.Event) {
		if e.Kind == session.FactsChanged && !r.worthAWrite(ctx, &e.Info) {
			return
		}
		if e.Kind == session.Closed {
			r.remember(e.ClusterID, e.Ended)
		}
		queue.Add(e.ClusterID)
	})
	context.AfterFunc(ctx, cancel)
	return nil
}

// worthAWrite reports whether facts change more than figures that are not due.
func (r *SessionReconciler) worthAWrite(ctx context.Context, info *session.Info) bool {
	record, err := clusters.ByID(ctx, r.Authority.Client, info.ClusterID)
	if err != nil || record == nil {
		return true
	}
	if complaints(record) != complaintOf(&info.Facts) {
		return true
	}
	due, wait := figuresDue(&record.Status, &info.Facts, r.Authority.Clock.Now())
	return due || wait > 0
}

// complaints are the ones that a record's conditions tell.
func complaints(record *kubenestv1.ManagedCluster) complaint {
	switch record.Status.Reason {
	case kubenestv1.ReasonOperatorError:
		return complaint{failed: record.Status.Message}
	case kubenestv1.ReasonKubernetesUnreachable:
		return complaint{unreachable: record.Status.Message}
	default:
		return complaint{}
	}
}

// complaint is the one to show now. Of those that change all the time it is one
// each complaintsEvery, with the time to wait for the next.
func (r *SessionReconciler) complaint(record *kubenestv1.ManagedCluster, facts *wire.Facts, now time.Time) (shown complaint, wait time.Duration) {
	present, shown := complaintOf(facts), complaints(record)
	if present == shown {
		return shown, 0
	}
	limit := rate.NewLimiter(rate.Every(complaintsEvery), complaintsAtOnce)
	if known, ok := r.complained.Get(record.ID()); ok {
		limit = known.(*rate.Limiter)
	} else {
		r.complained.Add(record.ID(), limit)
	}
	if !limit.AllowN(now, 1) {
		return shown, complaintsEvery
	}
	return present, 0
}

// remember takes the age of a session that was lost; any other ending breaks the
// row.
func (r *SessionReconciler) remember(clusterID string, end *session.End) {
	if end.Ending != wire.EndLost {
		r.ages.Remove(clusterID)
		return
	}
	var ages closeAges
	if known, ok := r.ages.Get(clusterID); ok {
		ages = known.(closeAges)
	}
	ages.add(end.Age)
	r.ages.Add(clusterID, ages)
}

// Reconcile brings one cluster's status in line with the session held here.
func (r *SessionReconciler) Reconcile(ctx context.Context, clusterID string) (ctrl.Result, error) {
	record, err := clusters.ByID(ctx, r.Authority.Client, clusterID)
	if err != nil {
		return ctrl.Result{}, err
	}
	info, held := r.Sessions.Lookup(clusterID)
	var result ctrl.Result
	switch {
	case record == nil || deleted(record):
		if held {
			r.Sessions.Close(clusterID, info.SessionID, wire.EndUnknownCluster, "the cluster's record was deleted")
		}
		if end, known := r.Sessions.LastEnd(clusterID); known {
			r.Sessions.Forget(clusterID, end.SessionID)
		}
		return ctrl.Result{}, nil
	case held:
		result, err = r.held(ctx, record, &info)
	case record.Status.Session != nil && record.Status.Session.Replica == r.Authority.Replica:
		result, err = r.ended(ctx, record)
	}
	if !held {
		r.forgetEnd(clusterID, record.Status.Session)
	}
	if apierrors.IsConflict(err) {
		// Somebody wrote first; the watch brings what they wrote, and this key again.
		log.FromContext(ctx).V(1).Info("Record changed before it was written", "cluster", clusterID)
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return result, err
}

// forgetEnd drops what is remembered of a session's end once the record speaks of
// a later session, or, after a restore, of none that this replica knows. Until
// then the end keeps an older session's late opening out. A record that speaks of
// an earlier one is at first taken for a cache that lags behind the claim.
func (r *SessionReconciler) forgetEnd(clusterID string, recorded *kubenestv1.SessionStatus) {
	end, known := r.Sessions.LastEnd(clusterID)
	if !known {
		return
	}
	later := recorded != nil && recorded.Epoch > end.Epoch
	settled := r.Authority.Clock.Since(end.At) > settleTime
	if later || (settled && (recorded == nil || recorded.ID != end.SessionID)) {
		r.Sessions.Forget(clusterID, end.SessionID)
	}
}

// held is the state of a cluster whose session is here.
func (r *SessionReconciler) held(ctx context.Context, record *kubenestv1.ManagedCluster, info *session.Info) (ctrl.Result, error) {
	last := record.Status.Session
	switch {
	case last != nil && last.Epoch > info.Epoch:
		r.Sessions.Close(info.ClusterID, info.SessionID, wire.EndReplaced, "a newer session was claimed")
		return ctrl.Result{}, nil
	case last == nil || last.Epoch < info.Epoch || last.ID != info.SessionID:
		return r.unknownToRecord(ctx, record, info)
	}
	if err := admit(record, &info.Identity); err != nil {
		r.Sessions.Close(info.ClusterID, info.SessionID, endingOf(err), err.Error())
		return ctrl.Result{}, nil
	}
	now := r.Authority.Clock.Now()
	desired := record.Status.DeepCopy()
	due, wait := figuresDue(&record.Status, &info.Facts, now)
	if due {
		setFacts(desired, &info.Facts, info.FactsAt)
	}
	if desired.Session.TokenGeneration < info.Identity.Generation {
		desired.Session.TokenGeneration = info.Identity.Generation
	}
	shown, later := r.complaint(record, &info.Facts, now)
	if later > 0 && (wait == 0 || later < wait) {
		wait = later
	}
	setEstablished(record, desired, shown, metav1.NewTime(now).Rfc3339Copy())
	return ctrl.Result{RequeueAfter: wait}, r.Authority.writer.write(ctx, record, desired)
}

// endingOf is how a session ends whose record no longer admits it.
func endingOf(refused error) wire.Ending {
	var refusal *wire.Refusal
	if errors.As(refused, &refusal) && refusal.Class == wire.ClassUnknownCluster {
		return wire.EndUnknownCluster
	}
	return wire.EndRevoked
}

// unknownToRecord is a session that the record does not know. Usually the cache
// lags behind the claim; if the record itself has never heard of the session, the
// API server was restored from a backup, and the session is claimed again.
func (r *SessionReconciler) unknownToRecord(ctx context.Context, record *kubenestv1.ManagedCluster, info *session.Info) (ctrl.Result, error) {
	if young := settleTime - r.Authority.Clock.Since(info.ConnectedAt); young > 0 {
		return ctrl.Result{RequeueAfter: young}, nil
	}
	fresh, err := readLive(ctx, r.Authority.Live, record)
	switch {
	case errors.Is(err, errGone): // the watch will say so
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	// Of the same epoch without an id is this session, which the leader took for lost.
	if s := fresh.Status.Session; s != nil && (s.Epoch > info.Epoch || s.Epoch == info.Epoch && s.ID != "") {
		if s.ID != info.SessionID {
			r.Sessions.Close(info.ClusterID, info.SessionID, wire.EndReplaced, "a newer session was claimed")
		}
		return ctrl.Result{}, nil
	}
	log.FromContext(ctx).Info("Record does not know a living session, claiming it again",
		"cluster", info.ClusterID, "session", info.SessionID)
	err = r.Authority.reclaim(ctx, fresh, info)
	// A record that waits to be taken up in place of a deleted one will allow it yet.
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok && refusal.Class != wire.ClassUnknownCluster {
		r.Sessions.Close(info.ClusterID, info.SessionID, wire.EndRefused, string(refusal.Class))
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// ended is the state of a cluster that the record says is held here, but is not.
func (r *SessionReconciler) ended(ctx context.Context, record *kubenestv1.ManagedCluster) (ctrl.Result, error) {
	s := record.Status.Session
	id := record.ID()
	end, known := r.Sessions.LastEnd(id)
	now := r.Authority.Clock.Now()
	switch {
	case !known || end.SessionID != s.ID:
		// Claimed, but not open yet; or it broke before it was.
		if s.ConnectedAt != nil {
			if young := settleTime - now.Sub(s.ConnectedAt.Time); young > 0 && young <= 2*settleTime { // else the clock was set back
				return ctrl.Result{RequeueAfter: young}, nil
			}
		}
		end = session.End{SessionID: s.ID, Ending: wire.EndLost}
	case end.Ending == wire.EndMoving:
		if left := movingGrace - now.Sub(end.At); left > 0 {
			return ctrl.Result{RequeueAfter: left}, nil
		}
	}

	reason, message := endingReason(end, r.Timing)
	if ages, ok := r.ages.Get(id); ok && end.Ending == wire.EndLost {
		remembered := ages.(closeAges)
		message += remembered.explain()
	}
	if record.Spec.Abandoned {
		reason, message = kubenestv1.ReasonAbandoned, abandonedMessage
	}
	var lastHeard *metav1.MicroTime
	if !end.LastHeard.IsZero() {
		t := metav1.NewMicroTime(end.LastHeard.UTC().Truncate(time.Microsecond))
		lastHeard = &t
	}
	desired := record.Status.DeepCopy()
	setDisconnected(record, desired, reason, message, lastHeard, metav1.NewTime(now).Rfc3339Copy())
	if err := r.Authority.writer.write(ctx, record, desired); err != nil {
		return ctrl.Result{}, err
	}
	r.Sessions.Forget(id, s.ID)
	return ctrl.Result{}, nil
}

const abandonedMessage = "The cluster was given up (spec.abandoned): its tokens are revoked."
