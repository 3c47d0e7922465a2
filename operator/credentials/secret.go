// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/agent"
)

const (
	// SessionSecret is the name of the Secret that holds what the hub handed over.
	SessionSecret = "kubenest-operator-session"
	// ClusterIDAnnotation on it says for which cluster id that was, so that an
	// operator installed anew under another record does not use it.
	ClusterIDAnnotation = "kubenest.io/cluster-id"

	fieldManager = "kubenest-operator"
	readTimeout  = 5 * time.Second
)

// stored is what the session Secret says. The zero value is that of none.
type stored struct {
	token *agent.Token
	ca    *string // empty for public authorities
}

// secretStore reads and writes the session Secret, of which it is the only writer.
type secretStore struct {
	secrets   corev1client.SecretInterface
	namespace string
}

// read is always live: a cached answer could miss what another operator stored just
// before this one became active.
func (s *secretStore) read(ctx context.Context, clusterID string) (stored, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	secret, err := s.secrets.Get(ctx, SessionSecret, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return stored{}, nil
	case apierrors.IsForbidden(err):
		return stored{}, fmt.Errorf("read Secret %s/%s: %w; a \"helm upgrade\" of the operator's chart restores its permissions",
			s.namespace, SessionSecret, err)
	case err != nil:
		return stored{}, fmt.Errorf("read Secret %s/%s: %w", s.namespace, SessionSecret, err)
	case secret.Annotations[ClusterIDAnnotation] != clusterID:
		return stored{}, nil
	}
	return parse(secret), nil
}

func parse(secret *corev1.Secret) stored {
	var out stored
	if token, err := agent.ParseToken(string(secret.Data[kubenestv1.ConnectionKeyToken])); err == nil {
		out.token = &token
	}
	if ca, ok := secret.Data[kubenestv1.ConnectionKeyCA]; ok && agent.CheckBundle(string(ca)) == nil {
		bundle := string(ca)
		out.ca = &bundle
	}
	return out
}

// write applies all that is stored: what an apply leaves out is removed.
func (s *secretStore) write(ctx context.Context, clusterID string, what stored) error {
	data := make(map[string][]byte, 2)
	if what.token != nil {
		data[kubenestv1.ConnectionKeyToken] = []byte(what.token.Raw())
	}
	if what.ca != nil {
		data[kubenestv1.ConnectionKeyCA] = []byte(*what.ca)
	}
	secret := corev1apply.Secret(SessionSecret, s.namespace).
		WithLabels(map[string]string{"app.kubernetes.io/managed-by": fieldManager}).
		WithAnnotations(map[string]string{ClusterIDAnnotation: clusterID}).
		WithType(corev1.SecretTypeOpaque).
		WithData(data)
	if _, err := s.secrets.Apply(ctx, secret, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", s.namespace, SessionSecret, err)
	}
	return nil
}
