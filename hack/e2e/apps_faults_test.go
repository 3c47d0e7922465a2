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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/environment"
)

var _ = Describe("A cluster that is away", func() {
	It("gets on its return what was deployed and what was deleted meanwhile", func(ctx SpecContext) {
		prod := env.Cluster("prod")
		p := project(ctx, "away", "prod")
		old := createApp(ctx, "away-old", p, workload("web", ""))
		Eventually(ctx, running("away-old")).WithTimeout(deployed).Should(Succeed())

		prod.Proxy().Refuse()
		Eventually(ctx, disconnected(prod, kubenestv1.ReasonSessionClosed)).Should(Succeed())
		createApp(ctx, "away-new", p, workload("web", ""))
		Expect(env.Client().Delete(ctx, old)).To(Succeed())

		By("saying what it waits for")
		Eventually(ctx, func(ctx context.Context) kubenestv1.ComponentStatus {
			return componentOf(ctx, "away-new", "web")
		}).Should(And(
			HaveField("Phase", kubenestv1.AppPending),
			HaveField("Reason", kubenestv1.ReasonClusterDisconnected),
			HaveField("Message", ContainSubstring("prod")),
		))
		Eventually(ctx, func(ctx context.Context) string {
			status, err := app(ctx, "away-old")
			if err != nil {
				return err.Error()
			}
			return status.Message
		}).Should(ContainSubstring("prod"))
		_, err := deployment(ctx, prod, "away", "away-old-web")
		Expect(err).NotTo(HaveOccurred(), "it runs on without the hub")

		prod.Proxy().Resume()
		Eventually(ctx, running("away-new")).WithTimeout(slowEnd + deployed).Should(Succeed())
		Eventually(ctx, gone(old)).WithTimeout(deployed).Should(Succeed())
		_, err = deployment(ctx, prod, "away", "away-old-web")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(6*time.Minute))

	It("is corrected by its operator, though the hub is away", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		p := project(ctx, "alone", "dev")
		createApp(ctx, "alone", p, workload("web", ""))
		Eventually(ctx, running("alone")).WithTimeout(deployed).Should(Succeed())
		dev.Proxy().Refuse()
		dev.Operator().Kill()
		_, err := dev.Kubectl(ctx, "", "-n", "alone", "delete", "deployment", "alone-web")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(ctx context.Context) error {
			_, err := deployment(ctx, dev, "alone", "alone-web")
			return err
		}).WithTimeout(deployed).Should(Succeed())
		dev.Proxy().Resume()
		Eventually(ctx, connected(dev)).WithTimeout(slowEnd).Should(Succeed())
	}, SpecTimeout(4*time.Minute))

	It("is given up, and releases what hangs on it", func(ctx SpecContext) {
		prod := env.Cluster("prod")
		p := project(ctx, "lost", "prod")
		a := createApp(ctx, "lost", p, workload("web", ""))
		Eventually(ctx, running("lost")).WithTimeout(deployed).Should(Succeed())
		prod.Proxy().Refuse()
		Eventually(ctx, disconnected(prod, kubenestv1.ReasonSessionClosed)).Should(Succeed())
		Expect(env.Client().Delete(ctx, a)).To(Succeed())
		Consistently(ctx, func(ctx context.Context) error {
			_, err := app(ctx, "lost")
			return err
		}).WithTimeout(3 * time.Second).Should(Succeed())

		_, err := env.Kubectl(ctx, "", "-n", environment.Organization, "patch", "mc", "prod", "--type=merge", "-p", `{"spec":{"abandoned":true}}`)
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, gone(a)).Should(Succeed())
		Expect(env.Client().Delete(ctx, p)).To(Succeed())
		Eventually(ctx, gone(p)).Should(Succeed())
		_, err = deployment(ctx, prod, "lost", "lost-web")
		Expect(err).NotTo(HaveOccurred(), "what ran there runs on")

		By("taking it back: nothing is pruned that the hub does not know")
		_, err = env.Kubectl(ctx, "", "-n", environment.Organization, "patch", "mc", "prod", "--type=merge", "-p", `{"spec":{"abandoned":false}}`)
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(ctx context.Context) bool {
			return meta.IsStatusConditionTrue(record(ctx, prod).Status.Conditions, kubenestv1.ConditionRegistered)
		}).Should(BeTrue())
		prod.Proxy().Resume()
		Expect(prod.Enrol(ctx)).To(Succeed())
		Eventually(ctx, connected(prod)).WithTimeout(slowEnd).Should(Succeed())
		Eventually(ctx, func(ctx context.Context) []string { return events(ctx, prod, kubenestv1.EventUnknownWork) }).ShouldNot(BeEmpty())
		_, err = deployment(ctx, prod, "lost", "lost-web")
		Expect(err).NotTo(HaveOccurred())

		By("clearing it up on the cluster")
		out, err := prod.Kubectl(ctx, "", "-n", "kubenest-system", "get", "stackdeploys", "-o", "name")
		Expect(err).NotTo(HaveOccurred())
		for name := range strings.FieldsSeq(out) {
			_, err := prod.Kubectl(ctx, "", "-n", "kubenest-system", "patch", name, "--type=merge", "-p", `{"spec":{"removed":true}}`)
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(ctx, func(ctx context.Context) bool {
			return apierrors.IsNotFound(prod.Client().Get(ctx, client.ObjectKey{Name: "lost"}, &corev1.Namespace{}))
		}).WithTimeout(deployed).Should(BeTrue())
	}, SpecTimeout(6*time.Minute))
})

