// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/argocdtest"
)

// uids of the pods in a namespace.
func uids(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(dev.Client().List(ctx, &pods, client.InNamespace(namespace))).To(Succeed())
	var list []string
	for i := range pods.Items {
		list = append(list, string(pods.Items[i].UID))
	}
	slices.Sort(list)
	return list
}

// appliers are who has applied something of an object that is still theirs, but for the
// number of replicas: that is kept for the autoscaler.
func appliers(o client.Object) []string {
	var names []string
	for _, e := range o.GetManagedFields() {
		if e.Operation == metav1.ManagedFieldsOperationApply && e.Manager != kubenestv1.FieldManagerOperator+"-replicas" {
			names = append(names, e.Manager)
		}
	}
	return names
}

func releases(ctx context.Context, namespace string) int {
	GinkgoHelper()
	var secrets corev1.SecretList
	Expect(dev.Client().List(ctx, &secrets, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm"})).To(Succeed())
	return len(secrets.Items)
}

var _ = Describe("An App whose way of delivery changes", func() {
	It("runs on with the same pods, there and back", func(ctx SpecContext) {
		sampleChart(ctx)
		const name = "switch"
		newProject(ctx, name)
		a := newApp(ctx, name, name, kubenestv1.DeliveryDirect, shop()...)
		runs(ctx, a)
		Eventually(ctx, func() []string { return uids(ctx, name) }).Should(HaveLen(3))
		pods, before := uids(ctx, name), outcome(ctx, name)
		kept := func(g Gomega, manager string) {
			web := deployment(ctx, name, name+"-web")
			var db appsv1.StatefulSet
			g.Expect(dev.Client().Get(ctx, client.ObjectKey{Namespace: name, Name: name + "-db"}, &db)).To(Succeed())
			g.Expect(appliers(web)).To(ConsistOf(manager))
			g.Expect(appliers(&db)).To(ConsistOf(manager))
			g.Expect(argocdtest.Difference(before, outcome(ctx, name))).To(BeEmpty())
			g.Expect(uids(ctx, name)).To(Equal(pods))
		}
		withoutExtra := func(spec *kubenestv1.AppSpec) {
			env := &spec.Components[1].WorkloadSpec.Env
			*env = slices.DeleteFunc(*env, func(e kubenestv1.EnvVar) bool { return e.Name == "EXTRA" })
		}
		variables := func() []string {
			var names []string
			for _, e := range deployment(ctx, name, name+"-web").Spec.Template.Spec.Containers[0].Env {
				names = append(names, e.Name)
			}
			return names
		}

		By("direct to argocd")
		edit(ctx, a, func(spec *kubenestv1.AppSpec) { spec.Delivery = kubenestv1.DeliveryArgoCD })
		Eventually(ctx, func() []string { return files(ctx, name, name) }).Should(HaveLen(7))
		runs(ctx, a)
		Eventually(ctx, func(g Gomega) { kept(g, "argocd-controller") }).Should(Succeed())
		Expect(releases(ctx, name)).To(BeZero())

		By("argocd to direct")
		edit(ctx, a, func(spec *kubenestv1.AppSpec) { spec.Delivery = kubenestv1.DeliveryDirect })
		Eventually(ctx, func() []string { return files(ctx, name, name) }).Should(BeEmpty())
		Eventually(ctx, func() int { return releases(ctx, name) }).WithTimeout(deployed).Should(Equal(1))
		runs(ctx, a)
		Eventually(ctx, func(g Gomega) { kept(g, kubenestv1.FieldManagerOperator) }).Should(Succeed())
		Expect(applications(ctx)).To(BeEmpty())
		Expect(deployment(ctx, name, name+"-web").Annotations).NotTo(HaveKey(HavePrefix("argocd.argoproj.io/")))

		By("a field that is wanted no more: nobody holds it")
		edit(ctx, a, withoutExtra)
		Eventually(ctx, variables).Should(Equal([]string{"MODE", "DATABASE_URL", "DATABASE_USER"}))
		runs(ctx, a)

		By("argocd again, with another change at the same time")
		edit(ctx, a, func(spec *kubenestv1.AppSpec) {
			spec.Delivery = kubenestv1.DeliveryArgoCD
			spec.Components[1].WorkloadSpec.Env = spec.Components[1].WorkloadSpec.Env[1:]
		})
		Eventually(ctx, variables).WithTimeout(deployed).Should(Equal([]string{"DATABASE_URL", "DATABASE_USER"}))
		runs(ctx, a)
		Expect(env.Client().Delete(ctx, a)).To(Succeed())
		Eventually(ctx, gone(env.Client(), a)).WithTimeout(deployed).Should(BeTrue())
		Expect(outcome(ctx, name)).To(BeEmpty())
		Expect(files(ctx, name, name)).To(BeEmpty())
	}, SpecTimeout(8*time.Minute))
})
