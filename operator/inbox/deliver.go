// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/delivery"
)

// refusal is why something was not stored, and will not be when it is sent again.
type refusal struct {
	failure wire.DeliveryFailure
	message string
}

func (r *refusal) Error() string { return r.message }

// Deliver stores inputs, then the copy, and then removes inputs that it does not list.
// What the hub sends counts, even if it is of an earlier generation than the copy: a
// hub that was restored from a backup is right about what is wanted, and replicas do
// not overtake each other, since only the newest session's are heard.
func (b *Inbox) Deliver(ctx context.Context, d *wire.Deliver) wire.Delivered {
	b.mu.Lock()
	defer b.mu.Unlock()
	answer := wire.Delivered{Stack: d.Stack, Delivery: d.Delivery}
	there, err := b.read(ctx, d.Stack)
	if err == nil {
		err = b.store(ctx, d, there)
	}
	if err != nil {
		answer.Failure, answer.Message = failureOf(d, err)
		answer.Message = wire.Line(answer.Message, wire.MaxText)
	}
	return answer
}

// read the copy of a stack; nil if there is none.
func (b *Inbox) read(ctx context.Context, stack wire.Stack) (*kubenestv1.StackDeploy, error) {
	var s kubenestv1.StackDeploy
	err := b.o.Client.Get(ctx, b.keyOf(stack), &s)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none, and the caller knows
	case err != nil:
		return nil, fmt.Errorf("read the copy of StackDeploy %s: %w", stack, err)
	}
	return &s, nil
}

// store writes a delivery. There is what was there before, or nil.
func (b *Inbox) store(ctx context.Context, d *wire.Deliver, there *kubenestv1.StackDeploy) error {
	if d.Schema > kubenestv1.StackDeploySchema {
		return &refusal{wire.DeliverySchema, fmt.Sprintf(
			"it needs version %d of the StackDeploy schema, and this operator knows version %d: upgrade the operator on this cluster",
			d.Schema, kubenestv1.StackDeploySchema)}
	}
	var spec kubenestv1.StackDeploySpec
	if err := json.Unmarshal(d.Spec, &spec); err != nil {
		return &refusal{wire.DeliveryInvalid, "its spec can not be read: " + err.Error()}
	}
	applied, err := b.copyOf(d, &spec, there)
	if err != nil {
		return err
	}
	local := applied.GetName()
	if err := b.storeInputs(ctx, local, d, spec.Inputs); err != nil {
		b.prune(ctx, local, there)
		return err
	}
	// An apply is always strict: an older schema refuses what it would lose.
	err = b.o.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner(kubenestv1.FieldManagerOperator), client.ForceOwnership)
	if err != nil {
		b.prune(ctx, local, there)
		return fmt.Errorf("store StackDeploy %s/%s: %w", b.o.Namespace, local, err)
	}
	keep := &kubenestv1.StackDeploy{Spec: spec}
	if there != nil {
		keep.Annotations = there.Annotations
	}
	if err := b.o.Inputs.Prune(ctx, local, delivery.Kept(keep)); err != nil {
		b.o.Log.Error(err, "Could not remove inputs that nothing uses any more, trying again later", "stack", d.Stack)
	}
	return nil
}

// copyOf is the copy as it is to be. It is made of what came, and not of what this
// program knows of it, so that nothing of it is lost.
func (b *Inbox) copyOf(d *wire.Deliver, spec *kubenestv1.StackDeploySpec, there *kubenestv1.StackDeploy) (*unstructured.Unstructured, error) {
	fields := map[string]any{}
	if err := utiljson.Unmarshal(d.Spec, &fields); err != nil || fields == nil {
		return nil, &refusal{wire.DeliveryInvalid, "its spec can not be read: it is no object"}
	}
	fields["source"] = map[string]any{
		"namespace": d.Namespace, "name": d.Name, "uid": d.UID, "generation": d.Generation, "digest": d.Digest,
	}
	delete(fields, "removed")
	if there != nil && there.Spec.Removed {
		fields["removed"] = false // whoever asked for it: the hub wants it now
	}
	labels := map[string]string{
		kubenestv1.ManagedByLabel: kubenestv1.ManagedBy,
		kubenestv1.ProjectLabel:   kubenestv1.LabelValue(spec.Project.Name),
		kubenestv1.ClusterLabel:   kubenestv1.LabelValue(spec.ClusterID),
	}
	if spec.App != "" {
		labels[kubenestv1.AppLabel] = kubenestv1.LabelValue(spec.App)
	}
	key := b.keyOf(d.Stack)
	u := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	u.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("StackDeploy"))
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	u.SetLabels(labels)
	return u, nil
}

// storeInputs stores those that the spec lists in the revision that came.
func (b *Inbox) storeInputs(ctx context.Context, local string, d *wire.Deliver, listed []kubenestv1.StackInput) error {
	for i := range d.Inputs {
		in := &d.Inputs[i]
		input := kubenestv1.StackInput{Name: in.Name, Kind: kubenestv1.InputKind(in.Kind), Revision: in.Revision}
		if !slices.Contains(listed, input) {
			continue
		}
		if err := b.o.Inputs.Put(ctx, local, input, in.Data); err != nil {
			return err
		}
	}
	return nil
}

// prune removes inputs that were stored for a copy that could not be.
func (b *Inbox) prune(ctx context.Context, local string, there *kubenestv1.StackDeploy) {
	var keep []kubenestv1.StackInput
	if there != nil {
		keep = delivery.Kept(there)
	}
	if err := b.o.Inputs.Prune(ctx, local, keep); err != nil {
		b.o.Log.V(1).Info("Could not remove inputs that nothing uses, trying again later", "error", err.Error())
	}
}

// failureOf tells the hub whether sending the same again is of use.
func failureOf(d *wire.Deliver, err error) (wire.DeliveryFailure, string) {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return refused.failure, refused.message
	case isTooLarge(err):
		return wire.DeliveryInvalid, fmt.Sprintf("it is too large for this cluster's API server, with a spec of %d bytes: etcd takes objects of up to "+
			"1.5 MiB, what Kubernetes adds included, and Secrets of 1 MiB: make values smaller, or split the App (%v)", len(d.Spec), err)
	case isUnknownField(err):
		return wire.DeliverySchema, "this cluster's StackDeploy schema lacks a field of it: upgrade the operator on this cluster (" + err.Error() + ")"
	case meta.IsNoMatchError(err):
		return wire.DeliveryUnavailable, "this cluster has no StackDeploy CRD: a restart of the operator installs it (" + err.Error() + ")"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return wire.DeliveryInvalid, err.Error()
	default:
		return wire.DeliveryUnavailable, err.Error()
	}
}

// isTooLarge knows the words of etcd and of its client: there is no type for them.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large") ||
		strings.Contains(err.Error(), "message larger than max")
}

// isUnknownField knows the words of strict validation: there is no type for them.
func isUnknownField(err error) bool {
	return strings.Contains(err.Error(), "field not declared in schema") || strings.Contains(err.Error(), "unknown field")
}
