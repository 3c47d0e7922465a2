// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubenest/kubenest/api/wire"
)

// Use is rounded, so that a quiet cluster's heartbeats have nothing to tell.
const (
	cpuStep    = 10      // thousandths of a core
	memoryStep = 1 << 20 // bytes
)

// amount of CPU in thousandths of a core and of memory in bytes.
type amount struct{ cpu, memory int64 }

func (a *amount) add(list corev1.ResourceList) {
	a.cpu += list.Cpu().MilliValue()
	a.memory += list.Memory().Value()
}

func (a *amount) rounded() amount {
	return amount{cpu: round(a.cpu, cpuStep), memory: round(a.memory, memoryStep)}
}

func round(n, step int64) int64 { return (n + step/2) / step * step }

// addNodes adds what the nodes have. Its error is a complaint for people.
func (c *Collector) addNodes(ctx context.Context, f *wire.Facts) error {
	complete, err := c.nodes.complete(ctx)
	if err != nil {
		return mayNot("list and watch nodes", err)
	}
	if !complete {
		return nil
	}
	var total amount
	nodes := c.nodes.informer.GetStore().List()
	for _, object := range nodes {
		if node, ok := object.(*corev1.Node); ok {
			total.add(node.Status.Capacity)
		}
	}
	count := int32(len(nodes))
	f.Nodes, f.CPUTotal, f.MemTotal = &count, &total.cpu, &total.memory
	return nil
}

// addUsage adds what is used, and how that is known. Its error is a complaint for
// people.
func (c *Collector) addUsage(ctx context.Context, f *wire.Facts) error {
	used, err := c.measured(ctx)
	if err == nil {
		setUsage(f, used, wire.SourceMetrics)
		return nil
	}
	var complaint error
	if apierrors.IsForbidden(err) {
		complaint = mayNot("list nodes of metrics.k8s.io", err)
	}
	c.needPodsOnce.Do(func() {
		c.log.Info("The cluster does not measure its use, so use is what running pods request", "reason", err.Error())
		close(c.needPods)
	})
	used, complete, err := c.requested(ctx)
	if err != nil {
		return errors.Join(complaint, mayNot("list and watch pods", err))
	}
	if complete {
		setUsage(f, used, wire.SourceRequests)
	}
	return complaint
}

func setUsage(f *wire.Facts, used amount, source string) {
	used = used.rounded()
	f.CPUUsed, f.MemUsed, f.Source = &used.cpu, &used.memory, source
}

var errNoMeasurements = errors.New("metrics.k8s.io has no figures of any node")

// measured sums what the cluster measured.
func (c *Collector) measured(ctx context.Context) (amount, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	list, err := c.metrics.List(ctx, metav1.ListOptions{})
	switch {
	case err != nil:
		return amount{}, fmt.Errorf("list nodes of metrics.k8s.io: %w", err)
	case len(list.Items) == 0:
		return amount{}, errNoMeasurements
	}
	var used amount
	for i := range list.Items {
		used.add(list.Items[i].Usage)
	}
	return used, nil
}

// requested sums what running pods request.
func (c *Collector) requested(ctx context.Context) (used amount, complete bool, err error) {
	if complete, err = c.pods.complete(ctx); err != nil || !complete {
		return amount{}, false, err
	}
	for _, object := range c.pods.informer.GetStore().List() {
		pod, ok := object.(*corev1.Pod)
		if !ok || !occupies(pod) {
			continue
		}
		for i := range pod.Spec.Containers {
			used.add(pod.Spec.Containers[i].Resources.Requests)
		}
	}
	return used, true, nil
}

// occupies reports whether a pod holds resources of a node. The watch asks for such
// pods only; an API server may not know the selector.
func occupies(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}
