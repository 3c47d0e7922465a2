// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

var _ = Describe("a release", func() {
	var (
		namespace string
		clock     *clocktesting.FakePassiveClock
		o         *operator
	)
	BeforeEach(func(ctx context.Context) {
		namespace = project(ctx)
		clock = clocktesting.NewFakePassiveClock(time.Now())
		o = start(clock)
	})
	values := func(a string) map[string]any { return map[string]any{"a": a} }

	It("is installed, kept as it is, and removed", func(ctx SpecContext) {
		a := addon(namespace, templates(settings, generated), values("1"))
		Expect(o.state(ctx, a)()).To(Equal("Working"))
		Eventually(o.state(ctx, a)).Should(Equal("Deployed"))
		m, err := api.CoreV1().ConfigMaps(namespace).Get(ctx, "settings", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(a.Target.Owns(m)).To(BeTrue())
		Expect(m.Labels).To(And(HaveKeyWithValue(kubenestv1.ComponentLabel, "db"), HaveKeyWithValue("app.kubernetes.io/managed-by", "Helm")))
		r, err := o.Ensure(ctx, a)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Objects).To(HaveLen(2))
		Expect(r.Chart).To(Equal("c-1.0.0"))

		By("correcting what somebody changes")
		m.Data["a"], m.Data["mine"] = "9", "x"
		_, err = api.CoreV1().ConfigMaps(namespace).Update(ctx, m, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(o.state(ctx, a)()).To(Equal("Deployed drift: ConfigMap settings had another data.a"))
		Expect(configMap(ctx, namespace, "settings")()).To(HaveKeyWithValue("a", "1"))
		Expect(o.state(ctx, a)()).To(Equal("Deployed"))
		Expect(api.CoreV1().ConfigMaps(namespace).Delete(ctx, "settings", metav1.DeleteOptions{})).To(Succeed())
		Expect(o.state(ctx, a)()).To(Equal("Deployed drift: ConfigMap settings was deleted"))

		By("doing nothing when another operator takes over")
		Expect(start(clock).state(ctx, a)()).To(Equal("Deployed"))
		Expect(revisions(ctx, namespace)()).To(Equal([]string{"1 deployed"}))

		Eventually(func() ([]string, error) { return o.Remove(ctx, a) }).Should(BeEmpty())
		_, err = configMap(ctx, namespace, "settings")()
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
		Expect(revisions(ctx, namespace)()).To(BeEmpty())
		Expect(o.Remove(ctx, a)).To(BeEmpty())
	})

	It("is upgraded, prunes, and keeps what was generated", func(ctx SpecContext) {
		Eventually(o.state(ctx, addon(namespace, templates(settings, generated), values("1")))).Should(Equal("Deployed"))
		before, err := api.CoreV1().Secrets(namespace).Get(ctx, "generated", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(before.Data["password"]).To(HaveLen(20))
		Eventually(o.state(ctx, addon(namespace, templates(generated), values("2")))).Should(Equal("Deployed"))
		after, err := api.CoreV1().Secrets(namespace).Get(ctx, "generated", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Data["password"]).To(Equal(before.Data["password"]))
		Expect(string(after.Data["a"])).To(Equal("2"))
		_, err = configMap(ctx, namespace, "settings")()
		Expect(apierrors.IsNotFound(err)).To(BeTrue())

		By("rendering the same for Argo CD")
		objects, err := o.Render(ctx, addon(namespace, templates(generated, prepare), values("2")))
		Expect(err).NotTo(HaveOccurred())
		Expect(objects).To(HaveLen(2))
		Expect(objects[0].Object["data"]).To(HaveKeyWithValue("a", "Mg=="))
		Expect(objects[0].GetLabels()).To(Equal(after.Labels))
		Expect(objects[0].GetAnnotations()).To(Equal(after.Annotations))
		Expect(objects[1].GetLabels()).NotTo(HaveKey("app.kubernetes.io/managed-by"), "Helm does not mark hooks")
	})

	It("is forgotten, leaves what it made, and is taken up again", func(ctx SpecContext) {
		a := addon(namespace, templates(settings, generated), values("1"))
		Eventually(o.state(ctx, a)).Should(Equal("Deployed"))
		before, err := api.CoreV1().Secrets(namespace).Get(ctx, "generated", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		other := addon(namespace, nil, nil)
		other.Target.Owner = "c1/platform/other"
		Expect(o.Forget(ctx, other)).To(BeEmpty())
		Expect(revisions(ctx, namespace)()).To(Equal([]string{"1 deployed"}), "another's is left alone")
		Expect(o.Forget(ctx, a)).To(BeEmpty())
		Expect(revisions(ctx, namespace)()).To(BeEmpty())
		Expect(configMap(ctx, namespace, "settings")()).To(HaveKeyWithValue("a", "1"))
		Expect(o.Forget(ctx, a)).To(BeEmpty())

		Expect(o.state(ctx, a)()).To(Equal("Working"))
		Eventually(o.state(ctx, a)).Should(Equal("Deployed"))
		Expect(revisions(ctx, namespace)()).To(Equal([]string{"1 deployed"}))
		after, err := api.CoreV1().Secrets(namespace).Get(ctx, "generated", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(after.ResourceVersion).To(Equal(before.ResourceVersion), "nothing of it was written")

		By("while Helm is at it: that ends first")
		slow := addon(namespace, templates(settings, web), values("2"))
		Expect(o.state(ctx, slow)()).To(Equal("Working"))
		Expect(o.Forget(ctx, slow)).To(ConsistOf(ContainSubstring("Helm")))
		Eventually(func() ([]string, error) { return o.Forget(ctx, slow) }).Should(BeEmpty())
		Expect(revisions(ctx, namespace)()).To(BeEmpty())
	})

	It("is rolled back when an upgrade fails, and is not tried again", func(ctx SpecContext) {
		Eventually(o.state(ctx, addon(namespace, templates(settings), values("1")))).Should(Equal("Deployed"))
		bad := addon(namespace, templates(settings, web), values("2"))
		bad.Timeout = 3 * time.Second
		Eventually(o.state(ctx, bad)).Should(And(HavePrefix("Failed InstallFailed: chart c-1.0.0 could not be upgraded"),
			ContainSubstring("not ready within 3s"), ContainSubstring("web")))
		Expect(configMap(ctx, namespace, "settings")()).To(HaveKeyWithValue("a", "1"))
		_, err := api.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the rollback removes what the upgrade had made")
		Expect(revisions(ctx, namespace)()).To(Equal([]string{"1 superseded", "2 failed", "3 deployed"}))

		By("asking another operator")
		o.kill()
		o = start(clock)
		Expect(o.state(ctx, bad)()).To(HavePrefix("Failed InstallFailed"))
		Expect(revisions(ctx, namespace)()).To(HaveLen(3))

		By("waiting long enough")
		clock.SetTime(time.Now().Add(helmBackoff.first + time.Minute))
		Expect(o.state(ctx, bad)()).To(Equal("Working"))
		makeReady(ctx, namespace, "web")
		Eventually(o.state(ctx, bad)).Should(Equal("Deployed"))
	})

	It("ends a hook that hangs at the timeout, and goes on with other values", func(ctx SpecContext) {
		bad := addon(namespace, templates(settings, prepare), values("1"))
		bad.Timeout = 3 * time.Second
		Eventually(o.state(ctx, bad)).Should(And(HavePrefix("Failed InstallFailed: chart c-1.0.0 could not be installed"), ContainSubstring("pre-install")))
		_, err := configMap(ctx, namespace, "settings")()
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
		Eventually(o.state(ctx, addon(namespace, templates(settings), values("2")))).Should(Equal("Deployed"))
		Expect(revisions(ctx, namespace)()).To(Equal([]string{"1 deployed"}), "nothing had been made, so that it began anew")
	})

	It("gives up early what is not wanted any more", func(ctx SpecContext) {
		slow := addon(namespace, templates(web, settings), values("1"))
		slow.Timeout = 10 * time.Minute
		Expect(o.state(ctx, slow)()).To(Equal("Working"))
		Eventually(configMap(ctx, namespace, "settings")).Should(HaveKeyWithValue("a", "1"))
		Eventually(o.state(ctx, addon(namespace, templates(settings), values("2")))).Should(Equal("Deployed"))
		Expect(configMap(ctx, namespace, "settings")()).To(HaveKeyWithValue("a", "2"))
		_, err := api.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})

	It("is taken up after an operator died in the middle", func(ctx SpecContext) {
		a := addon(namespace, templates(web), values("1"))
		Expect(o.state(ctx, a)()).To(Equal("Working"))
		Eventually(revisions(ctx, namespace)).Should(Equal([]string{"1 pending-install"}))
		Eventually(func() error {
			_, err := api.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
			return err
		}).Should(Succeed())
		o.kill()
		Expect(revisions(ctx, namespace)()).To(Equal([]string{"1 pending-install"}), "as if it had been killed")
		o = start(clock)
		makeReady(ctx, namespace, "web")
		Eventually(o.state(ctx, a)).Should(Equal("Deployed"))
		Expect(revisions(ctx, namespace)()).To(ContainElement("2 deployed"))

		By("dying in an upgrade")
		a = addon(namespace, templates(web), values("2"))
		Expect(o.state(ctx, a)()).To(Equal("Working"))
		Eventually(revisions(ctx, namespace)).Should(ContainElement("3 pending-upgrade"))
		o.kill()
		o = start(clock)
		Expect(o.state(ctx, a)()).To(Equal("Working"))
		Eventually(func() (string, error) {
			makeReady(ctx, namespace, "web")
			return o.state(ctx, a)()
		}).Should(Equal("Deployed"))
		Expect(revisions(ctx, namespace)()).To(ContainElements("3 failed", "4 deployed"))
	})

	DescribeTable("refuses before anything is applied", func(ctx SpecContext, template, reason, words string) {
		a := addon(namespace, templates(settings, template), map[string]any{"a": "1", "secret": "hunter2"})
		Eventually(o.state(ctx, a)).Should(And(HavePrefix("Failed "+reason+": "), ContainSubstring(words), Not(ContainSubstring("hunter2"))))
		_, err := configMap(ctx, namespace, "settings")()
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
		Expect(revisions(ctx, namespace)()).To(BeEmpty())
		_, err = o.Render(ctx, a)
		var problem *stack.Problem
		Expect(err).To(BeAssignableToTypeOf(problem), "in the other delivery, too")
	},
		Entry("a ClusterRole", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all}}`, "Forbidden", "ClusterRole all"),
		Entry("kube-system", `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: kube-system}}`, "Forbidden", "kube-system"),
		Entry("a privileged pod", `{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: a, image: a, securityContext: {privileged: true}}]}}`, "Forbidden", "Pod"),
		Entry("a hostPath in a hook", `{apiVersion: batch/v1, kind: Job, metadata: {name: x, annotations: {helm.sh/hook: pre-install}}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}], volumes: [{name: h, hostPath: {path: /}}]}}}}`, "Forbidden", "hostPath"),
		Entry("what the Project has no rights for", `{apiVersion: v1, kind: ResourceQuota, metadata: {name: x}, spec: {hard: {pods: "1000"}}}`, "Forbidden", "ResourceQuota x"),
		Entry("what the API server does not take", `{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: 99999}]}}`, "Invalid", "Service x"),
		Entry("a template that fails", `{{ fail .Values.secret }}`, "Invalid", "1.yaml:1"),
		Entry("a kind that is not there", `{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}`, "Invalid", "Thing"),
	)

	It("refuses CRDs in their folder unless they are allowed", func(ctx SpecContext) {
		a := addon(namespace, pack(map[string]string{"crds/x.yaml": "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x.example.com}}"}), nil)
		Eventually(o.state(ctx, a)).Should(HavePrefix("Failed Forbidden: CustomResourceDefinition x.example.com"))
	})

	It("installs CRDs of their folder, and what is of these kinds, when they are allowed", func(ctx SpecContext) {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: kubenestv1.ProjectServiceAccount, Namespace: namespace}},
		}
		_, err := api.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx context.Context) {
			_ = api.RbacV1().ClusterRoleBindings().Delete(ctx, namespace, metav1.DeleteOptions{})
		})
		a := addon(namespace, pack(map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\nappVersion: \"17\"\n",
			"crds/x.yaml": `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {group: example.com, scope: Namespaced,
				names: {plural: things, singular: thing, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`,
			"templates/a.yaml": settings,
			"templates/b.yaml": `{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}`,
		}), values("1"))
		a.Target.Grants.ClusterScoped = true
		Eventually(o.state(ctx, a)).Should(Equal("Deployed"))
		Expect(configMap(ctx, namespace, "settings")()).To(HaveKeyWithValue("a", "1"))
		r, err := newRights(ctx, config, namespace)
		Expect(err).NotTo(HaveOccurred())
		h, err := readHistory(r.helm(logr.Discard()), "shop-db")
		Expect(err).NotTo(HaveOccurred())
		Expect(h.newest().Chart.Metadata).To(Equal(&helmchart.Metadata{APIVersion: "v2", Name: "c", Version: "1.0.0", AppVersion: "17"}))
		Expect(h.newest().Chart.Templates).To(BeEmpty())
		Expect(h.newest().Config).To(Equal(values("1")))
	})

	DescribeTable("leaves alone what is not its own", func(ctx SpecContext, template string) {
		mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string]string{"a": "theirs"}}
		_, err := api.CoreV1().ConfigMaps(namespace).Create(ctx, mine, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		a := addon(namespace, templates(settings, template), values("1"))
		Eventually(o.state(ctx, a)).Should(HavePrefix("Failed ObjectNotOurs: ConfigMap theirs exists"))
		Expect(configMap(ctx, namespace, "theirs")()).To(Equal(mine.Data))
		Expect(o.Remove(ctx, a)).To(BeEmpty())

		By("going on when it is gone")
		Expect(api.CoreV1().ConfigMaps(namespace).Delete(ctx, "theirs", metav1.DeleteOptions{})).To(Succeed())
		clock.SetTime(time.Now().Add(time.Hour))
		Eventually(o.state(ctx, a)).Should(Equal("Deployed"))
	},
		Entry("an object", `{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs}}`),
		Entry("a hook", `{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, annotations: {helm.sh/hook: pre-install}}}`),
	)

	It("leaves another's release alone", func(ctx SpecContext) {
		Eventually(o.state(ctx, addon(namespace, templates(settings), values("1")))).Should(Equal("Deployed"))
		other := addon(namespace, templates(settings), values("2"))
		other.Target.Owner = "c1/other/shop"
		Expect(o.state(ctx, other)()).To(HavePrefix("Failed ObjectNotOurs: Helm release shop-db"))
		Expect(o.Remove(ctx, other)).To(BeEmpty())
		Expect(revisions(ctx, namespace)()).To(Equal([]string{"1 deployed"}))
	})

	It("refuses a forged revision, and names its Secret", func(ctx SpecContext) {
		a := addon(namespace, templates(settings), values("1"))
		Eventually(o.state(ctx, a)).Should(Equal("Deployed"))
		bomb := forged(GinkgoTB(), 99, " ", 600<<20)
		bomb.Namespace, bomb.Labels[ownerLabel] = namespace, label(a.Target.Owner)
		_, err := api.CoreV1().Secrets(namespace).Create(ctx, bomb, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(o.state(ctx, a)()).To(HavePrefix("Failed InstallFailed: the Helm release in Secret " + bomb.Name))
		Eventually(func() ([]string, error) { return o.Remove(ctx, a) }).Should(ConsistOf(ContainSubstring("Secret " + bomb.Name)))
		Expect(api.CoreV1().Secrets(namespace).Delete(ctx, bomb.Name, metav1.DeleteOptions{})).To(Succeed())
		clock.SetTime(time.Now().Add(time.Hour))
		Eventually(o.state(ctx, a)).Should(Equal("Deployed"))
	})

	It("does not keep others from theirs while it waits", func(ctx SpecContext) {
		second, third := project(ctx), project(ctx)
		named := func(namespace, component string, packed []byte) *delivery.Addon {
			a := addon(namespace, packed, values("1"))
			a.Component.Name, a.Timeout = component, time.Hour
			return a
		}
		Eventually(o.state(ctx, named(namespace, "done", templates(settings)))).Should(Equal("Deployed"))
		for _, each := range []string{namespace, second} {
			for i := range workShare {
				slow := named(each, fmt.Sprintf("slow%d", i), templates(strings.ReplaceAll(web, "name: web}", fmt.Sprintf("name: web%d}", i))))
				Expect(o.state(ctx, slow)()).To(Equal("Working"))
			}
			Eventually(revisions(ctx, each)).Should(ContainElements("1 pending-install", "1 pending-install", "1 pending-install", "1 pending-install"))
		}
		Eventually(o.state(ctx, named(third, "db", templates(settings)))).Should(Equal("Deployed"))

		By("having its share, to be removed from")
		late := named(namespace, "late", templates(`{apiVersion: v1, kind: ConfigMap, metadata: {name: late}}`))
		Consistently(o.state(ctx, late)).Should(Equal("Working"))
		_, err := configMap(ctx, namespace, "late")()
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
		Eventually(func() ([]string, error) { return o.Remove(ctx, named(namespace, "done", nil)) }).Should(BeEmpty())
		makeReady(ctx, namespace, "web0")
		Eventually(o.state(ctx, late)).Should(Equal("Deployed"))
	})

	It("says what is missing", func(ctx SpecContext) {
		a := addon(namespace, nil, nil)
		Eventually(o.state(ctx, a)).Should(HavePrefix("Failed ChartUnavailable: the chart in ConfigMap chart has not come yet"))
		a.Component.AddonSpec.Chart = kubenestv1.Chart{Repo: "https://127.0.0.1:1/stable", Name: "c", Version: "1.0.0"}
		Eventually(o.state(ctx, a)).Should(And(HavePrefix("Failed ChartUnavailable: https://127.0.0.1:1/stable/index.yaml"), ContainSubstring("can not be reached")))
		a.Component.AddonSpec.Chart.SecretRef = &kubenestv1.LocalReference{Name: "creds"}
		a.Component.AddonSpec.Chart.Version = "1.0.1"
		Eventually(o.state(ctx, a)).Should(HavePrefix("Failed ChartUnavailable: chart.secretRef names Secret creds"))

		By("having no rights")
		lost := addon("default", templates(settings), values("1"))
		Expect(o.state(ctx, lost)()).To(HavePrefix("Working WaitingForNamespace"))
	})

	It("needs nothing when the namespace is gone", func(ctx SpecContext) {
		Expect(o.Remove(ctx, addon("no-such-namespace", nil, nil))).To(BeEmpty())
	})
})
