// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fingerprint computes the revisions of inputs: the app controller writes
// them into StackDeploys, and the delivery controller sends nothing of another
// revision.
package fingerprint

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubenest/kubenest/api/wire"
)

// OfChart is that of a packaged chart, by its content.
func OfChart(packaged []byte) string { return wire.Digest(packaged) }

// OfObject changes when anything of an object does, and tells nothing of it.
func OfObject(o metav1.Object) string {
	return wire.Digest([]byte(string(o.GetUID()) + "/" + o.GetResourceVersion()))
}
