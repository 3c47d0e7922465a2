// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/environment"
)

// another starts one more operator in a cluster, with the credentials of
// whosever cluster, and stops it with the spec.
func another(ctx context.Context, name string, in, whose *environment.Workload) *environment.Operator {
	GinkgoHelper()
	api := in.Client()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(client.IgnoreAlreadyExists(api.Create(ctx, namespace))).To(Succeed())
	operator, err := in.NewOperator(name, name)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(operator.Down)
	Expect(operator.Mount(connectionSecret(ctx, whose).Data)).To(Succeed())
	Expect(operator.Start(ctx)).To(Succeed())
	return operator
}

var _ = Describe("Another cluster with the same token", func() {
	It("is refused, and the record keeps its own session", func(ctx SpecContext) {
		dev, prod := env.Cluster("dev"), env.Cluster("prod")
		before := record(ctx, dev)
		intruder := another(ctx, "intruder", prod, dev)
		log := func() string {
			text, _, _ := intruder.Log(0)
			return text
		}
		Eventually(log).Should(ContainSubstring(class("conflict")), "the operator says why")
		Eventually(func() []string { return events(ctx, dev, kubenestv1.EventIdentityConflict) }).Should(ContainElement(And(
			ContainSubstring(before.Status.ClusterUID), ContainSubstring(record(ctx, prod).Status.ClusterUID), ContainSubstring("rebind"),
		)), "both are named, and what to do")
		Consistently(func() string { return sessionID(record(ctx, dev)) }).WithTimeout(5 * heartbeat).Should(Equal(sessionID(before)))
		Expect(record(ctx, dev).Status.ClusterUID).To(Equal(before.Status.ClusterUID))
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("A clone of a cluster, with the same identity", func() {
	It("does not take turns with the original: one of them stays", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		original := logSince(dev.Operator().Process)
		clone := another(ctx, "clone", dev, dev)
		refused := func() int {
			text, _, _ := clone.Log(0)
			return strings.Count(text, class("duplicate")) + strings.Count(original(), class("duplicate"))
		}
		Eventually(refused).WithTimeout(slowEnd).Should(BeNumerically(">=", 1))
		Eventually(func() []string { return events(ctx, dev, kubenestv1.EventDuplicateOperator) }).ShouldNot(BeEmpty())
		Eventually(ctx, connected(dev)).Should(Succeed())
		incumbent := sessionID(record(ctx, dev))
		Consistently(func() string { return sessionID(record(ctx, dev)) }).WithTimeout(10 * heartbeat).Should(Equal(incumbent))

		By("letting the original back when the clone is gone")
		clone.Down()
		Eventually(ctx, connected(dev, incumbent)).WithTimeout(slowEnd).Should(Succeed())
	}, SpecTimeout(4*time.Minute))
})

// class is how a refusal's class stands in an operator's log.
func class(name string) string { return fmt.Sprintf("refused (%s)", name) }

var _ = Describe("A record that is deleted", func() {
	It("ends the session, and brings the operator back when it is applied again with the cluster's id", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		was := record(ctx, dev)
		log, starts := logSince(dev.Operator().Process), dev.Operator().Starts()
		_, err := env.Kubectl(ctx, "", "delete", "mc", "-n", environment.Organization, "dev", "--timeout=30s")
		Expect(err).NotTo(HaveOccurred())
		Eventually(log).Should(ContainSubstring("unknown_cluster"))

		Expect(dev.Register(ctx, "  clusterID: "+was.Status.ClusterID)).To(Succeed())
		Eventually(ctx, connected(dev)).WithTimeout(slowEnd).Should(Succeed())
		now := record(ctx, dev)
		Expect(now.UID).NotTo(Equal(was.UID))
		Expect(now.Status.ClusterID).To(Equal(was.Status.ClusterID))
		Expect(dev.Operator().Starts()).To(Equal(starts), "nobody had to touch the operator")
	}, SpecTimeout(3*time.Minute))
})