var _ = Describe("A deployment that is disturbed", func() {
	It("arrives though sessions are cut, hub and operator killed, again and again", func(ctx SpecContext) {
		p := project(ctx, "disturbed", "dev")
		dev := env.Cluster("dev")
		const apps = 20
		for i := range apps {
			createApp(ctx, fmt.Sprintf("disturbed-%02d", i), p, workload("web", ""), workload("job", "prod"))
			switch i {
			case 3, 9:
				dev.Proxy().Cut()
			case 6:
				dev.Operator().Kill()
			case 12:
				env.Hub().Process().Kill()
			}
		}
		for i := range apps {
			Eventually(ctx, running(fmt.Sprintf("disturbed-%02d", i))).WithTimeout(slowEnd + deployed).Should(Succeed())
		}
	}, SpecTimeout(6*time.Minute))
})

var _ = Describe("A namespace that is somebody else's", func() {
	It("is refused, named and untouched", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{"whose": "theirs"}}}
		Expect(dev.Client().Create(ctx, theirs)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(dev.Client().Delete(ctx, theirs)).To(Succeed()) })
		p := &kubenestv1.Project{
			ObjectMeta: metav1.ObjectMeta{Namespace: environment.Organization, Name: "theirs"},
			Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: "dev"}},
		}
		Expect(env.Client().Create(ctx, p)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) string {
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return err.Error()
			}
			return p.Status.Reason + ": " + p.Status.Message
		}).Should(And(ContainSubstring(kubenestv1.ReasonNamespaceTaken), ContainSubstring("theirs")))
		now := &corev1.Namespace{}
		Expect(dev.Client().Get(ctx, client.ObjectKey{Name: "theirs"}, now)).To(Succeed())
		Expect(now.ResourceVersion).To(Equal(theirs.ResourceVersion))
		Expect(env.Client().Delete(ctx, p)).To(Succeed())
		Eventually(ctx, gone(p)).Should(Succeed())
		Expect(dev.Client().Get(ctx, client.ObjectKey{Name: "theirs"}, now)).To(Succeed())
		Expect(now.DeletionTimestamp).To(BeNil())
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("A cluster with Projects", func() {
	It("can not be deleted, though the hub is down", func(ctx SpecContext) {
		project(ctx, "guarded", "dev")
		env.Hub().Stop(ctx)
		_, err := env.Kubectl(ctx, "", "-n", environment.Organization, "delete", "mc", "dev", "--wait=false")
		Expect(err).To(MatchError(ContainSubstring("guarded")))
		Expect(env.Hub().Start(ctx)).To(Succeed())
		Eventually(ctx, allConnected).WithTimeout(slowEnd).Should(Succeed())
	}, SpecTimeout(3*time.Minute))
})
