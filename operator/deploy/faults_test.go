// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

var _ = Describe("When something fails", func() {
	It("says of no change that it runs when it could not be applied", func(ctx SpecContext) {
		start(newWays())
		space := project(ctx, "hooked")
		s := application(ctx, "hooked", []kubenestv1.Component{web("web")})
		Eventually(status(ctx, space)).Should(HavePrefix("Running;"))
		run(ctx, "hooked", "shop-web", 1)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))

		By("having an admission webhook that is down")
		hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "down"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "down.example.com", SideEffects: new(admissionregistrationv1.SideEffectClassNone), FailurePolicy: new(admissionregistrationv1.Fail),
				AdmissionReviewVersions: []string{"v1"},
				ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				}},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "hooked"}},
			}},
		}
		Expect(api.Create(ctx, hook)).To(Succeed())
		removeHook := func(ctx context.Context) { Expect(client.IgnoreNotFound(api.Delete(ctx, hook))).To(Succeed()) }
		DeferCleanup(removeHook)
		Eventually(func(ctx context.Context) error { // it takes the API server a moment
			d, err := deployment(ctx, "hooked", "shop-web")()
			if err != nil {
				return err
			}
			return api.Update(ctx, d, client.DryRunAll)
		}).WithContext(ctx).ShouldNot(Succeed())

		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) {
			spec.Components[0].WorkloadSpec.Image = "ghcr.io/example/web:v2"
		})
		Eventually(status(ctx, s)).Should(And(HavePrefix("Deploying;"), ContainSubstring("could not be applied yet")))
		removeHook(ctx)
		Eventually(func(ctx context.Context) string {
			d, err := deployment(ctx, "hooked", "shop-web")()
			if err != nil {
				return err.Error()
			}
			return image(d)
		}).WithContext(ctx).Should(Equal("ghcr.io/example/web:v2"))
	})

	It("keeps exports though the Git host does not answer", func(ctx SpecContext) {
		w := newWays()
		p := start(w)
		space := project(ctx, "gitless")
		w.with(func() {
			w.sync = delivery.Sync{Synced: true, Healthy: true}
			w.exports["db"] = map[string]string{"": "r1", "dsn": ""}
		})
		s := application(ctx, "gitless", []kubenestv1.Component{addon("db")}, func(spec *kubenestv1.StackDeploySpec) {
			spec.Delivery = kubenestv1.DeliveryArgoCD
			spec.GitOps = &kubenestv1.GitOps{RepoURL: "https://git.example.com/x"}
		})
		Eventually(status(ctx, space)).Should(HavePrefix("Running;"))
		revision := func(ctx context.Context) string {
			var live kubenestv1.StackDeploy
			if err := api.Get(ctx, client.ObjectKeyFromObject(s), &live); err != nil || len(live.Status.Components) == 0 {
				return ""
			}
			return live.Status.Components[0].ExportsRevision
		}
		Eventually(revision).WithContext(ctx).Should(Equal("r1"))
		w.with(func() {
			w.sync = delivery.Sync{Problem: stack.Refuse(kubenestv1.ReasonGitFailed, "the Git host does not answer")}
		})
		p.reconciler.Changed(client.ObjectKeyFromObject(s))
		Eventually(status(ctx, s)).Should(ContainSubstring("does not answer"))
		Expect(revision(ctx)).To(Equal("r1"))
	})

	It("ends a removal though a finished pod of a hook is left", func(ctx SpecContext) {
		w := newWays()
		start(w)
		space := project(ctx, "finished")
		w.with(func() { w.addons["db"] = &delivery.Release{State: delivery.ReleaseDeployed, Chart: "db-1.0.0"} })
		s := application(ctx, "finished", []kubenestv1.Component{addon("db")})
		Eventually(status(ctx, space)).Should(HavePrefix("Running;"))
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "finished", Name: "shop-db-migrate-x", Labels: map[string]string{
				kubenestv1.AppLabel: "shop", kubenestv1.ComponentLabel: "db",
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}
		Expect(api.Create(ctx, pod)).To(Succeed())
		pod.Status.Phase = corev1.PodSucceeded
		Expect(api.Status().Update(ctx, pod)).To(Succeed())
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Removed = true })
		Eventually(missing(ctx, &kubenestv1.StackDeploy{}, system, s.Name)).Should(BeTrue())
	})
})
