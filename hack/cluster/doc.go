// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes control plane as processes on
// 127.0.0.1: etcd, kube-apiserver and kube-controller-manager, and for clusters
// that carry workloads kube-scheduler and kwok, whose nodes and pods are fake.
//
// Keys, data, logs and kubeconfigs live in one folder, so a cluster that is
// stopped or killed comes back as the one it was, at the same address.
package cluster
