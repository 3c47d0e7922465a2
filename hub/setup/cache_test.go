// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lender is a cache of one informer that counts its handlers.
type lender struct {
	cache.Cache
	informer *countingInformer
}

func (l *lender) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return l.informer, nil
}

type countingInformer struct {
	cache.Informer
	handlers map[toolscache.ResourceEventHandlerRegistration]bool
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

func (i *countingInformer) AddEventHandlerWithOptions(toolscache.ResourceEventHandler, toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	r := &registration{}
	i.handlers[r] = true
	return r, nil
}

func (i *countingInformer) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	delete(i.handlers, r)
	return nil
}

func TestBorrowedCacheTakesItsHandlersOff(t *testing.T) {
	g := NewWithT(t)
	informer := &countingInformer{handlers: map[toolscache.ResourceEventHandlerRegistration]bool{}}
	handler := toolscache.ResourceEventHandlerFuncs{}
	_, err := informer.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{}) // the lender's own
	g.Expect(err).NotTo(HaveOccurred())

	for range 3 { // elections
		borrowed := &borrowed{Cache: &lender{informer: informer}}
		for range 2 { // controllers
			i, err := borrowed.GetInformer(t.Context(), &corev1.Secret{})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		g.Expect(informer.handlers).To(HaveLen(3))
		ctx, lost := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- borrowed.Start(ctx) }()
		g.Consistently(ended, "50ms").ShouldNot(Receive(), "it runs for as long as the borrower does")
		lost()
		g.Eventually(ended).Should(Receive(BeNil()))
		g.Expect(informer.handlers).To(HaveLen(1), "the lender's own stays")
	}
}
