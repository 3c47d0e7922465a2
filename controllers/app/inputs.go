// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// Kinds of which this controller caches metadata.
var (
	secretKind    = corev1.SchemeGroupVersion.WithKind("Secret")
	configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	revisionKind  = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
)

// inputs is a cache of this controller alone, of metadata only: Secrets with
// exports, ConfigMaps with charts, and the revisions of Apps. The hub's own cache
// knows other Secrets, and one cache selects each kind by one label.
type inputs struct {
	cache.Cache
}

// GetCache has the manager start this before controllers.
func (i *inputs) GetCache() cache.Cache { return i.Cache }

// newInputs adds the cache to the manager.
func newInputs(mgr ctrl.Manager) (*inputs, error) {
	ofApps, err := labels.NewRequirement(kubenestv1.AppLabel, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select revisions: %w", err)
	}
	made, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:       mgr.GetHTTPClient(),
		Scheme:           mgr.GetScheme(),
		Mapper:           mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			metadata(secretKind):    {Label: labels.SelectorFromSet(labels.Set{kubenestv1.ExportsLabel: "true"})},
			metadata(configMapKind): {Label: labels.SelectorFromSet(labels.Set{kubenestv1.ChartLabel: "true"})},
			metadata(revisionKind):  {Label: labels.NewSelector().Add(*ofApps)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache of exports, charts and revisions: %w", err)
	}
	i := &inputs{made}
	if err := mgr.Add(i); err != nil {
		return nil, fmt.Errorf("add the cache of exports, charts and revisions: %w", err)
	}
	return i, nil
}

// metadata is an object of a kind without its content.
func metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return o
}

// exported is what the hub knows of an addon's exports.
type exported struct {
	// revision is empty while there are none.
	revision string
	// cluster is the id of the one that they are from.
	cluster string
}

// exportsOf an App's addons that the hub has.
func (r *Reconciler) exportsOf(ctx context.Context, app *kubenestv1.App, addons map[string]bool) (map[string]exported, error) {
	found := map[string]exported{}
	for addon := range addons {
		secret := metadata(secretKind)
		key := client.ObjectKey{Namespace: app.Namespace, Name: kubenestv1.ExportsSecretName(app.Name, addon)}
		err := r.inputs.Get(ctx, key, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read exports %s: %w", key, err)
		}
		if ownedBy(secret, app) {
			found[addon] = exported{secret.Annotations[kubenestv1.ExportsRevisionAnnotation], secret.Labels[kubenestv1.ClusterLabel]}
		}
	}
	return found, nil
}

// ownedBy reports whether an object is this App's, and not an earlier one's of the
// same name.
func ownedBy(o client.Object, app *kubenestv1.App) bool {
	for _, owner := range o.GetOwnerReferences() {
		if owner.UID == app.UID {
			return true
		}
	}
	return false
}
