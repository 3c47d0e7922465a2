// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
)

// Names of the cache's indexes of what uses clusters.
const (
	indexProjectCluster = "kubenest.io/guard-project-cluster"
	indexStackCluster   = "kubenest.io/guard-stack-cluster"
)

const (
	// usersNamed are the users that a message names; of the others it gives the number.
	usersNamed = 10
	// maxUsersMessage bounds a message, in bytes.
	maxUsersMessage = 1024
)

// IndexUsers adds the indexes by which the guard finds what uses a cluster. It
// needs the CRDs of Projects and StackDeploys.
func IndexUsers(ctx context.Context, indexer client.FieldIndexer) error {
	byCluster := func(o client.Object) []string {
		p := o.(*kubenestv1.Project)
		return []string{p.ClusterNamespace() + "/" + p.Spec.ClusterRef.Name}
	}
	if err := indexer.IndexField(ctx, &kubenestv1.Project{}, indexProjectCluster, byCluster); err != nil {
		return fmt.Errorf("index Projects by cluster: %w", err)
	}
	byID := func(o client.Object) []string {
		return []string{o.(*kubenestv1.StackDeploy).Spec.ClusterID}
	}
	if err := indexer.IndexField(ctx, &kubenestv1.StackDeploy{}, indexStackCluster, byID); err != nil {
		return fmt.Errorf("index StackDeploys by cluster: %w", err)
	}
	return nil
}

// clusterUser is a Project or an App that uses a cluster.
type clusterUser struct {
	// name, such as "App platform/shop".
	name string
	// leaving is set while what it has on the cluster is being removed.
	leaving bool
}

type clusterUsers []clusterUser

// leaving reports whether each user is being removed.
func (u clusterUsers) leaving() bool {
	return !slices.ContainsFunc(u, func(user clusterUser) bool { return !user.leaving })
}

func (u clusterUsers) waitMessage() string {
	return wire.Shorten("The record goes when nothing uses the cluster any more. Delete these, or move their components to another cluster; "+
		"or set spec.abandoned: true to give the cluster up, which leaves on it what runs there: "+u.list(), maxUsersMessage)
}

func (u clusterUsers) leftMessage() string {
	return wire.Shorten("The record no longer waits for what uses the cluster, and what runs there stays as it is: "+u.list(), maxUsersMessage)
}

func (u clusterUsers) list() string {
	var names []string
	for i, user := range u {
		if i == usersNamed {
			names = append(names, fmt.Sprintf("and %d more", len(u)-usersNamed))
			break
		}
		if user.leaving {
			user.name += " (being removed)"
		}
		names = append(names, user.name)
	}
	return strings.Join(names, ", ")
}

// usersOf finds what uses a cluster: Projects of any namespace that may, and
// whatever has a StackDeploy for it. A user that is not leaving comes first.
func (r *GuardReconciler) usersOf(ctx context.Context, record *kubenestv1.ManagedCluster) (clusterUsers, error) {
	leaving := map[string]bool{}
	see := func(name string, is bool) {
		before, seen := leaving[name]
		leaving[name] = is && (before || !seen)
	}
	var projects kubenestv1.ProjectList
	key := record.Namespace + "/" + record.Name
	if err := r.Client.List(ctx, &projects, client.MatchingFields{indexProjectCluster: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Projects of cluster %s: %w", key, err)
	}
	for i := range projects.Items {
		p := &projects.Items[i]
		// Projects that may not use it do not hold it: anybody can write one.
		allowed, err := clusters.Allows(ctx, r.Client, record, p.Namespace)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if allowed {
			see(userName("Project", p.Namespace, p.Name), !p.DeletionTimestamp.IsZero())
		}
	}
	if err := r.stackUsers(ctx, record, see); err != nil {
		return nil, err
	}
	users := make(clusterUsers, 0, len(leaving))
	for name, is := range leaving {
		users = append(users, clusterUser{name: name, leaving: is})
	}
	slices.SortFunc(users, func(a, b clusterUser) int {
		if a.leaving != b.leaving {
			if a.leaving {
				return 1
			}
			return -1
		}
		return strings.Compare(a.name, b.name)
	})
	return users, nil
}

// stackUsers finds those that have a StackDeploy for the cluster. That of a
// Project's namespace goes when its Project does.
func (r *GuardReconciler) stackUsers(ctx context.Context, record *kubenestv1.ManagedCluster, see func(name string, leaving bool)) error {
	owner, err := clusters.ByID(ctx, r.Client, record.ID())
	if err != nil || owner == nil || owner.UID != record.UID {
		return err // StackDeploys are for the older record of the id
	}
	var stacks kubenestv1.StackDeployList
	if err := r.Client.List(ctx, &stacks, client.MatchingFields{indexStackCluster: record.ID()}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list StackDeploys of cluster %s/%s: %w", record.Namespace, record.Name, err)
	}
	staying := map[kubenestv1.ProjectKey]bool{}
	for i := range stacks.Items {
		s := &stacks.Items[i]
		if s.Spec.NamespaceSettings == nil && s.DeletionTimestamp.IsZero() {
			staying[s.Spec.Project] = true
		}
	}
	for i := range stacks.Items {
		s := &stacks.Items[i]
		if s.Spec.NamespaceSettings == nil {
			see(userName("App", s.Namespace, s.Spec.App), !s.DeletionTimestamp.IsZero())
			continue
		}
		name, leaving, err := r.namespaceUser(ctx, record, s, staying[s.Spec.Project])
		if err != nil {
			return err
		}
		if name != "" {
			see(name, leaving)
		}
	}
	return nil
}

// namespaceUser is whose the StackDeploy of a Project's namespace is, and whether
// it is being deleted, or about to be. apps are there when Apps of the Project stay
// on the cluster. A further cluster's namespace that no App needs is nobody's: it does
// not hold the record, and stays on the cluster as what else people have there.
func (r *GuardReconciler) namespaceUser(ctx context.Context, record *kubenestv1.ManagedCluster, s *kubenestv1.StackDeploy, apps bool) (name string, leaving bool, err error) {
	leaving = !s.DeletionTimestamp.IsZero()
	var project kubenestv1.Project
	err = r.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.Project.Name}, &project)
	switch {
	case apierrors.IsNotFound(err):
		// Its finalizer was taken off by hand, and nobody else deletes this.
		return userName("StackDeploy", s.Namespace, s.Name), leaving, nil
	case err != nil:
		return "", false, fmt.Errorf("read Project %s/%s: %w", s.Namespace, s.Spec.Project.Name, err)
	}
	own := project.ClusterNamespace() == record.Namespace && project.Spec.ClusterRef.Name == record.Name
	leaving = leaving || !project.DeletionTimestamp.IsZero()
	if !own && !apps && !leaving {
		return "", false, nil
	}
	return userName("Project", s.Namespace, s.Spec.Project.Name), leaving, nil
}

func userName(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// ofProject names the record that a Project is on.
func (r *GuardReconciler) ofProject(_ context.Context, o client.Object) []reconcile.Request {
	p := o.(*kubenestv1.Project)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: p.ClusterNamespace(), Name: p.Spec.ClusterRef.Name}}}
}

// ofStack names the record that a StackDeploy is for.
func (r *GuardReconciler) ofStack(ctx context.Context, o client.Object) []reconcile.Request {
	id := o.(*kubenestv1.StackDeploy).Spec.ClusterID
	record, err := clusters.ByID(ctx, r.Client, id)
	if err != nil {
		log.FromContext(ctx).Error(err, "Look the record of a StackDeploy up", "cluster", id)
		return nil
	}
	if record == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(record)}}
}
