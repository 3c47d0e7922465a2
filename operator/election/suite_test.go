// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kubenest/kubenest/operator/election"
)

func TestElection(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, "Election")
}

var (
	quick = election.Timing{Lease: 3 * time.Second, Renew: 2 * time.Second, Retry: 200 * time.Millisecond}
	long  = election.Timing{Lease: 10 * time.Minute, Renew: 2 * time.Second, Retry: 200 * time.Millisecond}
)

// candidate takes part in an election.
type candidate struct {
	leading chan context.Context // each time it begins
	stopped atomic.Bool          // what it did last has ended
	away    atomic.Bool          // the API server, for this one
	holder  atomic.Value         // last one told
	stop    func()               // and wait
}

func takePart(config *rest.Config, identity string, timing election.Timing) *candidate {
	GinkgoHelper()
	c := &candidate{leading: make(chan context.Context, 100)}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if c.away.Load() {
				return nil, errors.New("away")
			}
			return next.RoundTrip(r)
		})
	})
	e := &election.Election{
		Leases: kubernetes.NewForConfigOrDie(config).CoordinationV1(), Namespace: "default", Identity: identity, Timing: timing,
		OnHolder: func(holder string) { c.holder.Store(holder) }, Log: GinkgoLogr,
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- e.Run(ctx, func(ctx context.Context) {
			c.stopped.Store(false)
			c.leading <- ctx
			<-ctx.Done()
			c.stopped.Store(true)
		})
	}()
	var ended bool
	c.stop = func() {
		cancel()
		if !ended {
			ended = true
			Expect(<-done).To(Succeed())
		}
	}
	DeferCleanup(c.stop)
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var _ = Describe("an election", Ordered, func() {
	var (
		config *rest.Config
		leases func() (*coordinationv1.Lease, error)
	)
	BeforeAll(func() {
		environment := &envtest.Environment{}
		var err error
		config, err = environment.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(environment.Stop)
		client := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
		leases = func() (*coordinationv1.Lease, error) {
			return client.Get(context.Background(), election.LeaseName, metav1.GetOptions{})
		}
		DeferCleanup(func(ctx context.Context) { _ = client.Delete(ctx, election.LeaseName, metav1.DeleteOptions{}) })
	})
	holder := func() string {
		lease, err := leases()
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}

	It("has one leader, and the next one as soon as that stops", func() {
		// The Lease is long, so that only its release explains the handing over.
		first := takePart(config, "first", long)
		Eventually(first.leading).Should(Receive())
		second := takePart(config, "second", long)
		Eventually(second.holder.Load).Should(Equal("first"))
		Consistently(second.leading, "500ms").ShouldNot(Receive())
		first.stop()
		Expect(first.stopped.Load()).To(BeTrue())
		Eventually(second.leading).Should(Receive())
		second.stop()
		Eventually(holder).Should(BeEmpty(), "the last one releases the Lease")
	})

	It("goes on through an outage of the API server", func() {
		c := takePart(config, "only", quick)
		var leading context.Context
		Eventually(c.leading).Should(Receive(&leading))
		c.away.Store(true)
		lease, err := leases()
		Expect(err).NotTo(HaveOccurred())
		lapsed := lease.Spec.RenewTime.Add(2 * quick.Lease)
		Eventually(time.Now).Should(BeTemporally(">", lapsed))
		Expect(leading.Err()).NotTo(HaveOccurred(), "nobody else was seen to hold the Lease")
		c.away.Store(false)
		Eventually(func() (time.Time, error) {
			lease, err := leases()
			if err != nil || lease.Spec.RenewTime == nil {
				return time.Time{}, err
			}
			return lease.Spec.RenewTime.Time, nil
		}).Should(BeTemporally(">", lapsed), "it renews again")
		Expect(leading.Err()).NotTo(HaveOccurred())
		Consistently(c.leading, "300ms").ShouldNot(Receive(), "and does not begin anew")
		c.stop()
	})

	It("ends when another one took over meanwhile, and begins anew after that", func() {
		c := takePart(config, "cut-off", quick)
		var leading context.Context
		Eventually(c.leading).Should(Receive(&leading))
		c.away.Store(true)
		other := takePart(config, "other", quick)
		Eventually(other.leading).Should(Receive())
		Expect(leading.Err()).NotTo(HaveOccurred())
		c.away.Store(false)
		Eventually(leading.Done()).Should(BeClosed())
		Eventually(c.stopped.Load).Should(BeTrue())
		other.stop()
		Eventually(c.leading).Should(Receive())
		c.stop()
	})

	It("holds the Lease still after its process was restarted", func(ctx SpecContext) {
		lease, err := leases()
		Expect(err).NotTo(HaveOccurred())
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new("pod-1"), new(int32(3600))
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		_, err = kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default").Update(ctx, lease, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		c := takePart(config, "pod-1", long)
		Eventually(c.leading).Should(Receive())
		c.stop()
	})

	It("stops while it waits", func() {
		first := takePart(config, "first", long)
		Eventually(first.leading).Should(Receive())
		second := takePart(config, "second", long)
		Eventually(second.holder.Load).Should(Equal("first"))
		second.stop()
		Expect(first.stopped.Load()).To(BeFalse())
		first.stop()
	})
})
