// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// ClusterUID reads what tells this cluster from all others: the UID of its
// kube-system namespace. It tries until it succeeds, and fails only when ctx ends.
func ClusterUID(ctx context.Context, namespaces corev1client.NamespacesGetter, log logr.Logger) (string, error) {
	pace := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 100, Cap: 30 * time.Second}
	said := ""
	for {
		uid, err := readUID(ctx, namespaces)
		switch {
		case err == nil:
			return uid, nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case cause(err) != said:
			said = cause(err)
			log.Error(err, "Could not read the kube-system namespace, which identifies this cluster; trying on")
		}
		timer := time.NewTimer(pace.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", context.Cause(ctx)
		case <-timer.C:
		}
	}
}

func readUID(ctx context.Context, namespaces corev1client.NamespacesGetter) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	namespace, err := namespaces.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(namespace.UID), nil
}
