// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/hub/session"
)

const (
	// lookAgain is when something is looked at again that is woken otherwise, in case
	// what was to wake it did something else.
	lookAgain = 2 * time.Second
	// paced is when to try again to send to an operator that was sent much.
	paced = 200 * time.Millisecond
	// inputsAgain is when inputs are looked for again that are missing.
	inputsAgain = 10 * time.Second
	// quiet is how long a delivery may be under way before the status says so: most
	// are answered before, and cost a write less.
	quiet = time.Second
	// envelopeBytes is more than what a message has around its content.
	envelopeBytes = 128
)

// DeliveryReconciler brings StackDeploys to the operators whose sessions this
// replica holds, and what they say of them into the status. It runs on every
// replica.
type DeliveryReconciler struct {
	// Client reads from the cache, which has the indexes of Index and of clusters.
	Client client.Client
	// Live reads from the API server: secrets and charts are not cached.
	Live     client.Reader
	Sessions *session.Registry
	Mailbox  *Mailbox
	Events   events.EventRecorder
	Clock    clock.PassiveClock
}

// SetupWithManager adds the controllers to a manager that runs on every replica.
func (r *DeliveryReconciler) SetupWithManager(mgr ctrl.Manager) error {
	everywhere := false
	err := builder.ControllerManagedBy(mgr).
		Named("stack-delivery").
		Watches(&kubenestv1.StackDeploy{}, r.noting()).
		Watches(&kubenestv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(r.held), builder.WithPredicates(clusterMoved)).
		WatchesRawSource(source.Func(r.watchMailbox)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 16, NeedLeaderElection: &everywhere}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set stack-delivery up: %w", err)
	}
	return (&unknownReconciler{Client: r.Client, Mailbox: r.Mailbox, Events: r.Events}).setUp(mgr)
}

