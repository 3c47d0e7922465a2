// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secret opens and follows a Secret that every operator in the field
// depends on: the hub's signing keys, and the hub's own CA.
package secret

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Vital is a Secret whose loss would lock every operator out. It is made once,
// and never again without a person's word.
type Vital struct {
	// Client must not be a cached one.
	Client client.WithWatch
	Ref    types.NamespacedName
	// Holds says in an error what is in the Secret, such as "the signing keys".
	Holds string
	// InUse reports whether any operator may depend on it already.
	InUse func(context.Context) (bool, error)
	// Make makes the content.
	Make func() (map[string][]byte, error)
}

// LostError says that a Secret in use is gone, and what to do.
type LostError struct {
	Ref   types.NamespacedName
	Holds string
}

// Error is for the person who starts the hub.
func (e *LostError) Error() string {
	return fmt.Sprintf("Secret %[1]s with %[2]s does not exist, but there are cluster records whose operators rely on it: "+
		"a new one would lock all of them out. Restore the Secret from a backup and start the hub again. "+
		"If there is no backup, either delete all ManagedClusters, or allow a new Secret by making an empty one "+
		"(kubectl -n %[3]s create secret generic %[4]s), start the hub, and install each cluster's operator again "+
		"with the values of its connection Secret", e.Ref, e.Holds, e.Ref.Namespace, e.Ref.Name)
}

// Open reads the Secret. If it does not exist and is not in use, or is empty,
// it makes the content; of several replicas that do so at once, one wins and
// all return its content. The error is a *LostError if the Secret is in use and
// gone.
func (v *Vital) Open(ctx context.Context) (*corev1.Secret, error) {
	var found corev1.Secret
	err := v.Client.Get(ctx, v.Ref, &found)
	switch {
	case err == nil && len(found.Data) > 0:
		return &found, nil
	case err == nil:
		return v.fill(ctx, &found)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read Secret %s: %w", v.Ref, err)
	}
	inUse, err := v.InUse(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find out whether Secret %s was in use: %w", v.Ref, err)
	case inUse:
		return nil, &LostError{Ref: v.Ref, Holds: v.Holds}
	}
	return v.fill(ctx, nil)
}

// fill writes the content: into an empty Secret, or into one it makes.
func (v *Vital) fill(ctx context.Context, empty *corev1.Secret) (*corev1.Secret, error) {
	data, err := v.Make()
	if err != nil {
		return nil, err
	}
	write := func(s *corev1.Secret) error { return v.Client.Update(ctx, s) } // of this resourceVersion only
	filled := empty
	if filled == nil {
		filled = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v.Ref.Namespace, Name: v.Ref.Name}}
		write = func(s *corev1.Secret) error { return v.Client.Create(ctx, s) }
	}
	filled.Data = data
	err = write(filled)
	switch {
	case err == nil:
		return filled, nil
	case !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err):
		return nil, fmt.Errorf("write Secret %s: %w", v.Ref, err)
	}
	var theirs corev1.Secret // another replica was first
	if err := v.Client.Get(ctx, v.Ref, &theirs); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", v.Ref, err)
	}
	return &theirs, nil
}

// Follow calls changed with the Secret as it is and whenever it changes, and
// with nil when it is gone. It returns when ctx ends, and outlasts failures of
// the API server until then.
func (v *Vital) Follow(ctx context.Context, changed func(*corev1.Secret)) {
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				var list corev1.SecretList
				err := v.Client.List(ctx, &list, v.only(&o))
				return &list, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return v.Client.Watch(ctx, &corev1.SecretList{}, v.only(&o))
			},
		}, v.Client),
		ObjectType: &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { changed(o.(*corev1.Secret)) },
			UpdateFunc: func(_, o any) { changed(o.(*corev1.Secret)) },
			DeleteFunc: func(any) { changed(nil) },
		},
	})
	informer.RunWithContext(ctx)
}

// only narrows a request to the one Secret, which is also all that a Role with
// resourceNames allows.
func (v *Vital) only(raw *metav1.ListOptions) *client.ListOptions {
	return &client.ListOptions{
		Namespace:     v.Ref.Namespace,
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, v.Ref.Name),
		Raw:           raw,
	}
}
