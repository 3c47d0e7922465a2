// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

const (
	// FieldManagerCRDs owns what ApplyCRDs applies.
	FieldManagerCRDs = "kubenest-crds"
	// FieldManagerPolicies owns what ApplyPolicies applies.
	FieldManagerPolicies = "kubenest-policies"

	// establishTimeout bounds the wait for a CRD. It takes the API server a moment.
	establishTimeout = 30 * time.Second
	establishPoll    = 100 * time.Millisecond
)

// ApplyCRDs applies the named CRDs, or all if none is named, and waits until
// they are served. A CRD whose stored schema version is higher than the one at
// hand was applied by a newer program, and is left alone. c must not be a cached
// client; several replicas may do this at once.
func ApplyCRDs(ctx context.Context, c client.Client, names ...string) error {
	crds, err := load("crd/bases")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(crds, func(crd *unstructured.Unstructured) bool { return crd.GetName() == name }) {
			return fmt.Errorf("apply CRDs: there is no CRD named %q", name)
		}
	}
	for _, crd := range crds {
		if len(names) > 0 && !slices.Contains(names, crd.GetName()) {
			continue
		}
		if err := applyUnlessOlder(ctx, c, crd, FieldManagerCRDs); err != nil {
			return err
		}
		if err := awaitEstablished(ctx, c, crd.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// ApplyPolicies applies the admission policies, each before its binding,
// by the same rule as ApplyCRDs.
func ApplyPolicies(ctx context.Context, c client.Client) error {
	policies, err := load("policy")
	if err != nil {
		return err
	}
	for _, policy := range policies {
		if err := applyUnlessOlder(ctx, c, policy, FieldManagerPolicies); err != nil {
			return err
		}
	}
	return nil
}

// applyUnlessOlder applies an object unless the stored one has a higher schema
// version. The write succeeds only on what was compared: when somebody else
// writes in between, both are compared again.
func applyUnlessOlder(ctx context.Context, c client.Client, object *unstructured.Unstructured, manager string) error {
	what := object.GetKind() + " " + object.GetName()
	err := retry.OnError(raceBackoff(), lostRace, func() error {
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(object.GroupVersionKind())
		err := c.Get(ctx, client.ObjectKeyFromObject(object), stored)
		if apierrors.IsNotFound(err) {
			return c.Create(ctx, object.DeepCopy(), client.FieldOwner(manager))
		}
		if err != nil {
			return err
		}
		if theirs, ours := schemaVersion(stored), schemaVersion(object); theirs > ours {
			log.FromContext(ctx).Info("Leaving an object alone that a newer program applied",
				"object", what, "storedVersion", theirs, "version", ours)
			return nil
		}
		applied := object.DeepCopy()
		applied.SetResourceVersion(stored.GetResourceVersion())
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(manager), client.ForceOwnership)
	})
	if err != nil {
		return fmt.Errorf("apply %s: %w", what, err)
	}
	return nil
}

// raceBackoff is patient enough for a few replicas, and for the API server's own
// writes to a CRD's status.
func raceBackoff() wait.Backoff {
	return wait.Backoff{Steps: 10, Duration: 20 * time.Millisecond, Factor: 1.8, Jitter: 0.5, Cap: 2 * time.Second}
}

// lostRace reports whether somebody else wrote first.
func lostRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// schemaVersion of an object, 0 where there is none that can be read.
func schemaVersion(object *unstructured.Unstructured) int {
	version, err := strconv.Atoi(object.GetAnnotations()[kubenestv1.SchemaVersionAnnotation])
	if err != nil {
		return 0
	}
	return version
}

// awaitEstablished waits until a CRD is served.
func awaitEstablished(ctx context.Context, c client.Client, name string) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, establishPoll, establishTimeout, true, func(ctx context.Context) (bool, error) {
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err := c.Get(ctx, client.ObjectKey{Name: name}, stored); err != nil {
			return false, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, &crd); err != nil {
			return false, fmt.Errorf("read status: %w", err)
		}
		for _, condition := range crd.Status.Conditions {
			switch {
			case condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue:
				return true, nil
			case condition.Status == apiextensionsv1.ConditionFalse:
				last = condition.Message
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait until CRD %s is served (last heard: %q): %w", name, last, err)
	}
	return nil
}
