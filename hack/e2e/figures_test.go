// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubenest/kubenest/hack/cluster"
	"github.com/kubenest/kubenest/hack/environment"
)

// followWithin is how soon figures that changed are to be seen: they are written
// at most every 30 s.
const followWithin = 45 * time.Second

var _ = Describe("A connected cluster", func() {
	row := func(name string) func(context.Context) []string {
		return func(ctx context.Context) []string {
			table, err := env.Kubectl(ctx, "", "get", "mc", "-n", environment.Organization, name, "--no-headers")
			if err != nil {
				return nil
			}
			return strings.Fields(table)
		}
	}

	It("shows its real figures to kubectl, and follows when they change", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		Eventually(ctx, row("dev")).WithTimeout(followWithin).Should(ContainElements("dev", "Connected", "2", "1.2/8", "v1.37.2"))
		Eventually(ctx, row("prod")).WithTimeout(followWithin).Should(ContainElements("prod", "Connected", "3", "1.2/12"))

		api := dev.Client()
		extra := cluster.Node("dev-node-extra", "local")
		Expect(api.Create(ctx, extra)).To(Succeed())
		Eventually(ctx, row("dev")).WithTimeout(followWithin).Should(ContainElements("3", "1.2/12"))
		Expect(api.Delete(ctx, extra)).To(Succeed())
		Eventually(ctx, row("dev")).WithTimeout(followWithin).Should(ContainElements("2", "1.2/8"))
	}, SpecTimeout(4*time.Minute))

	It("can be waited for and described", func(ctx SpecContext) {
		_, err := env.Kubectl(ctx, "", "wait", "-n", environment.Organization, "mc/dev", "mc/prod", "--for=condition=Connected", "--timeout=30s")
		Expect(err).NotTo(HaveOccurred())
		text, err := env.Kubectl(ctx, "", "describe", "-n", environment.Organization, "mc", "prod")
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(ContainSubstring("SessionEstablished"))
	}, SpecTimeout(time.Minute))

	It("says once in an Event that it connected", func(ctx SpecContext) {
		prod := env.Cluster("prod")
		var list corev1.EventList
		Expect(env.Client().List(ctx, &list, client.InNamespace(environment.Organization))).To(Succeed())
		before := len(events(ctx, prod, "SessionEstablished"))
		prod.Operator().Down()
		Eventually(ctx, disconnected(prod, "SessionClosed")).Should(Succeed())
		Expect(prod.Operator().Start(ctx)).To(Succeed())
		Eventually(ctx, connected(prod)).Should(Succeed())
		count := func() int { return len(events(ctx, prod, "SessionEstablished")) }
		Eventually(count).Should(BeNumerically(">", before-1))
		Consistently(count).WithTimeout(5 * heartbeat).Should(BeNumerically("<=", before+1))
	}, SpecTimeout(2*time.Minute))

	It("costs no write while nothing moves", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		// Whatever the spec before changed is written first.
		version := func() string { return record(ctx, dev).ResourceVersion }
		settled := func(g Gomega) {
			was := record(ctx, dev).ResourceVersion
			g.Consistently(version).WithTimeout(10 * heartbeat).Should(Equal(was))
		}
		Eventually(settled).WithTimeout(time.Minute).Should(Succeed())
	}, SpecTimeout(2*time.Minute))
})
