// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubenest/kubenest/hack/environment"
)

var _ = Describe("Two hub replicas", func() {
	// An environment of its own, in place of the suite's while the spec runs.
	BeforeEach(func(ctx SpecContext) {
		dir, err := os.MkdirTemp("", "kubenest-e2e-replicas-")
		Expect(err).NotTo(HaveOccurred())
		o := options(dir)
		o.Clusters, o.HubReplicas, o.Proxied = environment.DefaultClusters(1), 2, false
		two, err := environment.Start(ctx, o)
		Expect(err).NotTo(HaveOccurred())
		one := env
		env = two
		DeferCleanup(func(ctx SpecContext) {
			env = one
			two.Stop(ctx)
			Expect(processesOf(dir)).To(BeEmpty())
			Expect(os.RemoveAll(dir)).To(Succeed())
		})
	}, NodeTimeout(3*time.Minute))

	// holder is the replica that holds the session of dev.
	holder := func(ctx context.Context) *environment.Replica {
		r := record(ctx, env.Cluster("dev"))
		for _, replica := range env.Hub().Replicas() {
			if s := r.Status.Session; s != nil && strings.HasPrefix(s.Replica, "kubenest-"+replica.Name()+"/") {
				return replica
			}
		}
		return nil
	}

	It("take over from each other: planned without a disconnection, unplanned by themselves", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		history := watch(dev)

		By("stopping the one that holds the session, in order")
		first := holder(ctx)
		Expect(first).NotTo(BeNil())
		first.Stop(ctx)
		Eventually(func() *environment.Replica { return holder(ctx) }).Should(And(Not(BeNil()), Not(BeIdenticalTo(first))))
		Consistently(ctx, connected(dev)).WithTimeout(deadAfter + heartbeat).Should(Succeed())
		Expect(history.Statuses()).To(Equal([]metav1.ConditionStatus{metav1.ConditionTrue}))

		By("killing the other")
		Expect(first.Start(ctx)).To(Succeed())
		second := holder(ctx)
		second.Down()
		Eventually(func() *environment.Replica { return holder(ctx) }).WithTimeout(slowEnd).Should(BeIdenticalTo(first))
		Eventually(ctx, connected(dev)).Should(Succeed())
		history.expectSound()
	}, SpecTimeout(4*time.Minute))
})
