// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps the signing keys of package token in a Secret, and
// follows it while the hub runs.
//
// # The Secret
//
//	issuer     this installation's name in tokens; it never changes
//	<kid>.pem  a key, as token.Parse takes it; one entry a key
//
// To replace a key: add the new one as <kid>.pem, with a greater id than the
// present keys'; wait until every record's token has been issued anew; remove
// the old entry.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kubenest/kubenest/hub/secret"
	"github.com/kubenest/kubenest/hub/token"
)

const (
	// DefaultSecret is the usual name of the Secret, in the hub's namespace.
	DefaultSecret = "kubenest-hub-signing-keys" //nolint:gosec // a name

	issuerKey = "issuer"
	keySuffix = ".pem"
)

// Store gives the keyset in force.
type Store struct {
	vital  *secret.Vital
	log    logr.Logger
	keyset atomic.Pointer[token.Keyset]

	mu       sync.Mutex
	onChange []func()
}

// Open reads the keys, and makes them on the very first start. It refuses to
// start, with words for the user, when the Secret is unusable, or is gone
// although recordsExist says that operators hold tokens. c must not be a cached
// client.
func Open(ctx context.Context, c client.WithWatch, ref types.NamespacedName, recordsExist func(context.Context) (bool, error)) (*Store, error) {
	s := &Store{
		vital: &secret.Vital{Client: c, Ref: ref, Holds: "the signing keys of all tokens", InUse: recordsExist, Make: makeKeys},
		log:   log.FromContext(ctx).WithValues("secret", ref.String()),
	}
	held, err := s.vital.Open(ctx)
	if err != nil {
		return nil, err
	}
	keyset, err := parse(held)
	if err != nil {
		return nil, fmt.Errorf("signing keys in Secret %s cannot be used: %w; correct the Secret, or restore it from a backup", ref, err)
	}
	s.keyset.Store(keyset)
	s.log.Info("Signing keys loaded", "issuer", keyset.Issuer(), "signingKey", keyset.SigningKeyID(), "keys", keyset.KeyIDs())
	return s, nil
}

// makeKeys makes the first content of the Secret.
func makeKeys() (map[string][]byte, error) {
	kid, block, err := token.NewKey(time.Now())
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		issuerKey:       []byte("kubenest/" + string(uuid.NewUUID())),
		kid + keySuffix: block,
	}, nil
}

func parse(held *corev1.Secret) (*token.Keyset, error) {
	issuer := strings.TrimSpace(string(held.Data[issuerKey]))
	if issuer == "" {
		return nil, fmt.Errorf("entry %q is missing", issuerKey)
	}
	pems := make(map[string][]byte, len(held.Data))
	for entry, block := range held.Data {
		if kid, ok := strings.CutSuffix(entry, keySuffix); ok {
			pems[kid] = block
		}
	}
	if len(pems) == 0 {
		return nil, fmt.Errorf("no entry ends in %q", keySuffix)
	}
	return token.Parse(issuer, pems)
}

// Keyset returns the keys in force.
func (s *Store) Keyset() *token.Keyset { return s.keyset.Load() }

// OnChange adds a function that is called after the keyset has changed. It must
// return soon: the next change waits for it.
func (s *Store) OnChange(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange = append(s.onChange, fn)
}

// Run follows the Secret until ctx ends; it returns nil then. A change that
// cannot be used is logged, and the keys in force stay, as they do when the
// Secret is deleted.
func (s *Store) Run(ctx context.Context) error {
	s.vital.Follow(ctx, s.changed)
	return nil
}

func (s *Store) changed(held *corev1.Secret) {
	if held == nil {
		s.log.Error(errors.New("the Secret was deleted"),
			"Signing keys are gone: the hub goes on with those in memory, but cannot start again without them. Restore the Secret")
		return
	}
	before := s.Keyset()
	keyset, err := parse(held)
	if err == nil && keyset.Issuer() != before.Issuer() {
		err = fmt.Errorf("the issuer changed from %q to %q, which would void every token", before.Issuer(), keyset.Issuer())
	}
	if err != nil {
		s.log.Error(err, "Changed signing keys cannot be used: the hub goes on with those it has. Correct the Secret before the hub starts again")
		return
	}
	if keyset.Equal(before) {
		return
	}
	s.keyset.Store(keyset)
	s.log.Info("Signing keys changed", "signingKey", keyset.SigningKeyID(), "keys", keyset.KeyIDs())
	s.mu.Lock()
	callbacks := slices.Clone(s.onChange)
	s.mu.Unlock()
	for _, fn := range callbacks {
		fn()
	}
}
