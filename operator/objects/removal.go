// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// inventoryKinds are all kinds that workloads have, in the order of removal.
func inventoryKinds() []client.ObjectList {
	kinds := cachedKinds()
	lists := make([]client.ObjectList, 0, len(kinds))
	for _, kind := range []schema.GroupVersionKind{
		{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscalerList"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "IngressList"},
		{Version: "v1", Kind: "ServiceList"},
		{Group: "apps", Version: "v1", Kind: "DeploymentList"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		lists = append(lists, list)
	}
	return lists
}

// Inventory is everything of a target that workloads are made of, from the cache.
// PersistentVolumeClaims are not in it: nothing here ever removes data.
func (a *Applier) Inventory(ctx context.Context, t *stack.Target) ([]client.Object, error) {
	var found []client.Object
	for _, kind := range inventoryKinds() {
		typed, err := a.o.Scheme.New(kind.GetObjectKind().GroupVersionKind())
		if err != nil {
			return nil, fmt.Errorf("list the objects of %s: %w", t.Owner, err)
		}
		list, ok := typed.(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("list the objects of %s: %T is no list", t.Owner, typed)
		}
		err = a.o.Cache.List(ctx, list, client.InNamespace(t.Namespace), client.MatchingLabels{
			kubenestv1.AppLabel: kubenestv1.LabelValue(t.App), kubenestv1.ManagedByLabel: kubenestv1.ManagedBy,
		})
		if err != nil {
			return nil, fmt.Errorf("list the objects of %s: %w", t.Owner, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, fmt.Errorf("list the objects of %s: %w", t.Owner, err)
		}
		for _, item := range items {
			o, ok := item.(client.Object)
			if !ok || !t.Owns(o) {
				continue
			}
			gvk, err := apiutil.GVKForObject(o, a.o.Scheme)
			if err != nil {
				return nil, fmt.Errorf("list the objects of %s: %w", t.Owner, err)
			}
			o.GetObjectKind().SetGroupVersionKind(gvk)
			found = append(found, o)
		}
	}
	return found, nil
}

// Prune deletes what a target has of workloads and remove selects, and says what is
// still there of it.
func (a *Applier) Prune(ctx context.Context, t *stack.Target, remove func(client.Object) bool) (waiting []string, err error) {
	have, err := a.Inventory(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, o := range have {
		if !remove(o) {
			continue
		}
		waiting = append(waiting, Waiting(o))
		if err := a.Delete(ctx, t, o); err != nil {
			return waiting, err
		}
	}
	return waiting, nil
}

// Delete removes one object of a target, and what it has made with it. An object that
// is being deleted already is left alone.
func (a *Applier) Delete(ctx context.Context, t *stack.Target, o client.Object) error {
	if !t.Owns(o) {
		return fmt.Errorf("delete %s: it is not of %s", stack.Describe(o), t.Owner)
	}
	a.applied.Remove(keyOf(o))
	if !o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	as, err := a.Client(t.Namespace)
	if err != nil {
		return err
	}
	uid := o.GetUID()
	err = as.Delete(ctx, o, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return Explain(err, t, o)
	}
	return nil
}

// Waiting says of an object that it is still there, and for whom.
func Waiting(o client.Object) string {
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 && !o.GetDeletionTimestamp().IsZero() {
		return stack.Describe(o) + " is held by " + strings.Join(finalizers, ", ")
	}
	return stack.Describe(o) + " is being deleted"
}

// Secrets of a target by a label that selects them besides, without their data. They
// are not cached: the operator has no right to see all.
func (a *Applier) Secrets(ctx context.Context, t *stack.Target, selector client.MatchingLabels) ([]client.Object, error) {
	as, err := a.Client(t.Namespace)
	if err != nil {
		return nil, err
	}
	labels := client.MatchingLabels{kubenestv1.AppLabel: kubenestv1.LabelValue(t.App)}
	maps.Copy(labels, selector)
	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := as.List(ctx, &list, client.InNamespace(t.Namespace), labels); err != nil {
		secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret"}}
		return nil, Explain(err, t, secret)
	}
	var found []client.Object
	for i := range list.Items {
		secret := &list.Items[i]
		if t.Owns(secret) {
			secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			found = append(found, secret)
		}
	}
	return found, nil
}

// Revision of a Secret in the Project's namespace: it changes when the Secret does, and
// tells nothing of what is in it. It is empty when there is none, or none that the
// Project may see.
func (a *Applier) Revision(ctx context.Context, t *stack.Target, name string) (string, error) {
	as, err := a.Client(t.Namespace)
	if err != nil {
		return "", err
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	secret.Name, secret.Namespace = name, t.Namespace
	if err := as.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: name}, secret); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return "", nil
		}
		return "", Explain(err, t, secret)
	}
	if revision := secret.Annotations[kubenestv1.ExportsRevisionAnnotation]; revision != "" && t.Owns(secret) {
		return revision, nil
	}
	return string(secret.UID) + "/" + secret.ResourceVersion, nil
}

// DryRun asks the API server, as the Project, whether the objects could be applied,
// and changes nothing. What was asked once with success is not asked again; name tells
// sets of one target apart. Objects of kinds that the set itself defines can not be
// asked about.
func (a *Applier) DryRun(ctx context.Context, t *stack.Target, name string, objects []*unstructured.Unstructured) error {
	if err := a.o.Rules.Check(t, objects); err != nil {
		return err
	}
	contents := make([]any, 0, len(objects))
	for _, o := range objects {
		contents = append(contents, o.Object)
	}
	hash, err := hashOf(contents)
	if err != nil {
		return err
	}
	if asked, ok := a.dry.Get(t.Owner + "/" + name); ok && asked == hash {
		return nil
	}
	as, err := a.Client(t.Namespace)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := dryRun(ctx, as, t, o); err != nil {
			return Explain(err, t, o)
		}
	}
	a.dry.Add(t.Owner+"/"+name, hash)
	return nil
}

func dryRun(ctx context.Context, as client.Client, t *stack.Target, o *unstructured.Unstructured) error {
	live := emptyOf(o)
	err := as.Get(ctx, client.ObjectKeyFromObject(o), live)
	switch {
	case meta.IsNoMatchError(err): // Rules have seen that the set defines it
		return nil
	case err == nil && !t.Owns(live):
		return notOurs(t, o, live)
	case client.IgnoreNotFound(err) != nil:
		return err
	}
	return as.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()),
		client.FieldOwner(kubenestv1.FieldManagerOperator), client.ForceOwnership, client.DryRunAll)
}

func replicasPath() fieldpath.Path { return fieldpath.MakePathOrDie("spec", "replicas") }

// join lists what is worth reading.
func join(words []string) string {
	const most = 8
	if len(words) > most {
		words = append(slices.Clone(words[:most]), fmt.Sprintf("and %d more", len(words)-most))
	}
	return strings.Join(words, ", ")
}
