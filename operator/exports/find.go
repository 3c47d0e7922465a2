// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"context"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
)

// finder finds the exports of one addon.
type finder struct {
	client  kubernetes.Interface
	addon   *delivery.Addon
	objects []*unstructured.Unstructured
	release string
}

var releasePlaceholder = regexp.MustCompile(`\{\{-?\s*\.release\s*-?\}\}`)

// named puts the release into a declared name.
func (f *finder) named(name string) string {
	return releasePlaceholder.ReplaceAllLiteralString(name, f.release)
}

// find is all exports: those declared with a reference, those of the type that are not
// declared, and last the templates, which use the others.
func (f *finder) find(ctx context.Context) (map[string]string, error) {
	spec := f.addon.Component.AddonSpec
	values := map[string]string{}
	for i := range spec.Exports {
		e := &spec.Exports[i]
		var err error
		switch {
		case e.ServiceRef != nil:
			values[e.Name], err = f.service(ctx, e)
		case e.SecretKeyRef != nil:
			values[e.Name], err = f.secretKey(ctx, e)
		}
		if err != nil {
			return nil, err
		}
	}
	if c := conventions[spec.Type]; c != nil {
		if err := f.fill(ctx, c, values); err != nil {
			return nil, err
		}
	}
	for i := range spec.Exports {
		e := &spec.Exports[i]
		if e.Template != "" {
			text, err := execute(e, values, f.release, f.addon.Target.Namespace)
			if err != nil {
				return nil, err
			}
			values[e.Name] = text
		}
		if _, ok := values[e.Name]; !ok {
			return nil, failed("export %s is none that an addon of type %s has by itself: declare it with serviceRef, secretKeyRef or template",
				e.Name, spec.Type)
		}
	}
	return values, nil
}

// service is what a serviceRef exports: host:port, or one of them if it is called so.
func (f *finder) service(ctx context.Context, e *kubenestv1.Export) (string, error) {
	name := f.named(e.ServiceRef.Name)
	s, err := f.client.CoreV1().Services(f.addon.Target.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", failed("export %s names Service %s, which is not in namespace %s: the release has %s",
			e.Name, name, f.addon.Target.Namespace, f.list("Service"))
	}
	if err != nil {
		return "", fmt.Errorf("read Service %s: %w", name, err)
	}
	port, err := portOf(e, s)
	if err != nil {
		return "", err
	}
	at := internal(s, port)
	if e.External {
		if at, err = f.external(ctx, s, port); err != nil {
			return "", err
		}
	}
	switch e.Name {
	case exportHost:
		return at.host, nil
	case exportPort:
		return at.port, nil
	}
	return net.JoinHostPort(at.host, at.port), nil
}

// portOf is the port that a serviceRef names.
func portOf(e *kubenestv1.Export, s *corev1.Service) (*corev1.ServicePort, error) {
	if len(s.Spec.Ports) == 0 {
		return nil, failed("export %s names Service %s, which has no port", e.Name, s.Name)
	}
	wanted := e.ServiceRef.Port
	if wanted == nil {
		return &s.Spec.Ports[0], nil
	}
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; p.Name == wanted.StrVal && wanted.StrVal != "" || p.Port == wanted.IntVal && wanted.StrVal == "" {
			return p, nil
		}
	}
	return nil, failed("export %s names port %s of Service %s, which has %s", e.Name, wanted.String(), s.Name, portList(s))
}

func portList(s *corev1.Service) string {
	ports := make([]string, 0, len(s.Spec.Ports))
	for _, p := range s.Spec.Ports {
		ports = append(ports, strings.TrimSpace(fmt.Sprintf("%s %d", p.Name, p.Port)))
	}
	return strings.Join(ports, ", ")
}

// secretKey is what a secretKeyRef exports.
func (f *finder) secretKey(ctx context.Context, e *kubenestv1.Export) (string, error) {
	name := f.named(e.SecretKeyRef.Name)
	s, err := f.secret(ctx, name)
	if err != nil {
		return "", err
	}
	if s == nil {
		return "", failed("export %s names Secret %s, which is not in namespace %s: the release has %s",
			e.Name, name, f.addon.Target.Namespace, f.list("Secret"))
	}
	value, ok := s.Data[e.SecretKeyRef.Key]
	if !ok {
		return "", failed("export %s names key %s of Secret %s, which has %s", e.Name, e.SecretKeyRef.Key, name,
			strings.Join(slices.Sorted(maps.Keys(s.Data)), ", "))
	}
	return string(value), nil
}

// secret reads a Secret; it is nil if there is none.
func (f *finder) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	s, err := f.client.CoreV1().Secrets(f.addon.Target.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // as the comment says
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return s, nil
}

// of are the objects of a kind, as their type.
func of[T any](objects []*unstructured.Unstructured, kind string) []*T {
	var out []*T
	for _, o := range objects {
		if o.GetKind() != kind {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err == nil {
			out = append(out, typed)
		}
	}
	return out
}

// maxListed is how many names a message lists.
const maxListed = 10

// list names the release's objects of a kind.
func (f *finder) list(kind string) string {
	var names []string
	for _, o := range f.objects {
		if o.GetKind() == kind {
			names = append(names, o.GetName())
		}
	}
	if len(names) == 0 {
		return "none"
	}
	if len(names) > maxListed {
		names = append(names[:maxListed], "…")
	}
	return strings.Join(names, ", ")
}
