// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

const (
	// StackLabel on a kept input is the StackDeploy of this cluster that it is for, cut
	// as labels are.
	StackLabel = "kubenest.io/input-of"
	// StackAnnotation is that StackDeploy's name in full, and the others say which of
	// its inputs this is.
	StackAnnotation    = "kubenest.io/input-of"
	KindAnnotation     = "kubenest.io/input-kind"
	NameAnnotation     = "kubenest.io/input-name"
	RevisionAnnotation = "kubenest.io/input-revision"
)

// ErrMissing is in the error about an input that is not there, or not in the revision
// that was asked for: it is on its way.
var ErrMissing = errors.New("the hub has not sent it yet")

// Name is what the names of an input's Secrets begin with; there is one for each
// revision.
func Name(localName string, kind kubenestv1.InputKind, name string) string {
	return "kubenest-input-" + hash(localName+"/"+string(kind)+"/"+name)
}

// secretName of one revision.
func secretName(localName string, in *kubenestv1.StackInput) string {
	return Name(localName, in.Kind, in.Name) + "-" + hash(in.Revision)
}

func hash(s string) string {
	const bytes = 10 // two inputs of a cluster do not meet by chance
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:bytes])
}

// Store reads and writes inputs.
type Store struct {
	// Client reads Secrets from the API server, not from a cache: what was stored just
	// now has to be found.
	Client client.Client
	// Namespace that holds the inputs, and no other Secrets: the operator may read all in it.
	Namespace string
}

// Get reads an input of the StackDeploy named local, in the revision that the spec
// lists. The data may be secret. Without it the error is ErrMissing.
func (s Store) Get(ctx context.Context, local string, in kubenestv1.StackInput) (map[string][]byte, error) {
	if in.Revision == "" {
		return nil, fmt.Errorf("input %s %q: %w", in.Kind, in.Name, ErrMissing)
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: s.Namespace, Name: secretName(local, &in)}
	err := s.Client.Get(ctx, key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("input %s %q: %w", in.Kind, in.Name, ErrMissing)
	case err != nil:
		return nil, fmt.Errorf("read Secret %s with input %s %q: %w", key, in.Kind, in.Name, err)
	case !secret.DeletionTimestamp.IsZero() || secret.Annotations[StackAnnotation] != local || of(&secret) != in:
		return nil, fmt.Errorf("input %s %q: %w", in.Kind, in.Name, ErrMissing)
	}
	return secret.Data, nil
}

// Put stores an input of the StackDeploy named local. What is there of other revisions
// stays until Prune.
func (s Store) Put(ctx context.Context, local string, in kubenestv1.StackInput, data map[string][]byte) error {
	if in.Revision == "" {
		return fmt.Errorf("store input %s %q: it has no revision", in.Kind, in.Name)
	}
	secret := corev1apply.Secret(secretName(local, &in), s.Namespace).
		WithLabels(map[string]string{
			kubenestv1.ManagedByLabel: kubenestv1.ManagedBy,
			StackLabel:                kubenestv1.LabelValue(local),
		}).
		WithAnnotations(map[string]string{
			StackAnnotation: local, KindAnnotation: string(in.Kind), NameAnnotation: in.Name, RevisionAnnotation: in.Revision,
		}).
		WithType(corev1.SecretTypeOpaque).
		WithData(data)
	err := s.Client.Apply(ctx, secret, client.FieldOwner(kubenestv1.FieldManagerOperator), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("store input %s %q in Secret %s/%s: %w", in.Kind, in.Name, s.Namespace, *secret.Name, err)
	}
	return nil
}

// Prune removes all inputs of the StackDeploy named local but those to keep.
func (s Store) Prune(ctx context.Context, local string, keep []kubenestv1.StackInput) error {
	labels := client.MatchingLabels{StackLabel: kubenestv1.LabelValue(local)}
	return s.remove(ctx, labels, func(secret *metav1.PartialObjectMetadata) bool {
		return secret.Annotations[StackAnnotation] == local && !slices.Contains(keep, of(secret))
	})
}

// Sweep removes all inputs but those to keep, of the StackDeploy named local.
func (s Store) Sweep(ctx context.Context, keep func(local string, in kubenestv1.StackInput) bool) error {
	return s.remove(ctx, client.HasLabels{StackLabel}, func(secret *metav1.PartialObjectMetadata) bool {
		return !keep(secret.Annotations[StackAnnotation], of(secret))
	})
}

// remove removes of the Secrets with some labels those that are meant. It reads their
// metadata only.
func (s Store) remove(ctx context.Context, labels client.ListOption, meant func(*metav1.PartialObjectMetadata) bool) error {
	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace), labels); err != nil {
		return fmt.Errorf("list the inputs in namespace %s: %w", s.Namespace, err)
	}
	var errs []error
	for i := range list.Items {
		secret := &list.Items[i]
		if !meant(secret) {
			continue
		}
		err := s.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("remove Secret %s/%s: %w", s.Namespace, secret.Name, err))
		}
	}
	return errors.Join(errs...)
}

// of tells which input a Secret holds.
func of(secret metav1.Object) kubenestv1.StackInput {
	annotations := secret.GetAnnotations()
	return kubenestv1.StackInput{
		Name: annotations[NameAnnotation], Kind: kubenestv1.InputKind(annotations[KindAnnotation]), Revision: annotations[RevisionAnnotation],
	}
}
