// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// cacheOptions restrict the caches to what the hub needs: records, and the
// Secrets that it made itself.
func cacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {
				Label:     labels.SelectorFromSet(labels.Set{kubenestv1.ConnectionLabel: "true"}),
				Transform: ownSecretsOnly,
			},
		},
	}
}

// ownSecretsOnly empties Secrets that are not a record's: anybody may put the
// label on a Secret of theirs, of any size.
func ownSecretsOnly(o any) (any, error) {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return o, nil
	}
	secret.ManagedFields = nil
	if owner := metav1.GetControllerOf(secret); owner == nil || owner.Kind != "ManagedCluster" {
		secret.Data = nil
	}
	return secret, nil
}

// borrowed is the first manager's cache, lent to a second manager that comes
// and goes. It does not start what runs already, and takes the second manager's
// event handlers off again when that one ends: each election would leave a set
// behind otherwise.
type borrowed struct {
	cache.Cache

	mu       sync.Mutex
	handlers []func() error
}

// Start holds until the borrower ends.
func (b *borrowed) Start(ctx context.Context) error {
	<-ctx.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, 0, len(b.handlers))
	for _, remove := range b.handlers {
		errs = append(errs, remove())
	}
	b.handlers = nil
	return errors.Join(errs...)
}

// GetInformer gives an informer that remembers the handlers added to it.
func (b *borrowed) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := b.Cache.GetInformer(ctx, o, opts...)
	if err != nil {
		return nil, err
	}
	return &borrowedInformer{Informer: informer, cache: b}, nil
}

type borrowedInformer struct {
	cache.Informer
	cache *borrowed
}

func (i *borrowedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.remember(i.Informer.AddEventHandler(h))
}

func (i *borrowedInformer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, resync time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.remember(i.Informer.AddEventHandlerWithResyncPeriod(h, resync))
}

func (i *borrowedInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.remember(i.Informer.AddEventHandlerWithOptions(h, o))
}

func (i *borrowedInformer) remember(r toolscache.ResourceEventHandlerRegistration, err error) (toolscache.ResourceEventHandlerRegistration, error) {
	if err != nil {
		return nil, err
	}
	i.cache.mu.Lock()
	defer i.cache.mu.Unlock()
	i.cache.handlers = append(i.cache.handlers, func() error { return i.Informer.RemoveEventHandler(r) })
	return r, nil
}
