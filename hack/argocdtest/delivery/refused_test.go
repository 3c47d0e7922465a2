// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// fine is what nobody would object to, in each of the charts.
const fine = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n---\n"

// pod of a Deployment, with what is wrong with it.
func pod(wrong string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: evil}
spec:
  selector: {matchLabels: {app: evil}}
  template:
    metadata: {labels: {app: evil}}
    spec:
      ` + wrong + "\n"
}

var _ = Describe("A chart that asks for more than its Project may have", Ordered, func() {
	ways := []kubenestv1.Delivery{kubenestv1.DeliveryDirect, kubenestv1.DeliveryArgoCD}

	BeforeAll(func(ctx SpecContext) {
		for _, way := range ways {
			newProject(ctx, "refused-"+string(way))
		}
	}, NodeTimeout(deployed))

	DescribeTable("is refused in both ways, and nothing of it is anywhere", func(ctx SpecContext, name, template string, words ...string) {
		chartOf(ctx, name, fine+template)
		commits, err := git.Git(ctx, "-C", repository, "rev-list", "--all", "--count")
		Expect(err).NotTo(HaveOccurred())
		apps := map[string]*kubenestv1.App{}
		for _, way := range ways {
			project := "refused-" + string(way)
			apps[project] = newApp(ctx, name+"-"+string(way), project, way, addonOf("evil", name))
		}
		refused := func(g Gomega) {
			for _, a := range apps {
				g.Expect(env.Client().Get(ctx, client.ObjectKeyFromObject(a), a)).To(Succeed())
				g.Expect(a.Status.Components).To(ConsistOf(And(
					HaveField("Phase", kubenestv1.AppFailed), HaveField("Reason", kubenestv1.ReasonForbidden))), "%s: %+v", a.Name, a.Status)
				for _, w := range words {
					g.Expect(a.Status.Components[0].Message).To(ContainSubstring(w))
				}
			}
		}
		Eventually(ctx, refused).Should(Succeed())
		nothing := func(g Gomega) {
			refused(g)
			for project, a := range apps {
				g.Expect(outcome(ctx, project)).To(BeEmpty())
				g.Expect(files(ctx, a.Name, project)).To(BeEmpty())
				for _, o := range []client.Object{
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "fine"}},
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "evil"}},
					&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "evil"}},
				} {
					g.Expect(gone(dev.Client(), o)(ctx)).To(BeTrue(), "%T %s", o, o.GetName())
				}
			}
			g.Expect(git.Git(ctx, "-C", repository, "rev-list", "--all", "--count")).To(Equal(commits))
			g.Expect(applications(ctx)).To(BeEmpty())
		}
		Consistently(ctx, nothing).WithTimeout(5 * time.Second).Should(Succeed())
		for _, a := range apps {
			Expect(env.Client().Delete(ctx, a)).To(Succeed())
			Eventually(ctx, gone(env.Client(), a)).Should(BeTrue())
		}
		Expect(git.Git(ctx, "-C", repository, "rev-list", "--all", "--count")).To(Equal(commits))
	},
		Entry("a ClusterRole", SpecTimeout(3*time.Minute), "evil-role",
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: evil}\nrules: []\n",
			"ClusterRole evil", "belongs to the whole cluster"),
		Entry("an object for kube-system", SpecTimeout(3*time.Minute), "evil-system",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: evil, namespace: kube-system}\n",
			"ConfigMap", "kube-system"),
		Entry("a privileged pod", SpecTimeout(3*time.Minute), "evil-privileged",
			pod(`containers: [{name: evil, image: evil, securityContext: {privileged: true}}]`),
			"Deployment", "privileged"),
		Entry("a pod with a folder of its node", SpecTimeout(3*time.Minute), "evil-folder",
			pod(strings.Join([]string{"containers: [{name: evil, image: evil}]", "volumes: [{name: root, hostPath: {path: /}}]"}, "\n      ")),
			"Deployment", "hostPath"),
	)
})
