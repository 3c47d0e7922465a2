// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/controllers/finalizer"
)

// removalEvery is how often a Project that is being deleted is looked at again
// without a cause.
const removalEvery = 30 * time.Second

// remove takes everything of a Project away: its Apps, then its namespaces, then
// the finalizer. Each step is begun again from what is there.
func (r *Reconciler) remove(ctx context.Context, p *kubenestv1.Project) (time.Duration, error) {
	r.forget(client.ObjectKeyFromObject(p))
	if !slices.Contains(p.Finalizers, kubenestv1.RemovalFinalizer) {
		return 0, nil
	}
	apps, err := r.deleteApps(ctx, p)
	if err != nil {
		return 0, err
	}
	stacks, err := r.stacksOf(ctx, r.Client, p)
	if err != nil {
		return 0, err
	}
	if len(apps) == 0 {
		if stacks, err = r.deleteStacks(ctx, client.ObjectKeyFromObject(p), true); err != nil {
			return 0, err
		}
	}
	left, err := r.left(ctx, p, apps, stacks)
	if err != nil {
		return 0, err
	}
	if len(left) == 0 {
		return 0, r.release(ctx, p)
	}
	return removalEvery, r.write(ctx, p, removing(left))
}

// gone finishes the removal of a Project that went without it, though it was held.
// One that this process has never seen is none that was deleted: a backup may bring
// StackDeploys back before their Projects.
func (r *Reconciler) gone(ctx context.Context, project types.NamespacedName) error {
	if !r.forget(project) {
		return nil
	}
	if _, err := r.deleteStacks(ctx, project, false); err != nil {
		r.remember(project)
		return err
	}
	return nil
}

// deleteApps deletes the Project's Apps, and returns those that are still there.
func (r *Reconciler) deleteApps(ctx context.Context, p *kubenestv1.Project) ([]string, error) {
	var list kubenestv1.AppList
	err := r.Client.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{indexApps: p.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list Apps of Project %s/%s: %w", p.Namespace, p.Name, err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		app := &list.Items[i]
		names = append(names, app.Name)
		if !app.DeletionTimestamp.IsZero() {
			continue
		}
		err := r.Client.Delete(ctx, app.DeepCopy(), client.Preconditions{UID: &app.UID})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("delete App %s/%s: %w", app.Namespace, app.Name, err)
		}
	}
	slices.Sort(names)
	return names, nil
}

// deleteStacks deletes what the Apps may have left, if asked to, and the namespaces
// where they have nothing any more, and returns what is still there. It reads live: the cache may not show yet what was
// made a moment ago, and nobody would look for it afterwards.
func (r *Reconciler) deleteStacks(ctx context.Context, p types.NamespacedName, ofApps bool) ([]*kubenestv1.StackDeploy, error) {
	var list kubenestv1.StackDeployList
	err := r.Live.List(ctx, &list, client.InNamespace(p.Namespace),
		client.MatchingLabels{kubenestv1.ProjectLabel: kubenestv1.LabelValue(p.Name)})
	if err != nil {
		return nil, fmt.Errorf("list StackDeploys of Project %s: %w", p, err)
	}
	var stacks []*kubenestv1.StackDeploy
	apps := map[string]bool{} // clusters on which Apps have something still
	for i := range list.Items {
		s := &list.Items[i]
		if projectOf(s) != p.String() {
			continue // its label is cut short, as ours is
		}
		stacks = append(stacks, s)
		if s.Spec.NamespaceSettings != nil {
			continue
		}
		record, err := clusters.ByID(ctx, r.Client, s.Spec.ClusterID)
		if err != nil {
			return nil, err
		}
		apps[s.Spec.ClusterID] = !givenUp(record)
	}
	for _, s := range stacks {
		if isApps := s.Spec.NamespaceSettings == nil; isApps && !ofApps || !isApps && apps[s.Spec.ClusterID] {
			continue
		}
		if err := r.deleteStack(ctx, s); err != nil {
			return nil, err
		}
	}
	return stacks, nil
}

// left is what a Project's deletion waits for. What is on clusters that were given
// up, or whose record is gone, is let go by whoever removes it, and not waited for.
func (r *Reconciler) left(ctx context.Context, p *kubenestv1.Project, apps []string, stacks []*kubenestv1.StackDeploy) ([]leftover, error) {
	var left []leftover
	seen := map[string]bool{}
	for _, s := range stacks {
		record, err := clusters.ByID(ctx, r.Client, s.Spec.ClusterID)
		if err != nil {
			return nil, err
		}
		if givenUp(record) && !s.DeletionTimestamp.IsZero() {
			continue
		}
		t := target{id: s.Spec.ClusterID, record: record}
		seen[s.Spec.App] = true
		left = append(left, leftover{app: s.Spec.App, clusterID: t.id, cluster: t.name(p), stack: s})
	}
	for _, app := range apps {
		if !seen[app] {
			left = append(left, leftover{app: app})
		}
	}
	slices.SortFunc(left, func(a, b leftover) int {
		// Namespaces last: they go last.
		if (a.app == "") != (b.app == "") {
			return strings.Compare(b.app, a.app)
		}
		return strings.Compare(a.app+"/"+a.cluster, b.app+"/"+b.cluster)
	})
	return left, nil
}

// givenUp reports whether nothing can be removed from a cluster any more.
func givenUp(record *kubenestv1.ManagedCluster) bool {
	return record == nil || record.Spec.Abandoned
}

// release takes the finalizer off, whoever else may have put it there.
func (r *Reconciler) release(ctx context.Context, p *kubenestv1.Project) error {
	return finalizer.Remove(ctx, r.Client, p, kubenestv1.RemovalFinalizer, kubenestv1.FieldManagerProject)
}

// leftover is something that a Project's deletion waits for: what an App has on a
// cluster, the namespace on one, or an App that has nothing left but itself.
type leftover struct {
	app                string
	clusterID, cluster string
	stack              *kubenestv1.StackDeploy
}

// removing is the outcome of a deletion that waits.
func removing(left []leftover) outcome {
	var items []string
	perCluster := map[string]*clusterState{}
	var order []string
	for i := range left {
		l := &left[i]
		if i < leftNamed {
			items = append(items, l.String())
		}
		if l.stack == nil {
			continue
		}
		if perCluster[l.clusterID] == nil {
			perCluster[l.clusterID] = &clusterState{id: l.clusterID, name: l.cluster, ready: metav1.ConditionFalse, reason: kubenestv1.ReasonRemoving, message: l.String()}
			order = append(order, l.clusterID)
		}
	}
	if more := len(left) - leftNamed; more > 0 {
		items = append(items, fmt.Sprintf("and %d more", more))
	}
	states := make([]clusterState, 0, len(order))
	for _, id := range order {
		states = append(states, *perCluster[id])
	}
	message := "Being deleted, and waits for: " + strings.Join(items, "; ")
	return outcome{
		ready:       condition(kubenestv1.ConditionReady, metav1.ConditionFalse, kubenestv1.ReasonDeleting, message),
		reconciling: new(condition(kubenestv1.ConditionReconciling, metav1.ConditionTrue, kubenestv1.ReasonDeleting, message)),
		clusters:    clusterList(states),
	}
}
