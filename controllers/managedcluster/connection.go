// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// connection is the data of a connection Secret: what the operator chart's
// existingSecret reads, and a values.yaml that needs no Secret at all.
func (r *RegistrationReconciler) connection(record *kubenestv1.ManagedCluster, token string) (map[string][]byte, error) {
	values, err := r.values(record, token)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		kubenestv1.ConnectionKeyToken:     []byte(token),
		kubenestv1.ConnectionKeyClusterID: []byte(record.ID()),
		kubenestv1.ConnectionKeyHubURL:    []byte(r.HubURL),
		kubenestv1.ConnectionKeyCA:        []byte(r.CABundle()),
		kubenestv1.ConnectionKeyValues:    values,
	}, nil
}

// chartValues are the values of the operator chart that the hub knows.
type chartValues struct {
	Hub     chartHub     `json:"hub"`
	Cluster chartCluster `json:"cluster"`
}

type chartHub struct {
	URL      string `json:"url"`
	CABundle string `json:"caBundle,omitempty"`
}

type chartCluster struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Token string `json:"token"`
}

// values generates values.yaml: the record's own values, merged with those that
// the hub knows, which win. Whoever may edit a record but not read its Secret must
// not be able to send the token elsewhere at the next install.
func (r *RegistrationReconciler) values(record *kubenestv1.ManagedCluster, token string) ([]byte, error) {
	generated, err := json.Marshal(chartValues{
		Hub:     chartHub{URL: r.HubURL, CABundle: r.CABundle()},
		Cluster: chartCluster{ID: record.ID(), Name: record.Name, Token: token},
	})
	if err != nil {
		return nil, fmt.Errorf("generate values.yaml: %w", err)
	}
	merged := map[string]any{}
	if o := record.Spec.Operator; o != nil && o.Values != nil && len(o.Values.Raw) > 0 {
		if err := json.Unmarshal(o.Values.Raw, &merged); err != nil {
			return nil, fmt.Errorf("read spec.operator.values: %w", err)
		}
	}
	var known map[string]any
	if err := json.Unmarshal(generated, &known); err != nil {
		return nil, fmt.Errorf("generate values.yaml: %w", err)
	}
	values, err := yaml.Marshal(overlay(merged, known))
	if err != nil {
		return nil, fmt.Errorf("write values.yaml: %w", err)
	}
	return values, nil
}

// overlay merges values as Helm does, key by key. A null stays: it unsets a
// chart's default.
func overlay(values, over map[string]any) map[string]any {
	if values == nil {
		values = map[string]any{}
	}
	for key, value := range over {
		if inner, ok := value.(map[string]any); ok {
			below, _ := values[key].(map[string]any)
			value = overlay(below, inner)
		}
		values[key] = value
	}
	return values
}

func ownedBy(secret *corev1.Secret, record *kubenestv1.ManagedCluster) bool {
	return metav1.IsControlledBy(secret, record)
}

// applySecret writes the connection Secret, unless one of that name is somebody
// else's: the label is kubenest's mark, and survives a record that was re-applied
// under a new UID.
func (r *RegistrationReconciler) applySecret(ctx context.Context, record *kubenestv1.ManagedCluster, data map[string][]byte) error {
	if err := r.refuseForeign(ctx, record); err != nil {
		return err
	}
	owner := metav1ac.OwnerReference().
		WithAPIVersion(kubenestv1.GroupVersion.String()).
		WithKind("ManagedCluster").
		WithName(record.Name).
		WithUID(record.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
	secret := corev1ac.Secret(record.ConnectionSecretName(), record.Namespace).
		WithLabels(map[string]string{kubenestv1.ConnectionLabel: "true"}).
		WithOwnerReferences(owner).
		WithType(corev1.SecretTypeOpaque).
		WithData(data)
	err := r.Client.Apply(ctx, secret, client.FieldOwner(kubenestv1.FieldManagerRegistration), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", record.ConnectionSecretName(), err)
	}
	return nil
}

func (r *RegistrationReconciler) refuseForeign(ctx context.Context, record *kubenestv1.ManagedCluster) error {
	var found corev1.Secret
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: record.Namespace, Name: record.ConnectionSecretName()}, &found)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read Secret %s: %w", record.ConnectionSecretName(), err)
	case found.Labels[kubenestv1.ConnectionLabel] != "true" && !ownedBy(&found, record):
		return fmt.Errorf("secret %s exists and is not kubenest's: delete or rename it, or give it the label %s=true to have it overwritten",
			record.ConnectionSecretName(), kubenestv1.ConnectionLabel)
	}
	return nil
}

// deleteSecret removes the connection Secret of a cluster that was given up.
func (r *RegistrationReconciler) deleteSecret(ctx context.Context, record *kubenestv1.ManagedCluster) error {
	var secret corev1.Secret
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: record.Namespace, Name: record.ConnectionSecretName()}, &secret)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if !ownedBy(&secret, record) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, &secret, client.Preconditions{UID: &secret.UID}))
}
