// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// installCheck is how often a cluster without Argo CD is asked for it.
const installCheck = 30 * time.Second

// Applications is a source for the controller of StackDeploys: a StackDeploy in a
// namespace is due when what Argo CD says of its Application changes. Only kubenest's
// Applications are watched. Argo CD may be installed at any time later, or never.
func Applications(config *rest.Config, mapper meta.RESTMapper, argocd, stacks string) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			installed := func(context.Context) (bool, error) {
				_, err := mapper.RESTMapping(applicationKind.GroupKind(), applicationKind.Version)
				return err == nil, nil
			}
			if err := wait.PollUntilContextCancel(ctx, installCheck, true, installed); err != nil {
				return
			}
			w := &watch{queue: queue, stacks: stacks}
			start := func(ctx context.Context) (bool, error) { return w.run(ctx, config, mapper, argocd) == nil, nil }
			_ = wait.PollUntilContextCancel(ctx, installCheck, true, start) // ends with the context
		}()
		return nil
	})
}

// watch turns changes of Applications into requests.
type watch struct {
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	stacks string
}

// run watches until the context ends.
func (w *watch) run(ctx context.Context, config *rest.Config, mapper meta.RESTMapper, argocd string) error {
	selector := labels.SelectorFromSet(labels.Set{kubenestv1.ManagedByLabel: kubenestv1.ManagedBy})
	applications, err := cache.New(config, cache.Options{
		Mapper: mapper, DefaultNamespaces: map[string]cache.Config{argocd: {LabelSelector: selector}},
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("watch Applications: %w", err)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(applicationKind)
	informer, err := applications.GetInformer(ctx, o, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch Applications: %w", err)
	}
	if _, err := informer.AddEventHandler(w); err != nil {
		return fmt.Errorf("watch Applications: %w", err)
	}
	return applications.Start(ctx)
}

// OnAdd implements cache.ResourceEventHandler.
func (w *watch) OnAdd(o any, _ bool) { w.enqueue(o) }

// OnUpdate implements cache.ResourceEventHandler. Argo CD writes each time that it
// looks: only what is judged counts.
func (w *watch) OnUpdate(before, after any) {
	was, ok1 := before.(*unstructured.Unstructured)
	is, ok2 := after.(*unstructured.Unstructured)
	if ok1 && ok2 && reflect.DeepEqual(judged(was), judged(is)) {
		return
	}
	w.enqueue(after)
}

// OnDelete implements cache.ResourceEventHandler.
func (w *watch) OnDelete(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	w.enqueue(o)
}

func (w *watch) enqueue(o any) {
	object, ok := o.(client.Object)
	if !ok {
		return
	}
	if name := object.GetAnnotations()[StackAnnotation]; name != "" {
		w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: w.stacks, Name: name}})
	}
}

// judged is what readState, and the one who keeps the Application, look at.
func judged(o *unstructured.Unstructured) []any {
	out := []any{o.GetDeletionTimestamp(), o.GetLabels(), o.GetAnnotations()[kubenestv1.OwnerAnnotation], o.GetFinalizers(), o.Object["spec"]}
	for _, path := range [][]string{
		{"status", "sync"},
		{"status", "health", "status"},
		{"status", "conditions"},
		{"status", "resources"},
		{"status", "operationState", "phase"},
		{"status", "operationState", "syncResult"},
		{"status", "operationState", "retryCount"},
	} {
		value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
		out = append(out, value)
	}
	return out
}
