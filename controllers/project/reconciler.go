// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	kubenestv1ac "github.com/kubenest/kubenest/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/controllers/status"
)

// conflictRetry is when a write is tried again that met a newer object.
const conflictRetry = time.Second

// Reconciler makes the StackDeploys of Projects' namespaces, and says in the
// Projects' status how far they are. It runs on the leader.
type Reconciler struct {
	// Client reads from the cache, with the indexes of Index and of
	// clusters.IndexID.
	Client client.Client
	// Live reads from the API server itself.
	Live   client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock

	mu sync.Mutex
	// claimed are the namespaces given to Projects whose StackDeploy the cache does
	// not show yet, by claimKey.
	claimed map[string]claimant
	// held are the Projects with the finalizer. An API server that is asked to delete
	// an object while a finalizer is put on may delete it all the same, and nobody else
	// would know of what was made for it.
	held map[types.NamespacedName]bool
}

// Reconcile brings one Project's StackDeploys and status in line with its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var project kubenestv1.Project
	if err := r.Client.Get(ctx, req.NamespacedName, &project); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, r.gone(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	var wait time.Duration
	var err error
	if project.DeletionTimestamp.IsZero() {
		err = r.settle(ctx, &project)
	} else {
		wait, err = r.remove(ctx, &project)
	}
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case apierrors.IsNotFound(err) && !project.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil // it is gone
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

// settle makes what the spec asks for, as far as it is not refused.
func (r *Reconciler) settle(ctx context.Context, p *kubenestv1.Project) error {
	organization, err := clusters.IsOrganization(ctx, r.Client, p.Namespace)
	switch {
	case err != nil:
		return err
	case !organization:
		return r.write(ctx, p, summarize([]clusterState{refusedState("", "", &refusal{
			kubenestv1.ReasonNotAnOrganization,
			fmt.Sprintf("Namespace %s is not an organization, and kubenest acts in organizations only: kubectl label namespace %s %s=true",
				p.Namespace, p.Namespace, kubenestv1.OrganizationLabel),
		})}))
	}
	if err := r.hold(ctx, p); err != nil {
		return err
	}
	r.remember(client.ObjectKeyFromObject(p))
	targets, err := r.targets(ctx, p)
	if err != nil {
		return err
	}
	states := make([]clusterState, 0, len(targets))
	for _, t := range targets {
		if err := r.settleTarget(ctx, p, t); err != nil {
			return err
		}
		if t.refused != nil || t.wanted || t.stack != nil {
			states = append(states, t.state(p))
		}
	}
	return r.write(ctx, p, summarize(states))
}

// hold puts the finalizer on, before there is anything that it is for.
func (r *Reconciler) hold(ctx context.Context, p *kubenestv1.Project) error {
	if slices.Contains(p.Finalizers, kubenestv1.RemovalFinalizer) {
		return nil
	}
	apply := kubenestv1ac.Project(p.Name, p.Namespace).
		WithUID(p.UID).
		WithResourceVersion(p.ResourceVersion).
		WithFinalizers(kubenestv1.RemovalFinalizer)
	if err := r.Client.Apply(ctx, apply, client.FieldOwner(kubenestv1.FieldManagerProject), client.ForceOwnership); err != nil {
		return fmt.Errorf("hold Project %s/%s: %w", p.Namespace, p.Name, err)
	}
	p.ResourceVersion = *apply.ResourceVersion
	return nil
}

// write applies the status if it changed, and tells of a transition.
func (r *Reconciler) write(ctx context.Context, p *kubenestv1.Project, o outcome) error {
	now := metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
	desired := kubenestv1.ProjectStatus{
		Conditions:         p.Status.DeepCopy().Conditions,
		ObservedGeneration: p.Generation,
		Namespace:          p.TargetNamespace(),
		Reason:             o.ready.Reason,
		Message:            o.ready.Message,
		Clusters:           o.clusters,
	}
	for _, c := range []struct {
		kind string
		want *metav1.Condition
	}{
		{kubenestv1.ConditionReady, &o.ready},
		{kubenestv1.ConditionReconciling, o.reconciling},
		{kubenestv1.ConditionStalled, o.stalled},
	} {
		if c.want == nil {
			meta.RemoveStatusCondition(&desired.Conditions, c.kind)
			continue
		}
		status.Set(&desired.Conditions, *c.want, p.Generation, now)
	}
	if equality.Semantic.DeepEqual(&p.Status, &desired) {
		return nil
	}
	apply := kubenestv1ac.Project(p.Name, p.Namespace).
		WithUID(p.UID).
		WithResourceVersion(p.ResourceVersion).
		WithStatus(statusFields(&desired))
	err := r.Client.Status().Apply(ctx, apply, client.FieldOwner(kubenestv1.FieldManagerProject), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write status of Project %s/%s: %w", p.Namespace, p.Name, err)
	}
	p.ResourceVersion = *apply.ResourceVersion
	r.announce(p, &o)
	return nil
}

// announce says in an Event what changed, and nothing about what is on its way.
func (r *Reconciler) announce(p *kubenestv1.Project, o *outcome) {
	before := meta.FindStatusCondition(p.Status.Conditions, kubenestv1.ConditionReady)
	kind := corev1.EventTypeWarning
	switch {
	case before != nil && before.Status == o.ready.Status && before.Reason == o.ready.Reason:
		return
	case o.ready.Status == metav1.ConditionTrue:
		kind = corev1.EventTypeNormal
	case o.ready.Reason == kubenestv1.ReasonDeleting:
		kind = corev1.EventTypeNormal
	case o.stalled == nil && o.ready.Status != metav1.ConditionUnknown:
		return
	}
	r.Events.Eventf(p, nil, kind, o.ready.Reason, "Observe", "%s", wire.Shorten(o.ready.Message, maxMessage))
}

// statusFields lists every field of the status: server-side apply removes one that
// is left out.
func statusFields(s *kubenestv1.ProjectStatus) *kubenestv1ac.ProjectStatusApplyConfiguration {
	ac := kubenestv1ac.ProjectStatus().
		WithConditions(status.Apply(s.Conditions, kubenestv1.ConditionReady,
			kubenestv1.ConditionReconciling, kubenestv1.ConditionStalled)...).
		WithObservedGeneration(s.ObservedGeneration).
		WithNamespace(s.Namespace).
		WithReason(s.Reason).
		WithMessage(s.Message)
	for i := range s.Clusters {
		c := &s.Clusters[i]
		ac.WithClusters(kubenestv1ac.ProjectCluster().
			WithClusterID(c.ClusterID).
			WithCluster(c.Cluster).
			WithReady(c.Ready).
			WithReason(c.Reason).
			WithMessage(c.Message))
	}
	return ac
}
