// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// draft makes a Project of a spec in YAML.
func draft(namespace, name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	project := sketch(namespace, spec)
	project.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("Project"))
	project.SetGenerateName("")
	project.SetName(name)
	return project
}

// labelled are n labels in YAML.
func labelled(n int) string {
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("l%d: x", i))
	}
	return "labels: {" + strings.Join(pairs, ", ") + "}"
}

var _ = Describe("Project", func() {
	const on = "clusterRef: {name: dev}"
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "org-"}}
		Expect(admin.Create(ctx, created)).To(Succeed())
		namespace = created.Name
	})

	const (
		form     = "namespace must be lower-case letters, digits and dashes, such as shop"
		reserved = "this namespace is reserved: a Project has a namespace of its own"
		ownName  = "the Project's name can not be the name of its namespace (it is reserved, over 63 characters, or has dots): set spec.namespace"
		keys     = "labels of kubernetes.io, k8s.io and kubenest.io are set by the cluster's owner and by kubenest only"
	)

	DescribeTable("on create", func(ctx SpecContext, name, spec string, want refusal) {
		expect(admin.Create(ctx, draft(namespace, name, spec)), want)
	},
		Entry("a cluster alone", "shop", on, accepted),
		Entry("everything", "shop", `clusterRef: {name: prod, namespace: platform}, namespace: shop-prod,
			labels: {team: retail, example.com/tier: gold}, quota: {requests.cpu: "8", pods: 50},
			limits: [{type: Container, default: {memory: 256Mi}}]`, accepted),
		Entry("no spec", "shop", "", refusal{"spec", "Required value"}),
		Entry("no cluster", "shop", "namespace: shop", refusal{"spec.clusterRef", "Required value"}),
		Entry("a cluster without a name", "shop", `clusterRef: {name: ""}`, refusal{"spec.clusterRef.name", "at least 1"}),

		Entry("namespace in upper case", "shop", on+", namespace: Shop", refusal{"spec.namespace", form}),
		Entry("namespace with a dot", "shop", on+", namespace: shop.prod", refusal{"spec.namespace", form}),
		Entry("namespace that ends in a dash", "shop", on+", namespace: shop-", refusal{"spec.namespace", form}),
		Entry("namespace that is empty", "shop", on+`, namespace: ""`, refusal{"spec.namespace", form}),
		Entry("namespace of 63 characters", "shop", on+", namespace: "+strings.Repeat("n", 63), accepted),
		Entry("namespace of 64 characters", "shop", on+", namespace: "+strings.Repeat("n", 64), refusal{"spec.namespace", "may not be more than 63"}),
		Entry("namespace kube-system", "shop", on+", namespace: kube-system", refusal{"spec.namespace", reserved}),
		Entry("namespace kube-anything", "shop", on+", namespace: kube-anything", refusal{"spec.namespace", reserved}),
		Entry("namespace default", "shop", on+", namespace: default", refusal{"spec.namespace", reserved}),
		Entry("namespace kubenest-system", "shop", on+", namespace: kubenest-system", refusal{"spec.namespace", reserved}),
		Entry("namespace argocd", "shop", on+", namespace: argocd", refusal{"spec.namespace", reserved}),
		Entry("namespace that only begins alike", "shop", on+", namespace: kubernetes-shop", accepted),

		Entry("reserved name", "default", on, refusal{"<nil>", ownName}),
		Entry("reserved name of the system", "kube-system", on, refusal{"<nil>", ownName}),
		Entry("reserved name, with a namespace", "default", on+", namespace: shop", accepted),
		Entry("name with a dot", "shop.prod", on, refusal{"<nil>", ownName}),
		Entry("name with a dot, with a namespace", "shop.prod", on+", namespace: shop", accepted),
		Entry("name of 63 characters", strings.Repeat("n", 63), on, accepted),
		Entry("name of 64 characters", strings.Repeat("n", 64), on, refusal{"<nil>", ownName}),

		Entry("label that sets pod security", "shop", on+", labels: {pod-security.kubernetes.io/enforce: privileged}", refusal{"spec.labels", keys}),
		Entry("label of kubernetes.io", "shop", on+", labels: {kubernetes.io/metadata.name: x}", refusal{"spec.labels", keys}),
		Entry("label of k8s.io", "shop", on+", labels: {admission.k8s.io/ignore: x}", refusal{"spec.labels", keys}),
		Entry("label of kubenest.io", "shop", on+", labels: {kubenest.io/project: x}", refusal{"spec.labels", keys}),
		Entry("label of a domain that only ends alike", "shop", on+", labels: {notkubernetes.io/x: x}", accepted),
		Entry("32 labels", "shop", on+", "+labelled(32), accepted),
		Entry("33 labels", "shop", on+", "+labelled(33), refusal{"spec.labels", "must have at most 32"}),
		Entry("a quota that is none", "shop", on+", quota: {requests.cpu: many}", refusal{"spec.quota.requests.cpu", "should match"}),
	)

	DescribeTable("on update", func(ctx SpecContext, before, after string, want refusal) {
		project := draft(namespace, "shop", before)
		Expect(admin.Create(ctx, project)).To(Succeed())
		setSpec(project, after)
		expect(admin.Update(ctx, project), want)
	},
		Entry("nothing", on, on, accepted),
		Entry("labels, quota and limits", on+", quota: {pods: 5}", on+", labels: {team: a}, limits: [{type: Pod, max: {cpu: 1}}]", accepted),
		Entry("another cluster", on, "clusterRef: {name: prod}", refusal{"spec.clusterRef", "clusterRef cannot change: what runs on the old cluster would stay behind; create another Project"}),
		Entry("a cluster of another namespace", on, "clusterRef: {name: dev, namespace: platform}", refusal{"spec.clusterRef", "clusterRef cannot change"}),
		Entry("another namespace", on+", namespace: a", on+", namespace: b", refusal{"spec.namespace", "namespace cannot change: what runs in the old one would stay behind"}),
		Entry("a namespace where there was none", on, on+", namespace: shop", refusal{"spec.namespace", "namespace cannot change"}),
		Entry("no namespace where there was one", on+", namespace: shop", on, refusal{"spec.namespace", "namespace cannot change"}),
	)
})