// noting tells the mailbox which StackDeploys there are, and names those whose
// cluster's session is here.
func (r *DeliveryReconciler) noting() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(stack *kubenestv1.StackDeploy, q queue) {
		if _, held := r.Sessions.Lookup(stack.Spec.ClusterID); held {
			q.Add(requestFor(stackOf(stack)))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			stack := e.Object.(*kubenestv1.StackDeploy)
			r.Mailbox.see(stack)
			wake(stack, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			stack := e.ObjectNew.(*kubenestv1.StackDeploy)
			r.Mailbox.changed(e.ObjectOld.(*kubenestv1.StackDeploy), stack)
			wake(stack, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			r.Mailbox.forget(e.Object.(*kubenestv1.StackDeploy))
		},
	}
}

// held names the StackDeploys of a cluster whose session is here.
func (r *DeliveryReconciler) held(ctx context.Context, o client.Object) []reconcile.Request {
	if _, ok := r.Sessions.Lookup(o.(*kubenestv1.ManagedCluster).ID()); !ok {
		return nil
	}
	return ofCluster(r.Client)(ctx, o)
}

func (r *DeliveryReconciler) watchMailbox(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	cancel := r.Sessions.Subscribe(func(e session.Event) {
		switch e.Kind {
		case session.Opened:
			r.Mailbox.opened(&e.Info)
		case session.Closed:
			r.Mailbox.closed(e.ClusterID, e.Info.SessionID)
		case session.FactsChanged:
		}
	})
	context.AfterFunc(ctx, cancel)
	r.Mailbox.start(queue, func(clusterID, sessionID string) {
		r.Sessions.Close(clusterID, sessionID, wire.EndFlooding, "reports and exports come faster than they can be written")
	})
	return nil
}

// task is one StackDeploy, and what there is to know for its delivery.
type task struct {
	stack  *kubenestv1.StackDeploy
	key    wire.Stack
	record *kubenestv1.ManagedCluster
	info   session.Info
	view   view
}

// cluster names the task's cluster.
func (t *task) cluster() string { return nameOf(t.record, t.stack.Namespace) }

// Reconcile brings one StackDeploy to its operator, and its status up to date.
func (r *DeliveryReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var stack kubenestv1.StackDeploy
	if err := r.Client.Get(ctx, req.NamespacedName, &stack); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	info, held := r.Sessions.Lookup(stack.Spec.ClusterID)
	if !held {
		return ctrl.Result{}, nil
	}
	record, err := clusters.ByID(ctx, r.Client, stack.Spec.ClusterID)
	if err != nil || !holds(record, &info) {
		return ctrl.Result{}, err
	}
	t := &task{stack: &stack, key: stackOf(&stack), record: record, info: info}
	var complete bool
	t.view, complete = r.Mailbox.view(&info, t.key)
	var again time.Duration
	switch {
	case !complete && info.Schema < kubenestv1.RequiredSchema(&stack.Spec):
		again, err = r.outdated(ctx, t)
	case !complete: // its inventory is on its way
	case stack.DeletionTimestamp.IsZero():
		again, err = r.deliver(ctx, t)
	default:
		again, err = r.remove(ctx, t)
	}
	if apierrors.IsConflict(err) { // what was written meanwhile is on its way
		return ctrl.Result{RequeueAfter: paced}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// outdated says that an operator is too old, which may be one that knows nothing of
// deployments, and so never sends an inventory.
func (r *DeliveryReconciler) outdated(ctx context.Context, t *task) (again time.Duration, err error) {
	m := moment{
		stack: t.stack, record: t.record, want: wire.Delivery{UID: string(t.stack.UID), Generation: t.stack.Generation},
		outcome: tooOld(t, kubenestv1.RequiredSchema(&t.stack.Spec), ""), now: metav1.NewTime(r.Clock.Now()).Rfc3339Copy(),
	}
	desired, _ := observe(&m)
	desired.Delivered = t.stack.Status.Delivered // it has not said what it has
	again, _, err = r.write(ctx, t, &desired)
	return again, err
}

// deliver sends what the operator lacks, and writes what is known.
func (r *DeliveryReconciler) deliver(ctx context.Context, t *task) (again time.Duration, err error) {
	want, spec, err := r.Mailbox.delivery(t.stack)
	if err != nil {
		return 0, err
	}
	out, err := r.owe(ctx, t, want, spec)
	if err != nil {
		return 0, err
	}
	refused, exported, err := r.keepExports(ctx, t)
	if err != nil {
		return 0, err
	}
	r.Mailbox.worked(&t.info, t.key, nil, exported)
	if out.quiet { // it will be said when it takes longer
		return out.again, nil
	}
	m := moment{
		stack: t.stack, record: t.record, want: want, held: t.view.held, outcome: out.condition,
		report: t.view.report, refused: refused, now: metav1.NewTime(r.Clock.Now()).Rfc3339Copy(),
	}
	desired, used := observe(&m)
	again, written, err := r.write(ctx, t, &desired)
	if err != nil {
		return 0, err
	}
	if written && used && len(refused) == 0 {
		r.Mailbox.worked(&t.info, t.key, t.view.report, nil)
	}
	if len(refused) > 0 {
		again = sooner(again, inputsAgain)
	}
	return sooner(again, out.again), nil
}

// outcome is how a delivery stands.
type outcome struct {
	condition metav1.Condition
	// quiet is set while it is not worth a write.
	quiet bool
	// again is when to look again, 0 for not before something happens.
	again time.Duration
}

// owe compares what there is to deliver with what the operator has, and sends it if
// that differs.
func (r *DeliveryReconciler) owe(ctx context.Context, t *task, want wire.Delivery, spec []byte) (outcome, error) {
	now := r.Clock.Now()
	switch held, sent, failed := t.view.held, t.view.sent, t.view.failure; {
	case held != nil && held.Delivery == want && !held.Removing:
		return outcome{condition: delivered(t.cluster())}, nil
	case sent != nil:
		age := now.Sub(sent.at)
		if age < quiet {
			return outcome{quiet: true, again: quiet - age}, nil
		}
		return outcome{condition: delivering(t.cluster(), ""), again: answerWithin - age}, nil
	case failed != nil && failed.Delivery == want && failed.kind == wire.DeliverySchema:
		return outcome{condition: tooOld(t, kubenestv1.RequiredSchema(&t.stack.Spec), failed.message)}, nil
	case failed != nil && failed.Delivery == want && failed.kind == wire.DeliveryInvalid:
		return outcome{condition: refusedBy(t.cluster(), failed.message)}, nil
	case failed != nil && failed.Delivery == want && now.Before(failed.retryAt):
		return outcome{condition: delivering(t.cluster(), failed.message), again: failed.retryAt.Sub(now)}, nil
	}
	if required := kubenestv1.RequiredSchema(&t.stack.Spec); t.info.Schema < required {
		return outcome{condition: tooOld(t, required, "")}, nil
	}
	if r.Mailbox.full(&t.info, t.key) {
		return outcome{condition: tooMany(t.cluster()), again: inputsAgain}, nil
	}
	if behind, err := r.behind(ctx, t); behind || err != nil {
		return outcome{quiet: true, again: paced}, err
	}
	return r.send(ctx, t, want, spec)
}

// behind reports whether this replica's cache is: the operator then has a newer
// generation that another replica delivered. If the API server itself knows of none,
// it was restored from a backup, and what it says holds.
func (r *DeliveryReconciler) behind(ctx context.Context, t *task) (bool, error) {
	held := t.view.held
	if held == nil || held.UID != string(t.stack.UID) || held.Generation <= t.stack.Generation {
		return false, nil
	}
	var fresh kubenestv1.StackDeploy
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(t.stack), &fresh); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	return fresh.Generation != t.stack.Generation, nil
}

// send sends a StackDeploy and its inputs, if they are there and there is room.
func (r *DeliveryReconciler) send(ctx context.Context, t *task, want wire.Delivery, spec []byte) (out outcome, err error) {
	if !r.Mailbox.room(&t.info, t.key, 1) {
		return outcome{condition: delivering(t.cluster(), ""), quiet: true, again: lookAgain}, nil
	}
	inputs, missing, err := r.inputs(ctx, t)
	if err != nil || missing != nil {
		return outcome{condition: orZero(missing), again: inputsAgain}, err
	}
	if spec == nil {
		if spec, err = json.Marshal(&t.stack.Spec); err != nil {
			return outcome{}, fmt.Errorf("encode spec of %s: %w", t.key, err)
		}
	}
	message, err := json.Marshal(wire.Deliver{
		Stack: t.key, Delivery: want, Schema: kubenestv1.RequiredSchema(&t.stack.Spec), Spec: spec, Inputs: inputs,
	})
	if err != nil {
		return outcome{}, fmt.Errorf("encode delivery of %s: %w", t.key, err)
	}
	if len(message)+envelopeBytes > wire.MaxMessage {
		return outcome{condition: tooLarge(len(message), len(spec), inputs)}, nil
	}
	wait, ok := r.Mailbox.reserve(&t.info, t.key, want, len(message))
	if !ok {
		return outcome{condition: delivering(t.cluster(), ""), quiet: true, again: wait}, nil
	}
	err = r.Sessions.Send(t.info.ClusterID, t.info.SessionID, wire.TypeDeliver, json.RawMessage(message))
	if err != nil && !errors.Is(err, session.ErrNotConnected) {
		ctrl.LoggerFrom(ctx).V(1).Info("Delivery not sent", "cluster", t.info.ClusterID, "reason", err.Error())
	}
	return outcome{quiet: true, again: quiet}, nil // without a session its next one derives it again
}

func orZero(c *metav1.Condition) metav1.Condition {
	if c == nil {
		return metav1.Condition{}
	}
	return *c
}

// sooner of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
