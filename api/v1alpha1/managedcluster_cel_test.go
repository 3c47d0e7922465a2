// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

const aws = "provision: {provider: aws, credentialRef: {name: a}, instanceType: t3.medium"

// refusal is what the API server says no with; the zero value is a yes.
type refusal struct{ field, message string }

var accepted = refusal{}

func expect(err error, want refusal) {
	GinkgoHelper()
	if want == accepted {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	var status apierrors.APIStatus
	Expect(errors.As(err, &status)).To(BeTrue())
	var causes []string
	for _, cause := range status.Status().Details.Causes {
		causes = append(causes, cause.Field+": "+cause.Message)
		Expect(cause.Message).NotTo(ContainSubstring("no such key"), "a rule failed to be evaluated")
	}
	Expect(causes).To(ContainElement(And(HavePrefix(want.field+": "), ContainSubstring(want.message))))
}

// sketch makes a record of a spec in YAML.
func sketch(namespace, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	record := &unstructured.Unstructured{Object: map[string]any{}}
	record.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("ManagedCluster"))
	record.SetNamespace(namespace)
	record.SetGenerateName("c-")
	setSpec(record, spec)
	return record
}

func setSpec(record *unstructured.Unstructured, spec string) {
	GinkgoHelper()
	if spec == "" {
		delete(record.Object, "spec")
		return
	}
	var content map[string]any
	Expect(yaml.Unmarshal([]byte("{"+spec+"}"), &content)).To(Succeed(), spec)
	record.Object["spec"] = content
}

