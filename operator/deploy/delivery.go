// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
)

// Addons install charts. Errors that are a *stack.Problem are for the component's
// status; others are worth another try.
type Addons interface {
	// Ensure has the addon installed as the component says. It returns at once: what
	// takes long goes on by itself, and ends with a call of Reconciler.Changed.
	Ensure(ctx context.Context, a *delivery.Addon) (*delivery.Release, error)
	// Render makes the same objects, marked, and installs nothing.
	Render(ctx context.Context, a *delivery.Addon) ([]*unstructured.Unstructured, error)
	// Remove uninstalls the addon and says what is still there; nothing when all is gone,
	// or nothing was there. It returns at once, too.
	Remove(ctx context.Context, a *delivery.Addon) (waiting []string, err error)
	// Forget removes the record of what was installed, and leaves that as it is. It says
	// what it waits for.
	Forget(ctx context.Context, a *delivery.Addon) (waiting []string, err error)
}

// Exports publish the values of an addon that other components may use.
type Exports interface {
	// Ensure keeps the Secret with the exports, and tells their names and its revision. A
	// *stack.Problem says what they wait for.
	Ensure(ctx context.Context, a *delivery.Addon, objects []*unstructured.Unstructured) (keys []string, revision string, err error)
	// Remove removes the Secret.
	Remove(ctx context.Context, a *delivery.Addon) error
}

// GitOps has Argo CD apply objects from a Git repository.
type GitOps interface {
	// Publish has the repository hold the objects, and no others of the StackDeploy.
	Publish(ctx context.Context, p *delivery.Publication) (*delivery.Sync, error)
	// Remove removes what Publish made, and says what is still there.
	Remove(ctx context.Context, p *delivery.Publication) (waiting []string, err error)
	// Release removes the same, and leaves on the cluster what was applied.
	Release(ctx context.Context, p *delivery.Publication) (waiting []string, err error)
}

// Inputs are what came beside the StackDeploys.
type Inputs interface {
	// Get reads an input of the StackDeploy named local, in the revision that the spec
	// lists. inputs.ErrMissing is in the error about one that is not there. The data may
	// be secret.
	Get(ctx context.Context, local string, in kubenestv1.StackInput) (map[string][]byte, error)
	// Prune removes all inputs of a StackDeploy but those to keep.
	Prune(ctx context.Context, local string, keep []kubenestv1.StackInput) error
}
