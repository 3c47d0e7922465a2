// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package replica_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// What the suite sets up once.
var (
	config *rest.Config
	api    client.Client
)

func TestReplica(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not say where a kube-apiserver is")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Replica")
}

var _ = BeforeSuite(func() {
	environment := &envtest.Environment{}
	var err error
	config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	api, err = client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
})

// road is a way to the API server that can be cut, open watches included.
type road struct {
	mu      sync.Mutex
	cut     bool
	next    http.RoundTripper
	cancels map[*http.Request]context.CancelFunc
}

// newRoad makes a client whose way to the API server can be cut.
func newRoad() (client.WithWatch, *road) {
	GinkgoHelper()
	r := &road{cancels: map[*http.Request]context.CancelFunc{}}
	own := rest.CopyConfig(config)
	own.QPS = -1
	own.Wrap(func(next http.RoundTripper) http.RoundTripper {
		r.next = next
		return r
	})
	c, err := client.NewWithWatch(own, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	return c, r
}

func (r *road) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	r.mu.Lock()
	if r.cut {
		r.mu.Unlock()
		cancel()
		return nil, errors.New("the road is cut")
	}
	r.cancels[request] = cancel
	r.mu.Unlock()
	return r.next.RoundTrip(request.WithContext(ctx))
}

func (r *road) setCut(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	if cut {
		for request, cancel := range r.cancels {
			cancel()
			delete(r.cancels, request)
		}
	}
}
