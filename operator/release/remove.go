// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/kubenest/kubenest/operator/delivery"
)

// removing is the try of a removal.
const removing = "removal"

// Remove uninstalls a release, in the background, and says what it waits for; nothing
// when it is gone. Volumes of StatefulSets and what a chart marks to be kept stay, as
// Helm leaves them.
func (m *Manager) Remove(ctx context.Context, a *delivery.Addon) ([]string, error) {
	name := releaseName(a)
	if m.working(a, wish{try: removing}) != nil {
		return []string{"Helm release " + name}, nil
	}
	gone, err := m.namespaceGone(ctx, a.Target.Namespace)
	if err != nil {
		return nil, err
	}
	if gone {
		m.drop(a)
		return nil, nil
	}
	r, err := newRights(ctx, m.config, a.Target.Namespace)
	if err != nil {
		return nil, err
	}
	newest, err := r.peek(ctx, name)
	if problem := problemOf(err); problem != nil {
		return []string{"Helm release " + name + ": " + problem.Message}, nil //nolint:nilerr // what failed is what it waits for
	}
	if err != nil {
		return nil, err
	}
	if newest == nil || newest.owner != label(a.Target.Owner) {
		return m.leaving(ctx, r, a)
	}
	waiting := "Helm release " + name
	if failed := m.failedBefore(a, wish{try: removing}, m.clock.Now()); failed != nil {
		waiting += ": " + failed.Message
		return []string{waiting}, nil //nolint:nilerr // what failed is what it waits for
	}
	m.begin(ctx, a, removing, func(ctx context.Context) error {
		return m.operate(ctx, a, func(ctx context.Context, o *operation) error {
			left, err := o.uninstall(ctx)
			if err == nil {
				m.left(a, left)
			}
			return err
		})
	})
	return []string{waiting}, nil
}

// namespaceGone asks with the operator's own rights: with the namespace the Project's
// are gone, too.
func (m *Manager) namespaceGone(ctx context.Context, namespace string) (bool, error) {
	client, err := kubernetes.NewForConfig(m.config)
	if err != nil {
		return false, fmt.Errorf("make client: %w", err)
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	return err != nil, nil
}

// uninstall removes a release, and returns the objects that Helm has deleted: they
// may take a while to go.
func (o *operation) uninstall(ctx context.Context) ([]*unstructured.Unstructured, error) {
	h, err := readHistory(o.helm, o.name)
	if err != nil || h.newest() == nil {
		return nil, err
	}
	d, err := manifestOf(h.newest())
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, o.addon.Timeout)
	defer cancel()
	u := action.NewUninstall(o.helm)
	u.Timeout, u.IgnoreNotFound = o.addon.Timeout, true
	u.WaitStrategy, u.WaitOptions = kube.HookOnlyStrategy, waitOptions(waiting)
	response, err := u.Run(o.name)
	if err != nil {
		return nil, fmt.Errorf("uninstall release %s: %w", o.name, err)
	}
	if response != nil && response.Info != "" {
		o.log.Info("Kept what the chart wants to be kept", "release", o.name, "namespace", o.addon.Target.Namespace,
			"kept", strings.Join(strings.Fields(response.Info), " "))
	}
	var left []*unstructured.Unstructured
	for _, object := range d.objects {
		if object.GetName() != "" && object.GetAnnotations()[kube.ResourcePolicyAnno] != kube.KeepPolicy {
			left = append(left, object)
		}
	}
	return left, nil
}

func (m *Manager) left(a *delivery.Addon, objects []*unstructured.Unstructured) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stateOf(keyOf(a)).leaving = objects
}

func (m *Manager) drop(a *delivery.Addon) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.states[keyOf(a)]; s != nil && s.job == nil {
		delete(m.states, keyOf(a))
	}
}

// leaving names what is still on its way out.
func (m *Manager) leaving(ctx context.Context, r *rights, a *delivery.Addon) ([]string, error) {
	m.mu.Lock()
	objects := m.stateOf(keyOf(a)).leaving
	m.mu.Unlock()
	var waiting []string
	for _, o := range objects {
		live, err := r.get(ctx, m.mapper, o)
		if err != nil || !a.Target.Owns(live) {
			continue // gone, or another's by now
		}
		waiting = append(waiting, describe(o))
	}
	if len(waiting) == 0 {
		m.drop(a)
	}
	return waiting, nil
}
