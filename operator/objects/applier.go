// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects applies what Apps consist of to this cluster, with the rights of
// their Project, and keeps it so.
//
// Nothing is asked of the API server while nothing differs: an object that this process
// has applied is compared with the cache, field by field, and applied again only when a
// field that is wanted differs. After a start each object is applied once, since fields
// that are wanted no more can not be seen; the API server writes nothing when that
// changes nothing.
package objects

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// Bounds of what is remembered: a hash each.
const (
	maxDry     = 512
	maxApplied = 16384
)

// cachedKinds are those that a workload is made of. Options.Cache has them by
// AppLabel.
func cachedKinds() map[schema.GroupKind]client.Object {
	return map[schema.GroupKind]client.Object{
		{Group: "apps", Kind: "Deployment"}:                     &appsv1.Deployment{},
		{Kind: "Service"}:                                       &corev1.Service{},
		{Group: "networking.k8s.io", Kind: "Ingress"}:           &networkingv1.Ingress{},
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: &autoscalingv2.HorizontalPodAutoscaler{},
	}
}

// Options of an Applier. All are required.
type Options struct {
	// Config reaches the API server as the operator.
	Config *rest.Config
	// Cache has Deployments, Services, Ingresses and HorizontalPodAutoscalers with
	// AppLabel.
	Cache client.Reader
	// Scheme has the built-in kinds.
	Scheme *runtime.Scheme
	// Mapper knows the cluster's kinds.
	Mapper meta.RESTMapper
	// Rules say what is refused before the API server is asked.
	Rules *stack.Rules
}

// Applier applies objects. It may be used by several goroutines, but for one target by
// one at a time.
type Applier struct {
	o       Options
	clients *stack.Clients[client.Client]
	applied *lru.Cache // key → applied
	dry     *lru.Cache // owner/component → hash
}

// applied is what this process knows of an object that it applied.
type applied struct {
	hash            string
	resourceVersion string
	generation      int64
}

// key of an object on this cluster.
type key struct {
	kind      schema.GroupKind
	namespace string
	name      string
}

func keyOf(o client.Object) key {
	return key{o.GetObjectKind().GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// NewApplier makes an Applier.
func NewApplier(o Options) *Applier {
	clients := stack.NewClients(o.Config, func(as *rest.Config) (client.Client, error) {
		return client.New(as, client.Options{Scheme: o.Scheme, Mapper: o.Mapper})
	})
	return &Applier{o: o, clients: clients, applied: lru.New(maxApplied), dry: lru.New(maxDry)}
}

// Client acts with the rights of the Project in a namespace. It reads from the API
// server.
func (a *Applier) Client(namespace string) (client.Client, error) {
	return a.clients.For(namespace)
}

// Result of applying objects.
type Result struct {
	// Changed: something was written that is no correction of somebody else's change.
	Changed bool
	// Behind: the cache does not have yet what was written.
	Behind bool
	// Drift says, an object each, what somebody else had changed and was put right.
	Drift []string
}

// Apply has the objects exist as they are given. They are marked as the target's
// already. The first one that can not be applied ends it with a *stack.Problem, or
// with an error that is worth another try; the objects before it are applied, and the
// result is valid.
func (a *Applier) Apply(ctx context.Context, t *stack.Target, objects []*unstructured.Unstructured) (Result, error) {
	var result Result
	if err := a.o.Rules.Check(t, objects); err != nil {
		return result, err
	}
	as, err := a.Client(t.Namespace)
	if err != nil {
		return result, err
	}
	for _, o := range objects {
		if err := a.apply(ctx, as, t, o, &result); err != nil {
			return result, Explain(err, t, o)
		}
	}
	return result, nil
}

func (a *Applier) apply(ctx context.Context, as client.Client, t *stack.Target, o *unstructured.Unstructured, result *Result) error {
	hash, err := hashOf(o.Object)
	if err != nil {
		return err
	}
	known, _ := a.known(o)
	live, cached, err := a.read(ctx, as, o)
	switch {
	case apierrors.IsNotFound(err):
		return a.create(ctx, as, t, o, hash, result)
	case err != nil:
		return err
	case !t.Owns(live):
		return notOurs(t, o, live)
	}
	if known.hash == hash {
		if live.GetResourceVersion() == known.resourceVersion || len(differences(o.Object, live.Object)) == 0 {
			result.Behind = result.Behind || live.GetGeneration() < known.generation
			a.applied.Add(keyOf(o), applied{hash: hash, resourceVersion: live.GetResourceVersion(), generation: max(live.GetGeneration(), known.generation)})
			return nil
		}
	}
	before := live.GetGeneration()
	if cached { // it has no managed fields, and may be old
		live = emptyOf(o)
		if err := as.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			return err
		}
		if !t.Owns(live) {
			return notOurs(t, o, live)
		}
	}
	if err := a.update(ctx, as, o, live, hash, result); err != nil {
		return err
	}
	known, _ = a.known(o)
	result.Behind = result.Behind || before < known.generation
	return nil
}

// read gets the object from the cache, or from the API server if it is not there: the
// cache has none that lack AppLabel.
func (a *Applier) read(ctx context.Context, as client.Client, o *unstructured.Unstructured) (live *unstructured.Unstructured, cached bool, err error) {
	if typed, ok := cachedKinds()[o.GroupVersionKind().GroupKind()]; ok {
		err := a.o.Cache.Get(ctx, client.ObjectKeyFromObject(o), typed)
		if err == nil {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
			if err != nil {
				return nil, false, fmt.Errorf("convert %s: %w", stack.Describe(o), err)
			}
			live = &unstructured.Unstructured{Object: content}
			live.SetGroupVersionKind(o.GroupVersionKind())
			return live, true, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, false, err
		}
	}
	live = emptyOf(o)
	if err := as.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return nil, false, err
	}
	return live, false, nil
}

