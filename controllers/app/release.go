// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/controllers/finalizer"
	"github.com/kubenest/kubenest/controllers/status"
)

// release removes what an App has on its clusters, and lets it go when nothing is
// left.
func (r *Reconciler) release(ctx context.Context, app *kubenestv1.App) error {
	if !controllerutil.ContainsFinalizer(app, kubenestv1.RemovalFinalizer) {
		return nil
	}
	stacks, err := r.liveStacksOf(ctx, app)
	if err != nil {
		return err
	}
	if len(stacks) == 0 {
		return client.IgnoreNotFound(finalizer.Remove(ctx, r.Client, app, kubenestv1.RemovalFinalizer, kubenestv1.FieldManagerApp))
	}
	for i := range stacks {
		if stacks[i].DeletionTimestamp.IsZero() {
			if err := r.remove(ctx, &stacks[i]); err != nil {
				return err
			}
		}
	}
	v := &view{app: app, stacks: stacks, now: r.Clock.Now(), records: map[string]*kubenestv1.ManagedCluster{}}
	for i := range stacks {
		id := stacks[i].Spec.ClusterID
		record, err := clusters.ByID(ctx, r.Client, id)
		if err != nil {
			return err
		}
		if record != nil {
			v.records[id] = record
		}
	}
	return r.writeStatus(ctx, app, releasing(v))
}

// liveStacksOf are the StackDeploys of an App that is being deleted. That there are
// none is believed of the API server only: the cache may not have one yet that was
// made just before.
func (r *Reconciler) liveStacksOf(ctx context.Context, app *kubenestv1.App) ([]kubenestv1.StackDeploy, error) {
	stacks, err := r.stacksOf(ctx, client.ObjectKeyFromObject(app))
	if err != nil || len(stacks) > 0 {
		return stacks, err
	}
	var list kubenestv1.StackDeployList
	err = r.Live.List(ctx, &list, client.InNamespace(app.Namespace),
		client.MatchingLabels{kubenestv1.AppLabel: kubenestv1.LabelValue(app.Name)})
	if err != nil {
		return nil, fmt.Errorf("list StackDeploys of App %s: %w", app.Name, err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.App == app.Name {
			stacks = append(stacks, list.Items[i])
		}
	}
	return stacks, nil
}

// releasing is the status of an App that is being deleted: what it waits for.
func releasing(v *view) *kubenestv1.AppStatus {
	s := v.app.Status.DeepCopy()
	s.ObservedGeneration = v.app.Generation
	waits := make([]string, 0, len(v.stacks))
	for i := range v.stacks {
		waits = append(waits, waitsFrom(v, &v.stacks[i]))
	}
	s.Message = wire.Shorten("Is being deleted. It waits for "+strings.Join(waits, "; ")+".", wire.MaxText)
	now := metav1.NewTime(v.now).Rfc3339Copy()
	meta.RemoveStatusCondition(&s.Conditions, kubenestv1.ConditionStalled)
	for _, c := range []metav1.Condition{
		{Type: kubenestv1.ConditionReady, Status: metav1.ConditionFalse},
		{Type: kubenestv1.ConditionReconciling, Status: metav1.ConditionTrue},
	} {
		c.Reason, c.Message = kubenestv1.ReasonDeleting, s.Message
		status.Set(&s.Conditions, c, v.app.Generation, now)
	}
	return s
}

// waitsFrom says what the removal from one cluster waits for.
func waitsFrom(v *view, stack *kubenestv1.StackDeploy) string {
	const named = 3
	record, cluster := v.records[stack.Spec.ClusterID], v.clusterName(stack.Spec.ClusterID)
	switch {
	case record == nil:
		return fmt.Sprintf("cluster %s, whose record is gone", cluster)
	case record.Spec.Abandoned:
		return fmt.Sprintf("cluster %s, which was given up", cluster)
	}
	if away := absence(record); away != "" {
		return fmt.Sprintf("cluster %s, which %s: set spec.abandoned on ManagedCluster %s to give it up", cluster, away, cluster)
	}
	waiting := stack.Status.Waiting
	switch {
	case len(waiting) == 0:
		return fmt.Sprintf("cluster %s to remove it", cluster)
	case len(waiting) > named:
		return fmt.Sprintf("cluster %s to remove %s and %d more", cluster, quote(waiting[:named]), len(waiting)-named)
	}
	return fmt.Sprintf("cluster %s to remove %s", cluster, quote(waiting))
}

// removeOrphans deletes the StackDeploys of an App that is gone although its
// finalizer should have kept it.
func (r *Reconciler) removeOrphans(ctx context.Context, key client.ObjectKey) (wait time.Duration, err error) {
	stacks, err := r.stacksOf(ctx, key)
	if err != nil || len(stacks) == 0 {
		if err == nil {
			r.known.Delete(key)
		}
		return 0, err
	}
	err = r.Live.Get(ctx, key, metadata(kubenestv1.GroupVersion.WithKind("App")))
	if err == nil {
		return 0, conflict("App", key.Name)
	}
	if !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("look for App %s: %w", key, err)
	}
	_, known := r.known.Load(key)
	for i := range stacks {
		s := &stacks[i]
		if !s.DeletionTimestamp.IsZero() {
			continue
		}
		if left := orphanGrace - r.Clock.Since(s.CreationTimestamp.Time); !known && left > 0 {
			wait = max(wait, left)
			continue
		}
		log.FromContext(ctx).Info("Removing a StackDeploy whose App is gone", "stackDeploy", client.ObjectKeyFromObject(s))
		if err := r.remove(ctx, s); err != nil {
			return wait, err
		}
	}
	return wait, nil
}
