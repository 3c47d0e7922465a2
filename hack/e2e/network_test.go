// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

var _ = Describe("The network between operator and hub", func() {
	It("falls silent: the cluster is disconnected in time, and comes back by itself", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		history := watch(dev)
		before := sessionID(record(ctx, dev))
		dev.Proxy().Stall()
		Eventually(ctx, disconnected(dev, kubenestv1.ReasonHeartbeatTimeout)).WithTimeout(deadAfter + 5*time.Second).Should(Succeed())
		dev.Proxy().Resume()
		Eventually(ctx, connected(dev, before)).Should(Succeed())
		history.expectSound()
		Expect(sessionID(record(ctx, env.Cluster("prod")))).NotTo(BeEmpty())
	}, SpecTimeout(2*time.Minute))

	It("is silent for less than dead-after: nothing happens", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		before := sessionID(record(ctx, dev))
		dev.Proxy().Stall()
		time.Sleep(2 * heartbeat) // the fault itself
		dev.Proxy().Resume()
		Consistently(ctx, connected(dev)).WithTimeout(deadAfter + 2*heartbeat).Should(Succeed())
		Expect(sessionID(record(ctx, dev))).To(Equal(before))
	}, SpecTimeout(time.Minute))

	It("closes the connection: the cluster is disconnected at once", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		dev.Operator().Down()
		Eventually(ctx, disconnected(dev, kubenestv1.ReasonSessionClosed)).WithTimeout(3 * time.Second).Should(Succeed())
		Expect(dev.Operator().Start(ctx)).To(Succeed())
		Eventually(ctx, connected(dev)).Should(Succeed())
	}, SpecTimeout(2*time.Minute))

	It("is refused for a while: the operator keeps trying", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		before := sessionID(record(ctx, dev))
		dev.Proxy().Refuse()
		Eventually(ctx, disconnected(dev, kubenestv1.ReasonSessionClosed)).Should(Succeed())
		time.Sleep(10 * heartbeat) // the fault itself
		dev.Proxy().Resume()
		Eventually(ctx, connected(dev, before)).WithTimeout(slowEnd).Should(Succeed())
	}, SpecTimeout(3*time.Minute))
})

var _ = Describe("An operator that stops in order", func() {
	It("says so", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		dev.Operator().Stop(ctx)
		Eventually(ctx, disconnected(dev, kubenestv1.ReasonOperatorStopped)).WithTimeout(soon).Should(Succeed())
	}, SpecTimeout(time.Minute))
})
