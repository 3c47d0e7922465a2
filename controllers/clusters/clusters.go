// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusters looks ManagedClusters up for the controllers of other kinds.
package clusters

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// IndexID is the name of the cache's index of ManagedClusters by id.
const IndexID = "kubenest.io/cluster-id"

// AwayAfter is how long a cluster has to be away before what hangs on it is called
// unknown: until then an operator that restarts changes nothing.
const AwayAfter = 2 * time.Minute

// ByID is the record that a cluster id belongs to, nil if there is none: of several
// the oldest, so that nobody can take a cluster over by naming its id.
func ByID(ctx context.Context, c client.Reader, id string) (*kubenestv1.ManagedCluster, error) {
	var list kubenestv1.ManagedClusterList
	if err := c.List(ctx, &list, client.MatchingFields{IndexID: id}); err != nil {
		return nil, fmt.Errorf("look cluster %s up: %w", id, err)
	}
	return Oldest(list.Items), nil
}

// Oldest of several records, nil if there is none.
func Oldest(records []kubenestv1.ManagedCluster) *kubenestv1.ManagedCluster {
	var first *kubenestv1.ManagedCluster
	for i := range records {
		r := &records[i]
		switch {
		case first == nil:
			first = r
		case r.CreationTimestamp.Equal(&first.CreationTimestamp):
			if r.UID < first.UID {
				first = r
			}
		case r.CreationTimestamp.Before(&first.CreationTimestamp):
			first = r
		}
	}
	return first
}

// OfProject is the record that a Project names, nil if there is none.
func OfProject(ctx context.Context, c client.Reader, p *kubenestv1.Project) (*kubenestv1.ManagedCluster, error) {
	return byName(ctx, c, p.ClusterNamespace(), p.Spec.ClusterRef.Name)
}

// Resolve finds the cluster that a component names, nil if there is none: by id; by
// namespace and name; by name in the Project's namespace, then in that of the
// Project's cluster. Empty is the Project's cluster.
func Resolve(ctx context.Context, c client.Reader, p *kubenestv1.Project, ref string) (*kubenestv1.ManagedCluster, error) {
	if ref == "" {
		return OfProject(ctx, c, p)
	}
	if namespace, name, ok := strings.Cut(ref, "/"); ok {
		return byName(ctx, c, namespace, name)
	}
	if record, err := ByID(ctx, c, ref); record != nil || err != nil {
		return record, err
	}
	record, err := byName(ctx, c, p.Namespace, ref)
	if record != nil || err != nil {
		return record, err
	}
	return byName(ctx, c, p.ClusterNamespace(), ref)
}

func byName(ctx context.Context, c client.Reader, namespace, name string) (*kubenestv1.ManagedCluster, error) {
	var record kubenestv1.ManagedCluster
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &record)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // that there is none is an answer
	case err != nil:
		return nil, fmt.Errorf("look cluster %s/%s up: %w", namespace, name, err)
	}
	return &record, nil
}

// Allows reports whether Projects of a namespace may use a cluster.
func Allows(ctx context.Context, c client.Reader, record *kubenestv1.ManagedCluster, namespace string) (bool, error) {
	if record.Spec.AllowedProjects == nil {
		return record.Namespace == namespace, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&record.Spec.AllowedProjects.NamespaceSelector)
	if err != nil {
		return false, nil //nolint:nilerr // a selector that can't be read selects nothing
	}
	ns, err := namespaceOf(ctx, c, namespace)
	if err != nil {
		return false, err
	}
	return selector.Matches(labels.Set(ns.Labels)), nil
}

// IsOrganization reports whether a namespace is one in which kubenest acts.
func IsOrganization(ctx context.Context, c client.Reader, namespace string) (bool, error) {
	ns, err := namespaceOf(ctx, c, namespace)
	if err != nil {
		return false, err
	}
	return ns.Labels[kubenestv1.OrganizationLabel] == "true", nil
}

// namespaceOf reads the metadata of a namespace, of which there is one cache.
func namespaceOf(ctx context.Context, c client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	return ns, nil
}

// Connected reports whether a cluster has a session, and if not since when.
func Connected(record *kubenestv1.ManagedCluster) (ok bool, since time.Time) {
	c := meta.FindStatusCondition(record.Status.Conditions, kubenestv1.ConditionConnected)
	if c == nil {
		return false, record.CreationTimestamp.Time
	}
	return c.Status == metav1.ConditionTrue, c.LastTransitionTime.Time
}
