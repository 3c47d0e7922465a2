// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/resource"
)

// watched is an informer that knows whether its store may be believed.
type watched struct {
	informer cache.SharedIndexInformer

	mu        sync.Mutex
	forbidden error  // of the last list or watch that was
	version   string // that the store had then
}

// watch keeps only what reduce leaves of each object.
func watch(informer cache.SharedIndexInformer, reduce cache.TransformFunc) (*watched, error) {
	w := &watched{informer: informer}
	if err := informer.SetTransform(reduce); err != nil {
		return nil, fmt.Errorf("set up a watch: %w", err)
	}
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			w.mu.Lock()
			w.forbidden, w.version = err, informer.LastSyncResourceVersion()
			w.mu.Unlock()
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		return nil, fmt.Errorf("set up a watch: %w", err)
	}
	return w, nil
}

// syncTimeout is how long a collection waits for a watch that has just begun, so
// that the operator's hello has figures already.
const syncTimeout = 2 * time.Second

// complete reports whether the store holds everything, and the error if that may
// not even be read.
func (w *watched) complete(ctx context.Context) (bool, error) {
	_ = wait.PollUntilContextTimeout(ctx, syncTimeout/40, syncTimeout, true, func(context.Context) (bool, error) {
		synced, err := w.state()
		return synced || err != nil, nil
	}) // if it takes longer, the next collection has it
	return w.state()
}

func (w *watched) state() (synced bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.forbidden != nil && w.informer.LastSyncResourceVersion() == w.version {
		return false, w.forbidden
	}
	w.forbidden = nil // it moved on, so it is allowed again
	return w.informer.HasSynced(), nil
}

func watchNodes(client kubernetes.Interface) (*watched, error) {
	return watch(coreinformers.NewNodeInformer(client, 0, cache.Indexers{}), reduceNode)
}

// watchPods watches those that hold resources of a node.
func watchPods(client kubernetes.Interface) (*watched, error) {
	running := fields.AndSelectors(
		fields.OneTermNotEqualSelector("spec.nodeName", ""),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	).String()
	return watch(coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.FieldSelector = running }), reducePod)
}

func identityOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

func only(list corev1.ResourceList) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *list.Cpu(), corev1.ResourceMemory: *list.Memory()}
}

// reduceNode keeps the capacity.
func reduceNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil // a tombstone
	}
	return &corev1.Node{
		ObjectMeta: identityOf(&node.ObjectMeta),
		Status:     corev1.NodeStatus{Capacity: only(node.Status.Capacity)},
	}, nil
}

// reducePod keeps what the pod as a whole requests, as if it had one container.
// Reducing twice changes nothing.
func reducePod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil // a tombstone
	}
	requests := only(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true}))
	return &corev1.Pod{
		ObjectMeta: identityOf(&pod.ObjectMeta),
		Spec: corev1.PodSpec{
			NodeName:   pod.Spec.NodeName,
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}, nil
}