var _ = Describe("ManagedCluster", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "org-"}}
		Expect(admin.Create(ctx, created)).To(Succeed())
		namespace = created.Name
	})

	DescribeTable("on create", func(ctx SpecContext, spec string, want refusal) {
		expect(admin.Create(ctx, sketch(namespace, spec)), want)
	},
		Entry("no spec", "", accepted),
		Entry("everything of a registered cluster", `displayName: "Shop 17, Malmö", description: x, region: eu-north,
			clusterID: 6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11, delivery: argocd,
			gitops: {repoURL: "https://git.example.com/fleet.git", path: a, secretRef: {name: s}},
			operator: {values: {a: {b: [1, x]}}}, allowedProjects: {namespaceSelector: {}},
			token: {floor: 2, lifetime: 720h}, rebind: 0b2d, abandoned: true`, accepted),
		Entry("clusterID in upper case", "clusterID: 6F1C2F0E-3B1D-4C57-9F5E-0A8D3F6B2C11", refusal{"spec.clusterID", "clusterID must be a UUID in lower case"}),
		Entry("clusterID that is a name", "clusterID: shop-017", refusal{"spec.clusterID", "clusterID must be a UUID in lower case"}),
		Entry("clusterID that is empty", `clusterID: ""`, refusal{"spec.clusterID", "clusterID must be a UUID in lower case"}),
		Entry("delivery of another kind", "delivery: flux", refusal{"spec.delivery", "supported values"}),
		Entry("gitops without a repository", "gitops: {}", refusal{"spec.gitops.repoURL", "Required value"}),
		Entry("operator values that are no map", "operator: {values: [1]}", refusal{"spec.operator.values", "must be of type object"}),
		Entry("lifetime of 10 minutes", "token: {lifetime: 10m}", accepted),
		Entry("lifetime of 10 years", "token: {lifetime: 87600h}", accepted),
		Entry("lifetime under 10 minutes", "token: {lifetime: 9m59s}", refusal{"spec.token.lifetime", "lifetime must be a duration between 10m and 87600h (10 years)"}),
		Entry("lifetime over 10 years", "token: {lifetime: 87601h}", refusal{"spec.token.lifetime", "lifetime must be a duration between"}),
		Entry("lifetime in days", "token: {lifetime: 365d}", refusal{"spec.token.lifetime", "lifetime must be a duration between"}),
		Entry("lifetime that is a number", "token: {lifetime: 3600}", refusal{"spec.token.lifetime", "must be of type string"}),
		Entry("a negative floor", "token: {floor: -1}", refusal{"spec.token.floor", "greater than or equal to 0"}),
		Entry("a floor that leaves no generation above it", "token: {floor: 9223372036854775807}", refusal{"spec.token.floor", "less than or equal to 1e+09"}),

		Entry("a provision", aws+"}", accepted),
		Entry("a whole provision", aws+", nodeCount: 5, controlPlaneCount: 3, diskSizeGB: 40, kubernetesVersion: v1.36, deletionPolicy: Delete}", accepted),
		Entry("provision without provider", "provision: {credentialRef: {name: a}, instanceType: x}", refusal{"spec.provision", "provision needs provider, credentialRef and instanceType"}),
		Entry("provision without credential", "provision: {provider: aws, instanceType: x}", refusal{"spec.provision", "provision needs provider"}),
		Entry("provision without instance type", "provision: {provider: aws, credentialRef: {name: a}}", refusal{"spec.provision", "provision needs provider"}),
		Entry("provision with a node count alone", "provision: {nodeCount: 3}", refusal{"spec.provision", "provision needs provider"}),
		Entry("another provider", "provision: {provider: azure, credentialRef: {name: a}, instanceType: x}", refusal{"spec.provision.provider", "supported values"}),
		Entry("fewer nodes than control planes", aws+", nodeCount: 2, controlPlaneCount: 3}", refusal{"spec.provision.nodeCount", "nodeCount counts all nodes"}),
		Entry("as many nodes as control planes", aws+", nodeCount: 3, controlPlaneCount: 3}", accepted),
		Entry("no nodes", aws+", nodeCount: 0}", refusal{"spec.provision.nodeCount", "greater than or equal to 1"}),
		Entry("an even number of control planes", aws+", nodeCount: 2, controlPlaneCount: 2}", refusal{"spec.provision.controlPlaneCount", "supported values"}),
		Entry("a patch version", aws+", kubernetesVersion: v1.36.2}", accepted),
		Entry("a version without v", aws+`, kubernetesVersion: "1.36"}`, refusal{"spec.provision.kubernetesVersion", "kubernetesVersion must look like v1.36 or v1.36.2"}),
	)

	DescribeTable("on update", func(ctx SpecContext, before, after string, want refusal) {
		record := sketch(namespace, before)
		Expect(admin.Create(ctx, record)).To(Succeed())
		setSpec(record, after)
		expect(admin.Update(ctx, record), want)
	},
		Entry("nothing", "", "", accepted),
		Entry("a clusterID where there was none", "", "clusterID: 6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11", accepted),
		Entry("the same clusterID", "clusterID: 6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11", "region: x, clusterID: 6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11", accepted),
		Entry("another clusterID", "clusterID: 6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11", "clusterID: 7f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11",
			refusal{"spec.clusterID", "clusterID cannot change once it is set: the cluster's operator knows itself by it"}),
		Entry("clusterID removed", "clusterID: 6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11", "region: x", refusal{"spec.clusterID", "clusterID cannot change"}),
		Entry("region of a registered cluster", "region: a", "region: b", accepted),
		Entry("a provision added", "", aws+"}", refusal{"spec.provision", "provision cannot be added or removed"}),
		Entry("a node count alone, as kubectl scale adds it", "", "provision: {nodeCount: 3}", refusal{"spec.provision", "kubenest does not manage (so it cannot be scaled from here)"}),
		Entry("provision removed", aws+"}", "region: x", refusal{"spec.provision", "would leak its machines"}),
		Entry("region of a provisioned cluster", "region: a, "+aws+"}", "region: b, "+aws+"}", refusal{"spec.region", "its machines cannot move"}),
		Entry("region added to a provisioned cluster", aws+"}", "region: b, "+aws+"}", refusal{"spec.region", "its machines cannot move"}),
		Entry("display name of a provisioned cluster", aws+"}", "displayName: x, "+aws+"}", accepted),
		Entry("node count", aws+", nodeCount: 3}", aws+", nodeCount: 5}", accepted),
		Entry("node count below the control planes", aws+", nodeCount: 3, controlPlaneCount: 3}", aws+", nodeCount: 2, controlPlaneCount: 3}", refusal{"spec.provision.nodeCount", "nodeCount counts all nodes"}),
		Entry("provider", aws+"}", "provision: {provider: hetzner, credentialRef: {name: a}, instanceType: t3.medium}", refusal{"spec.provision.provider", "provider cannot change"}),
		Entry("provider removed", aws+"}", "provision: {credentialRef: {name: a}, instanceType: t3.medium}", refusal{"spec.provision", "provision needs provider"}),
		Entry("credential", aws+"}", "provision: {provider: aws, credentialRef: {name: b}, instanceType: t3.medium}", accepted),
		Entry("instance type", aws+"}", "provision: {provider: aws, credentialRef: {name: a}, instanceType: t3.large}", refusal{"spec.provision.instanceType", "instanceType cannot change: register a new cluster"}),
		Entry("control planes", aws+", nodeCount: 3}", aws+", nodeCount: 3, controlPlaneCount: 3}", refusal{"spec.provision.controlPlaneCount", "controlPlaneCount cannot change"}),
		Entry("disk size", aws+", diskSizeGB: 20}", aws+", diskSizeGB: 40}", refusal{"spec.provision.diskSizeGB", "diskSizeGB cannot change"}),
		Entry("deletion policy", aws+"}", aws+", deletionPolicy: Delete}", accepted),
	)

	It("has a name that leaves room for its Secret's", func(ctx SpecContext) {
		record := sketch(namespace, "")
		record.SetName(strings.Repeat("n", 242))
		Expect(admin.Create(ctx, record)).To(Succeed())
		record = sketch(namespace, "")
		record.SetName(strings.Repeat("n", 243))
		expect(admin.Create(ctx, record), refusal{"metadata", "name must be at most 242 characters"})
	})

	It("has defaults that kstatus and people rely on", func(ctx SpecContext) {
		record := &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}
		Expect(admin.Create(ctx, record)).To(Succeed())
		Expect(record.Status.ObservedGeneration).To(BeEquivalentTo(-1))
		Expect(record.Spec.Delivery).To(Equal(kubenestv1.DeliveryDirect))
		Expect(record.ID()).To(BeEquivalentTo(record.UID))

		provisioned := sketch(namespace, aws+"}")
		Expect(admin.Create(ctx, provisioned)).To(Succeed())
		spec := provisioned.Object["spec"].(map[string]any)["provision"].(map[string]any)
		Expect(spec).To(HaveKeyWithValue("nodeCount", BeEquivalentTo(1)))
		Expect(spec).To(HaveKeyWithValue("controlPlaneCount", BeEquivalentTo(1)))
		Expect(spec).To(HaveKeyWithValue("deletionPolicy", "Orphan"))
	})

	It("keeps the operator's values as they were written", func(ctx SpecContext) {
		record := sketch(namespace, `operator: {values: {a: {b: [1, x]}, "c.d/e": null, f: 1.5}}`)
		Expect(admin.Create(ctx, record)).To(Succeed())
		var typed kubenestv1.ManagedCluster
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(record), &typed)).To(Succeed())
		var values map[string]any
		Expect(json.Unmarshal(typed.Spec.Operator.Values.Raw, &values)).To(Succeed())
		Expect(values).To(HaveKeyWithValue("a", map[string]any{"b": []any{1.0, "x"}}))
		Expect(values).To(HaveKeyWithValue("f", 1.5))
	})

	Describe("scale", func() {
		scale := func(ctx context.Context, record client.Object, replicas string) error {
			return admin.SubResource("scale").Patch(ctx, record, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+replicas+`}}`)))
		}

		It("is refused on a registered cluster with words that help, and changes nothing", func(ctx SpecContext) {
			record := sketch(namespace, "")
			Expect(admin.Create(ctx, record)).To(Succeed())
			before := record.DeepCopy()
			expect(scale(ctx, record.DeepCopy(), "3"), refusal{"spec.provision", "has nodes that kubenest does not manage (so it cannot be scaled from here)"})
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
			Expect(record).To(Equal(before))
		})

		It("sets the node count of a provisioned one", func(ctx SpecContext) {
			record := sketch(namespace, aws+", nodeCount: 3, controlPlaneCount: 3}")
			Expect(admin.Create(ctx, record)).To(Succeed())
			Expect(scale(ctx, record.DeepCopy(), "5")).To(Succeed())
			var typed kubenestv1.ManagedCluster
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(record), &typed)).To(Succeed())
			Expect(typed.Spec.Provision.NodeCount).To(BeEquivalentTo(5))

			expect(scale(ctx, record.DeepCopy(), "2"), refusal{"spec.provision.nodeCount", "nodeCount counts all nodes, so it cannot be below controlPlaneCount"})
			expect(scale(ctx, record.DeepCopy(), "1001"), refusal{"spec.provision.nodeCount", "less than or equal to 1000"})
		})
	})
})
