// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

const (
	// SaltAnnotation on a Secret with exports makes its revision tell nothing of its
	// data.
	SaltAnnotation = "kubenest.io/exports-salt"
	saltBytes      = 16
	revisionBytes  = 8
	// Clients are not held back more than API priority and fairness does.
	clientQPS   = 50
	clientBurst = 100
)

// Publisher publishes exports. It is safe for concurrent use.
type Publisher struct {
	clients *stack.Clients[kubernetes.Interface]
}

// New makes a publisher; config is the operator's own.
func New(config *rest.Config) *Publisher {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = clientQPS, clientBurst
	return &Publisher{clients: stack.NewClients(config, func(as *rest.Config) (kubernetes.Interface, error) {
		return kubernetes.NewForConfig(as)
	})}
}

// Ensure keeps the Secret with an addon's exports as the release's objects have them,
// and tells their names and the Secret's revision, which is empty if there are none.
// A *stack.Problem says what they wait for, or what has to be declared; then what was
// published before stays.
func (p *Publisher) Ensure(ctx context.Context, a *delivery.Addon, objects []*unstructured.Unstructured) ([]string, string, error) {
	client, err := p.clients.For(a.Target.Namespace)
	if err != nil {
		return nil, "", err
	}
	f := &finder{client: client, addon: a, objects: objects, release: kubenestv1.ObjectName(a.Target.App, a.Component.Name)}
	data, err := f.find(ctx)
	if err != nil {
		return nil, "", err
	}
	if len(data) == 0 {
		return nil, "", p.Remove(ctx, a)
	}
	revision, err := p.write(ctx, client, a, data)
	if err != nil {
		return nil, "", err
	}
	return slices.Sorted(maps.Keys(data)), revision, nil
}

// write keeps the Secret, and leaves it alone if it is as it should be.
func (p *Publisher) write(ctx context.Context, client kubernetes.Interface, a *delivery.Addon, data map[string]string) (string, error) {
	size := 0
	encoded := map[string][]byte{}
	for name, value := range data {
		size += len(value)
		encoded[name] = []byte(value)
	}
	if size > wire.MaxExports {
		return "", failed("the exports have %d bytes, at most %d are allowed", size, wire.MaxExports)
	}
	name := kubenestv1.ExportsSecretName(a.Target.App, a.Component.Name)
	labels := a.Target.Labels(a.Component.Name)
	labels[kubenestv1.ExportsLabel], labels[kubenestv1.ManagedByLabel] = "true", kubenestv1.ManagedBy
	secrets := client.CoreV1().Secrets(a.Target.Namespace)
	existing, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("read Secret %s: %w", name, err)
	}
	salt := ""
	if err == nil {
		if !a.Target.Owns(existing) {
			return "", notOurs(name, a.Target.Namespace)
		}
		salt = existing.Annotations[SaltAnnotation]
	}
	if raw, err := hex.DecodeString(salt); err != nil || len(raw) != saltBytes {
		salt = newSalt()
	}
	revision := revisionOf(salt, encoded)
	annotations := map[string]string{
		kubenestv1.OwnerAnnotation: a.Target.Owner, kubenestv1.ExportsRevisionAnnotation: revision, SaltAnnotation: salt,
	}
	if contains(existing.Labels, labels) && contains(existing.Annotations, annotations) && maps.EqualFunc(existing.Data, encoded, slices.Equal) {
		return revision, nil
	}
	wanted := corev1ac.Secret(name, a.Target.Namespace).WithType(corev1.SecretTypeOpaque).
		WithLabels(labels).WithAnnotations(annotations).WithData(encoded)
	if _, err := secrets.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: kubenestv1.FieldManagerOperator, Force: true}); err != nil {
		return "", fmt.Errorf("write Secret %s: %w", name, err)
	}
	return revision, nil
}

// Remove removes the Secret with an addon's exports, if it is this App's.
func (p *Publisher) Remove(ctx context.Context, a *delivery.Addon) error {
	client, err := p.clients.For(a.Target.Namespace)
	if err != nil {
		return err
	}
	name := kubenestv1.ExportsSecretName(a.Target.App, a.Component.Name)
	secrets := client.CoreV1().Secrets(a.Target.Namespace)
	existing, err := secrets.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read Secret %s: %w", name, err)
	case !a.Target.Owns(existing) || existing.Labels[kubenestv1.ExportsLabel] != "true":
		return nil // another's
	}
	err = secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &existing.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Secret %s: %w", name, err)
	}
	return nil
}

func newSalt() string {
	var raw [saltBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

// revisionOf changes when the data does. Without the salt, which stays in the Secret,
// nobody can try passwords against it.
func revisionOf(salt string, data map[string][]byte) string {
	text, err := json.Marshal(data) // keys sorted
	if err != nil {
		text = nil // bytes can be encoded
	}
	mac := hmac.New(sha256.New, []byte(salt))
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil)[:revisionBytes])
}

func contains(all, some map[string]string) bool {
	for k, v := range some {
		if got, ok := all[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func notOurs(name, namespace string) error {
	return stack.Refuse(kubenestv1.ReasonObjectNotOurs, "Secret %s exists in namespace %s and is not this App's: it is left alone. Delete or rename it, or give the component another name",
		name, namespace)
}

// failed is the Problem of exports that can't be made.
func failed(format string, args ...any) error {
	return stack.Refuse(kubenestv1.ReasonExportsFailed, format, args...)
}