// create forces nothing: should somebody else have made the object just now, the
// fields are theirs.
func (a *Applier) create(ctx context.Context, as client.Client, t *stack.Target, o *unstructured.Unstructured, hash string, result *Result) error {
	known, ok := a.known(o)
	made := o.DeepCopy()
	if err := as.Apply(ctx, client.ApplyConfigurationFromUnstructured(made), client.FieldOwner(kubenestv1.FieldManagerOperator)); err != nil {
		a.applied.Remove(keyOf(o))
		return err
	}
	if !t.Owns(made) {
		return errors.New("somebody else wrote it at the same time")
	}
	a.remember(o, made, hash)
	result.Behind = true
	if ok && known.hash == hash {
		result.Drift = append(result.Drift, stack.Describe(o)+" was deleted")
	} else {
		result.Changed = true
	}
	return nil
}

func (a *Applier) update(ctx context.Context, as client.Client, o, live *unstructured.Unstructured, hash string, result *Result) error {
	if err := keepReplicas(ctx, as, o, live); err != nil {
		return err
	}
	changed := o.DeepCopy()
	changed.SetUID(live.GetUID()) // what was compared, and no other of this name
	err := as.Apply(ctx, client.ApplyConfigurationFromUnstructured(changed),
		client.FieldOwner(kubenestv1.FieldManagerOperator), client.ForceOwnership)
	if err != nil {
		return err
	}
	known, ok := a.known(o)
	a.remember(o, changed, hash)
	if changed.GetResourceVersion() == live.GetResourceVersion() {
		return nil
	}
	if drift := drifted(o, live, ok && known.hash == hash, ok); drift != "" {
		result.Drift = append(result.Drift, drift)
	} else {
		result.Changed = true
	}
	return nil
}

// drifted says what somebody else had changed. When this process has applied the same
// before, every difference is somebody's; when it has applied nothing yet, those that
// the API server says are; and none when something else is wanted now.
func drifted(o, live *unstructured.Unstructured, same, known bool) string {
	if known && !same {
		return ""
	}
	managed := live.GetManagedFields()
	var words []string
	for _, path := range differences(o.Object, live.Object) {
		who := changer(managed, path)
		switch {
		case who != "":
			words = append(words, describePath(path)+" (by "+who+")")
		case same:
			words = append(words, describePath(path))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return stack.Describe(o) + ": " + join(words)
}

// keepReplicas hands the number of replicas over when an autoscaler gets it: given up
// by its only owner it would fall to the default of 1.
func keepReplicas(ctx context.Context, as client.Client, o, live *unstructured.Unstructured) error {
	if o.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		return nil
	}
	if _, wanted, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas"); wanted {
		return nil
	}
	replicas, found, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if err != nil || !found || changer(live.GetManagedFields(), replicasPath()) != "" {
		return nil //nolint:nilerr // nothing that could be handed over
	}
	kept := emptyOf(o)
	kept.SetName(o.GetName())
	kept.SetNamespace(o.GetNamespace())
	kept.SetUID(live.GetUID())
	if err := unstructured.SetNestedField(kept.Object, replicas, "spec", "replicas"); err != nil {
		return err
	}
	return as.Apply(ctx, client.ApplyConfigurationFromUnstructured(kept), client.FieldOwner(fieldManagerReplicas), client.ForceOwnership)
}

// fieldManagerReplicas holds a Deployment's replicas for its autoscaler.
const fieldManagerReplicas = kubenestv1.FieldManagerOperator + "-replicas"

func (a *Applier) known(o client.Object) (applied, bool) {
	if v, ok := a.applied.Get(keyOf(o)); ok {
		return v.(applied), true
	}
	return applied{}, false
}

func (a *Applier) remember(o, live client.Object, hash string) {
	a.applied.Add(keyOf(o), applied{hash: hash, resourceVersion: live.GetResourceVersion(), generation: live.GetGeneration()})
}

// emptyOf is an object of the same kind.
func emptyOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(o.GroupVersionKind())
	return empty
}

// notOurs names the owner, if there is one.
func notOurs(t *stack.Target, o, live *unstructured.Unstructured) error {
	if owner := live.GetAnnotations()[kubenestv1.OwnerAnnotation]; owner != "" {
		return stack.Refuse(kubenestv1.ReasonObjectNotOurs, "%s belongs to another App (%s): it is left as it is. Rename the App or the component",
			stack.Describe(o), owner)
	}
	return stack.Refuse(kubenestv1.ReasonObjectNotOurs, "%s exists and was not made by this App: it is left as it is. "+
		"Rename the App or the component, or delete the object; to hand it over, annotate it with %s=%s",
		stack.Describe(o), kubenestv1.OwnerAnnotation, t.Owner)
}

// hashOf content, whose maps JSON sorts.
func hashOf(content any) (string, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encode an object: %w", err)
	}
	sum := sha256.Sum256(data)
	return string(sum[:]), nil
}
