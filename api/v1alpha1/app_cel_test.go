// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// sketchApp makes an App of its components in YAML, and of what else its spec has.
func sketchApp(namespace, name, components string, more ...string) *unstructured.Unstructured {
	GinkgoHelper()
	app := &unstructured.Unstructured{Object: map[string]any{}}
	app.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("App"))
	app.SetNamespace(namespace)
	app.SetName(name)
	setSpec(app, strings.Join(append(more, "projectRef: {name: shop}", "components: ["+components+"]"), ", "))
	return app
}

// web and pg are components that nothing is wrong with.
const (
	web = "{name: web, type: workload, workloadSpec: {image: nginx}}"
	pg  = `{name: pg, type: addon, addonSpec: {chart: {oci: "oci://registry.example.com/pg", version: 1.0.0}}}`
)

var _ = Describe("App", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "org-"}}
		Expect(admin.Create(ctx, created)).To(Succeed())
		namespace = created.Name
	})

	DescribeTable("components on create", func(ctx SpecContext, components string, want refusal) {
		expect(admin.Create(ctx, sketchApp(namespace, "app", components)), want)
	},
		Entry("one", web, accepted),
		Entry("two", web+", "+pg, accepted),
		Entry("none", "", refusal{"spec.components", "at least 1"}),
		Entry("of one name", web+", "+web, refusal{"spec.components[1]", "Duplicate value"}),
		Entry("a dependency", "{name: a, type: workload, dependsOn: [web], workloadSpec: {image: x}}, "+web, accepted),
		Entry("an unknown dependency", "{name: a, type: workload, dependsOn: [b], workloadSpec: {image: x}}",
			refusal{"spec.components", "dependsOn must name other components of this App"}),
		Entry("a dependency on itself", "{name: a, type: workload, dependsOn: [a], workloadSpec: {image: x}}",
			refusal{"spec.components", "dependsOn must name other components of this App"}),
		Entry("a workload without a spec", "{name: a, type: workload}", refusal{"spec.components[0]", "a component of type workload, and no other, has a workloadSpec"}),
		Entry("an addon with a workload's spec", "{name: a, type: addon, workloadSpec: {image: x}}", refusal{"spec.components[0]", "a component of type workload, and no other, has a workloadSpec"}),
		Entry("an addon without a spec", "{name: a, type: addon}", refusal{"spec.components[0]", "a component of type addon, and no other, has an addonSpec"}),
		Entry("another type", "{name: a, type: job, workloadSpec: {image: x}}", refusal{"spec.components[0].type", "Unsupported value"}),
		Entry("a name in upper case", "{name: Web, type: workload, workloadSpec: {image: x}}", refusal{"spec.components[0].name", "should match"}),
		Entry("a name of 41 characters", "{name: "+strings.Repeat("a", 41)+", type: workload, workloadSpec: {image: x}}", refusal{"spec.components[0].name", "Too long"}),
		Entry("value and valueFrom", "{name: a, type: workload, workloadSpec: {image: x, env: [{name: A, value: b, valueFrom: {exportRef: {component: c, key: dsn}}}]}}",
			refusal{"spec.components[0].workloadSpec.env[0]", "give value or valueFrom, not both"}),
		Entry("two sources", "{name: a, type: workload, workloadSpec: {image: x, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}, exportRef: {component: c, key: dsn}}}]}}",
			refusal{"spec.components[0].workloadSpec.env[0].valueFrom", "give one of secretKeyRef and exportRef"}),
		Entry("an autoscaler upside down", "{name: a, type: workload, workloadSpec: {image: x, autoscaling: {minReplicas: 3, maxReplicas: 2}}}",
			refusal{"spec.components[0].workloadSpec.autoscaling", "minReplicas must be at most maxReplicas"}),
		Entry("a label of kubenest's on pods", `{name: a, type: workload, workloadSpec: {image: x, podTemplate: {labels: {kubenest.io/app: b}}}}`,
			refusal{"spec.components[0].workloadSpec.podTemplate.labels", "kubenest's to set"}),
		Entry("a chart from nowhere", "{name: a, type: addon, addonSpec: {chart: {version: 1.0.0}}}", refusal{"spec.components[0].addonSpec.chart", "give one of repo"}),
		Entry("a chart from two places", `{name: a, type: addon, addonSpec: {chart: {oci: "oci://a/b", version: 1.0.0, configMapRef: {name: c}}}}`,
			refusal{"spec.components[0].addonSpec.chart", "give one of repo"}),
		Entry("a chart of a repository without version", `{name: a, type: addon, addonSpec: {chart: {repo: "https://charts.example.com", name: pg}}}`,
			refusal{"spec.components[0].addonSpec.chart", "needs name and version"}),
		Entry("a repository with a password in its URL", `{name: a, type: addon, addonSpec: {chart: {repo: "https://u:p@charts.example.com", name: pg, version: 1.0.0}}}`,
			refusal{"spec.components[0].addonSpec.chart.repo", "should match"}),
		Entry("an export of two kinds", `{name: a, type: addon, addonSpec: {chart: {configMapRef: {name: c}}, exports: [{name: x, template: abc, serviceRef: {name: z}}]}}`,
			refusal{"spec.components[0].addonSpec.exports[0]", "give at most one of"}),
	)

	DescribeTable("images", func(ctx SpecContext, image string, good bool) {
		want := accepted
		if !good {
			want = refusal{"spec.components[0].workloadSpec.image", "image must be an image reference"}
		}
		expect(admin.Create(ctx, sketchApp(namespace, "app", `{name: a, type: workload, workloadSpec: {image: "`+image+`"}}`)), want)
	},
		Entry("a name", "nginx", true),
		Entry("a tag", "nginx:1.29", true),
		Entry("a registry with a port", "registry.example.com:5000/team/web:v1.4.0", true),
		Entry("a digest", "ghcr.io/example/web@sha256:"+strings.Repeat("a", 64), true),
		Entry("tag and digest", "ghcr.io/example/web:v1@sha256:"+strings.Repeat("a", 64), true),
		Entry("a space", "nginx latest", false),
		Entry("a URL", "https://ghcr.io/example/web", false),
		Entry("an empty tag", "nginx:", false),
		Entry("upper case", "Example/Web", false),
		Entry("half a digest", "nginx@sha256:abc", false),
		Entry("a shell", "nginx; rm -rf /", false),
	)

	DescribeTable("names", func(ctx SpecContext, app, component string, want refusal) {
		expect(admin.Create(ctx, sketchApp(namespace, app, "{name: "+component+", type: workload, workloadSpec: {image: x}}")), want)
	},
		Entry("of 51 characters together", strings.Repeat("a", 26), strings.Repeat("b", 25), accepted),
		Entry("of 52 characters together", strings.Repeat("a", 26), strings.Repeat("b", 26), refusal{"spec.components", "at most 51 characters together"}),
		Entry("that begins with a digit", "7eleven", "web", refusal{"metadata", "name must begin with a letter"}),
		Entry("with a dot", "web.shop", "web", refusal{"metadata", "name must begin with a letter"}),
	)

	DescribeTable("timeouts", func(ctx SpecContext, timeout string, want refusal) {
		expect(admin.Create(ctx, sketchApp(namespace, "app", web, "timeout: "+timeout)), want)
	},
		Entry("of a minute", "1m", accepted),
		Entry("of a second", "1s", refusal{"spec.timeout", "between 10s and 24h"}),
		Entry("of two days", "48h", refusal{"spec.timeout", "between 10s and 24h"}),
		Entry("that are numbers", "60", refusal{"spec.timeout", "must be of type string"}),
	)

	It("keeps its Project", func(ctx SpecContext) {
		app := sketchApp(namespace, "app", web)
		Expect(admin.Create(ctx, app)).To(Succeed())
		Expect(unstructured.SetNestedField(app.Object, "other", "spec", "projectRef", "name")).To(Succeed())
		expect(admin.Update(ctx, app), refusal{"spec.projectRef", "projectRef cannot change"})
	})

	It("keeps the types of its components", func(ctx SpecContext) {
		app := sketchApp(namespace, "app", web+", "+pg)
		Expect(admin.Create(ctx, app)).To(Succeed())
		setSpec(app, `projectRef: {name: shop}, components: [{name: web, type: addon, addonSpec: {chart: {configMapRef: {name: c}}}}, `+pg+`]`)
		expect(admin.Update(ctx, app), refusal{"spec.components[0]", "a component's type cannot change"})
	})
})
