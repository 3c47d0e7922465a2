// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/fingerprint"
)

// content is an input as it is now.
type content struct {
	data     map[string][]byte
	revision string
	// problem says why there is none, and what to do.
	problem string
}

// inputs are what travels beside a StackDeploy, as its spec lists it. Those without
// a revision have no content yet, and stay behind. If one is missing, or is not the
// one that the spec means, the condition says so.
func (r *DeliveryReconciler) inputs(ctx context.Context, t *task) ([]wire.Input, *metav1.Condition, error) {
	var inputs []wire.Input
	for _, in := range t.stack.Spec.Inputs {
		if in.Revision == "" {
			continue
		}
		c, err := r.input(ctx, t, &in)
		switch {
		case err != nil:
			return nil, nil, err
		case c.problem != "":
			return nil, inputMissing(c.problem), nil
		case c.revision != in.Revision:
			return nil, inputMissing(fmt.Sprintf("%s %s has changed; this is brought up to date by itself.", in.Kind, in.Name)), nil
		}
		inputs = append(inputs, wire.Input{Name: in.Name, Kind: string(in.Kind), Revision: in.Revision, Data: c.data})
	}
	return inputs, nil, nil
}

func (r *DeliveryReconciler) input(ctx context.Context, t *task, in *kubenestv1.StackInput) (content, error) {
	switch in.Kind {
	case kubenestv1.InputExports:
		return r.exportsInput(ctx, t, in.Name)
	case kubenestv1.InputChart:
		return r.chartInput(ctx, client.ObjectKey{Namespace: t.stack.Namespace, Name: in.Name})
	case kubenestv1.InputGitCredential:
		return r.credentialInput(ctx, client.ObjectKey{Namespace: t.record.Namespace, Name: in.Name})
	default:
		return content{problem: fmt.Sprintf("Input %s is of kind %q, which this hub does not know: upgrade the hub.", in.Name, in.Kind)}, nil
	}
}

// exportsInput is a Secret that the hub made of this App's exports, and no other:
// a Secret of somebody's choice must not travel.
func (r *DeliveryReconciler) exportsInput(ctx context.Context, t *task, name string) (content, error) {
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: t.stack.Namespace, Name: name}
	if err := r.Live.Get(ctx, key, &secret); apierrors.IsNotFound(err) {
		return content{problem: fmt.Sprintf("Secret %s with exports of another cluster is not there yet.", key)}, nil
	} else if err != nil {
		return content{}, fmt.Errorf("read exports %s: %w", key, err)
	}
	owner := metav1.GetControllerOf(&secret)
	if secret.Labels[kubenestv1.ExportsLabel] != "true" || owner == nil || owner.Kind != "App" || owner.Name != t.stack.Spec.App {
		return content{problem: fmt.Sprintf("Secret %s is not one with exports that kubenest made for App %s: rename or delete it.", key, t.stack.Spec.App)}, nil
	}
	return content{data: secret.Data, revision: secret.Annotations[kubenestv1.ExportsRevisionAnnotation]}, nil
}

func (r *DeliveryReconciler) chartInput(ctx context.Context, key client.ObjectKey) (content, error) {
	var chart corev1.ConfigMap
	if err := r.Live.Get(ctx, key, &chart); apierrors.IsNotFound(err) {
		return content{problem: fmt.Sprintf("ConfigMap %s with a chart is not there: create it, as addonSpec.chart.configMapRef says.", key)}, nil
	} else if err != nil {
		return content{}, fmt.Errorf("read chart %s: %w", key, err)
	}
	switch {
	case chart.Labels[kubenestv1.ChartLabel] != "true":
		return content{problem: fmt.Sprintf("ConfigMap %s is not marked as a chart: label it with %s=true.", key, kubenestv1.ChartLabel)}, nil
	case len(chart.BinaryData) != 1:
		return content{problem: fmt.Sprintf("ConfigMap %s has %d keys in binaryData, want one with the packaged chart: kubectl create configmap %s --from-file=<chart>.tgz",
			key, len(chart.BinaryData), key.Name)}, nil
	}
	found := content{data: chart.BinaryData}
	for _, packaged := range chart.BinaryData {
		found.revision = fingerprint.OfChart(packaged)
	}
	return found, nil
}

// credentialInput is a Secret of the type for it: no other may be sent to a
// repository of somebody's choice.
func (r *DeliveryReconciler) credentialInput(ctx context.Context, key client.ObjectKey) (content, error) {
	var secret corev1.Secret
	if err := r.Live.Get(ctx, key, &secret); apierrors.IsNotFound(err) {
		return content{problem: fmt.Sprintf("Secret %s, which the cluster's spec.gitops.secretRef names, is not there: create it with type %s.", key, kubenestv1.SecretTypeGitCredential)}, nil
	} else if err != nil {
		return content{}, fmt.Errorf("read Git credential %s: %w", key, err)
	}
	if secret.Type != kubenestv1.SecretTypeGitCredential {
		return content{problem: fmt.Sprintf("Secret %s, which the cluster's spec.gitops.secretRef names, is not of type %s: create it anew with that type.", key, kubenestv1.SecretTypeGitCredential)}, nil
	}
	return content{data: secret.Data, revision: fingerprint.OfObject(&secret)}, nil
}
