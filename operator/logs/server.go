// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/stack"
	"github.com/kubenest/kubenest/operator/streams"
)

const (
	// prepareTimeout bounds what has to be looked up before the answer.
	prepareTimeout = 10 * time.Second
	// maxPods bounds the pods that are looked at.
	maxPods = 500
)

// Server serves logs.
type Server struct {
	config *rest.Config
	own    corev1client.NamespacesGetter
	slots  chan struct{} // holds one for each stream that is served
	log    logr.Logger
}

// New makes a server with the operator's own rights.
func New(config *rest.Config, log logr.Logger) (*Server, error) {
	own, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for logs: %w", err)
	}
	return &Server{config: config, own: own, slots: make(chan struct{}, wire.MaxLogStreams), log: log}, nil
}

// Prepare finds the pods.
func (s *Server) Prepare(ctx context.Context, header *wire.StreamHeader) (streams.Run, *wire.StreamAnswer) {
	var request wire.LogRequest
	if err := header.Read(&request); err != nil {
		return nil, wire.FailStream(wire.StreamInvalid, "The request for logs makes no sense: %v", err)
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return nil, wire.FailStream(wire.StreamBusy,
			"The operator of this cluster serves %d streams of logs already: close one, or try again later.", cap(s.slots))
	}
	t, failure := s.prepare(ctx, request)
	if failure != nil {
		<-s.slots
		return nil, failure
	}
	return func(ctx context.Context, w *streams.Writer) wire.StreamEnd {
		defer func() { <-s.slots }()
		t.out = newOutput(w, request.LimitBytes)
		return t.run(ctx)
	}, nil
}

func (s *Server) prepare(ctx context.Context, request wire.LogRequest) (*tail, *wire.StreamAnswer) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if failure := s.checkNamespace(ctx, request.Namespace); failure != nil {
		return nil, failure
	}
	pods, err := s.pods(request.Namespace)
	if err != nil {
		return nil, wire.FailStream(wire.StreamUnavailable, "%v", err)
	}
	t := newTail(pods, request, s.log)
	list, err := t.list(ctx)
	switch {
	case err != nil:
		return nil, failureOf(err, "the pods of namespace "+request.Namespace)
	case request.Pod != "" && len(list.Items) == 0:
		return nil, wire.FailStream(wire.StreamNotFound, "Pod %s/%s is not there, or is not of %s.", request.Namespace, request.Pod, t.what())
	case len(list.Items) == 0 && !request.Follow:
		return nil, wire.FailStream(wire.StreamNotFound, "There are no pods of %s in namespace %s now.", t.what(), request.Namespace)
	}
	if request.Container != "" && len(list.Items) > 0 {
		names := []string{}
		for i := range list.Items {
			names = append(names, containerNames(&list.Items[i])...)
		}
		if !slices.Contains(names, request.Container) {
			slices.Sort(names)
			return nil, wire.FailStream(wire.StreamNotFound, "There is no container %s in the pods of %s: they have %v.",
				request.Container, t.what(), slices.Compact(names))
		}
	}
	t.first = list
	return t, nil
}

// checkNamespace refuses namespaces that kubenest did not make.
func (s *Server) checkNamespace(ctx context.Context, name string) *wire.StreamAnswer {
	namespace, err := s.own.Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return wire.FailStream(wire.StreamNotFound, "Namespace %s is not there.", name)
	case err != nil:
		return failureOf(err, "namespace "+name)
	case namespace.Labels[kubenestv1.ProjectLabel] == "" || namespace.Annotations[kubenestv1.OwnerAnnotation] == "":
		return wire.FailStream(wire.StreamForbidden,
			"Namespace %s was not made for a Project: kubenest shows logs of its Projects' namespaces only.", name)
	}
	return nil
}

// pods is a client with the rights of a Project.
func (s *Server) pods(namespace string) (corev1client.PodInterface, error) {
	config := stack.As(s.config, namespace)
	config.NextProtos = []string{"http/1.1"} // doc.go says why
	config.QPS = -1                          // streams and their containers are bounded
	config.Timeout = 0
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the logs of namespace %s: %w", namespace, err)
	}
	return client.Pods(namespace), nil
}

// failureOf answers with an error of the API server.
func failureOf(err error, of string) *wire.StreamAnswer {
	class := wire.StreamUnavailable
	switch {
	case apierrors.IsForbidden(err):
		class = wire.StreamForbidden
	case apierrors.IsNotFound(err):
		class = wire.StreamNotFound
	case apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		class = wire.StreamInvalid
	}
	return wire.FailStream(class, "Could not read %s: %s", of, words(err))
}

// words are an API server's error without what client-go adds.
func words(err error) string {
	if refused, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return refused.Status().Message
	}
	return err.Error()
}

// selector of the pods that a request is about.
func selector(r *wire.LogRequest) metav1.ListOptions {
	set := labels.Set{kubenestv1.AppLabel: r.App}
	if r.Component != "" {
		set[kubenestv1.ComponentLabel] = r.Component
	}
	o := metav1.ListOptions{LabelSelector: set.AsSelector().String()}
	if r.Pod != "" {
		o.FieldSelector = "metadata.name=" + r.Pod
	}
	return o
}

func containerNames(pod *corev1.Pod) []string {
	names := make([]string, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	return names
}
