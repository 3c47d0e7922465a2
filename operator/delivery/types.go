// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package delivery holds what the deploy controller and the ways of delivering
// (Helm, exports, GitOps) tell each other. Who implements the ways knows nothing of
// the controller, and the controller nothing of Helm or Git.
package delivery

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// Addon is a component of type addon, with what is needed to run it.
type Addon struct {
	// Stack is the operator's StackDeploy that the component is of.
	Stack types.NamespacedName
	// Target is for whom, and where, the addon is.
	Target stack.Target
	// Component as the StackDeploy has it. For a removal its spec may be gone, and
	// only the name is certain.
	Component *kubenestv1.Component
	// Chart is the packaged chart of a configMapRef; nil for all others.
	Chart []byte
	// Timeout is how long the addon may take to become ready.
	Timeout time.Duration
	// Revision of the App, to be told in the release's description.
	Revision int64
}

// ReleaseState says how far a release is.
type ReleaseState string

const (
	// ReleaseWorking: Helm is at it, in the background.
	ReleaseWorking ReleaseState = "Working"
	// ReleaseDeployed: what the spec says is installed. It need not be ready.
	ReleaseDeployed ReleaseState = "Deployed"
	// ReleaseFailed: it could not be installed; Problem says why. What an upgrade had
	// changed was rolled back.
	ReleaseFailed ReleaseState = "Failed"
)

// Release is the state of an addon's release.
type Release struct {
	// State of the release.
	State ReleaseState
	// Objects of the release's manifest, marked, each with its namespace: those that
	// health is taken from. Nil before there is a manifest.
	Objects []*unstructured.Unstructured
	// Chart and its version, such as postgresql-16.4.1.
	Chart string
	// Problem is why the release failed, or what it waits for. Nil when all is well.
	Problem *stack.Problem
	// Drift says what differed and was put right since the last call; empty otherwise.
	Drift string
}

// Publication is everything that is to be in a Git repository for a StackDeploy.
type Publication struct {
	// Stack is the operator's StackDeploy.
	Stack types.NamespacedName
	// Target is for whom, and where, the objects are.
	Target stack.Target
	// Source is the hub's StackDeploy, with the generation that the commit names.
	Source kubenestv1.StackSource
	// GitOps is where to commit.
	GitOps kubenestv1.GitOps
	// Credential is the content of the GitCredential input; nil without one. It must
	// never be logged.
	Credential map[string][]byte
	// Objects to publish, marked and checked. There are no Secrets among them.
	Objects []*unstructured.Unstructured
}

// Sync is what Argo CD makes of a Publication.
type Sync struct {
	// Commit that has the objects; empty until it is pushed.
	Commit string
	// Synced: the cluster has what Commit has.
	Synced bool
	// Healthy is Argo CD's own judgement.
	Healthy bool
	// Message of Argo CD, for people.
	Message string
	// Problem is why it is not synced. Nil when all is well, or on its way.
	Problem *stack.Problem
}
