// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/argocdtest"
)

// outcome is everything that an App has in a namespace, as YAML by kind and name. Of
// Secrets it has the keys, since values are generated, and not the Secrets with Helm's
// releases. The name of the way of delivery, which is in all names here, is taken out.
func outcome(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	objects, err := argocdtest.Objects(ctx, dev.Client(), namespace, kubenestv1.AppLabel)
	Expect(err).NotTo(HaveOccurred())
	var secrets corev1.SecretList
	Expect(dev.Client().List(ctx, &secrets, client.InNamespace(namespace), client.HasLabels{kubenestv1.AppLabel})).To(Succeed())
	for i := range secrets.Items {
		s := &secrets.Items[i]
		if s.Type == "helm.sh/release.v1" {
			continue
		}
		annotations := maps.Clone(s.Annotations)
		maps.DeleteFunc(annotations, func(name, _ string) bool { return strings.HasPrefix(name, "kubenest.io/exports-") }) // of what was generated
		text, err := yaml.Marshal(map[string]any{
			"type": s.Type, "labels": s.Labels, "annotations": annotations, "keys": slices.Sorted(maps.Keys(s.Data)),
		})
		Expect(err).NotTo(HaveOccurred())
		objects["Secret/"+s.Name] = string(text)
	}
	same := map[string]string{}
	for name, text := range objects {
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.Contains(line, kubenestv1.InputsAnnotation+":") { // a digest of what was generated
				lines = append(lines, line)
			}
		}
		same[neutral(name)] = neutral(strings.Join(lines, "\n"))
	}
	return same
}

// named is a name with the way of delivery, perhaps with a digest of the name.
var named = regexp.MustCompile(`shop-(direct|argocd)(-[0-9a-f]{10}\b)?`)

func neutral(text string) string { return named.ReplaceAllString(text, "shop-any") }

func deployment(ctx context.Context, namespace, name string) *appsv1.Deployment {
	GinkgoHelper()
	d := &appsv1.Deployment{}
	Expect(dev.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d)).To(Succeed())
	return d
}

func applications(ctx context.Context) []unstructured.Unstructured {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("argoproj.io/v1alpha1")
	list.SetKind("ApplicationList")
	Expect(dev.Client().List(ctx, list, client.InNamespace(argocdtest.Namespace))).To(Succeed())
	return list.Items
}

var _ = Describe("An App that is delivered directly, and one by Argo CD", Ordered, func() {
	apps := map[kubenestv1.Delivery]*kubenestv1.App{}

	BeforeAll(func(ctx SpecContext) {
		sampleChart(ctx)
		newProject(ctx, "shop-direct")
		newProject(ctx, "shop-argocd")
	}, NodeTimeout(deployed))

	It("end in the same objects", func(ctx SpecContext) {
		for _, way := range []kubenestv1.Delivery{kubenestv1.DeliveryDirect, kubenestv1.DeliveryArgoCD} {
			name := "shop-" + string(way)
			apps[way] = newApp(ctx, name, name, way, shop()...)
		}
		for _, a := range apps {
			began := time.Now()
			runs(ctx, a)
			AddReportEntry(a.Name+" runs, after so much more", time.Since(began).String())
		}
		direct := outcome(ctx, "shop-direct")
		Expect(slices.Sorted(maps.Keys(direct))).To(Equal([]string{
			"Deployment/shop-any-web", "HorizontalPodAutoscaler/shop-any-web", "Ingress/shop-any-web",
			"Secret/shop-any-db", "Secret/shop-any-db-exports", "Service/shop-any-db", "Service/shop-any-web", "StatefulSet/shop-any-db",
		}))
		Eventually(ctx, func() string { return argocdtest.Difference(direct, outcome(ctx, "shop-argocd")) }).Should(BeEmpty())
		for _, way := range []string{"shop-direct", "shop-argocd"} {
			Expect(deployment(ctx, way, way+"-web").Spec.Template.Annotations).To(HaveKey(kubenestv1.InputsAnnotation))
		}

		By("by the ways that they say")
		Expect(files(ctx, "shop-direct", "shop-direct")).To(BeEmpty())
		Expect(files(ctx, "shop-argocd", "shop-argocd")).To(ConsistOf(
			".kubenest", "db-service-shop-argocd-db.yaml", "db-statefulset-shop-argocd-db.yaml", "web-deployment-shop-argocd-web.yaml",
			"web-horizontalpodautoscaler-shop-argocd-web.yaml", "web-ingress-shop-argocd-web.yaml", "web-service-shop-argocd-web.yaml"))
		Expect(applications(ctx)).To(HaveLen(1))
		for namespace, releases := range map[string]int{"shop-direct": 1, "shop-argocd": 0} {
			var secrets corev1.SecretList
			Expect(dev.Client().List(ctx, &secrets, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm"})).To(Succeed())
			Expect(secrets.Items).To(HaveLen(releases), namespace)
		}
		Expect(git.Git(ctx, "-C", repository, "log", "--format=%B", "main")).To(ContainSubstring("App shop-argocd of Project platform/shop-argocd"))
	}, SpecTimeout(6*time.Minute))

	It("are put right where somebody edits what they have", func(ctx SpecContext) {
		before := outcome(ctx, "shop-argocd")
		for _, way := range []string{"shop-direct", "shop-argocd"} {
			_, err := dev.Kubectl(ctx, "", "-n", way, "set", "image", "deployment/"+way+"-web", "*=registry.example.com/foreign:1")
			Expect(err).NotTo(HaveOccurred())
			_, err = dev.Kubectl(ctx, "", "-n", way, "delete", "service", way+"-db")
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, func() string { return argocdtest.Difference(before, outcome(ctx, way)) }).WithTimeout(deployed).Should(BeEmpty())
			runs(ctx, apps[kubenestv1.Delivery(strings.TrimPrefix(way, "shop-"))])
		}
	}, SpecTimeout(5*time.Minute))

	It("leave nothing when they are deleted", func(ctx SpecContext) {
		for _, a := range apps {
			Expect(env.Client().Delete(ctx, a)).To(Succeed())
		}
		for _, a := range apps {
			Eventually(ctx, gone(env.Client(), a)).WithTimeout(deployed).Should(BeTrue())
			Expect(outcome(ctx, a.Name)).To(BeEmpty())
			Expect(files(ctx, a.Name, a.Name)).To(BeEmpty())
		}
		Expect(applications(ctx)).To(BeEmpty())
	}, SpecTimeout(4*time.Minute))
})
