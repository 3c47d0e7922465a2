// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

func TestRender(t *testing.T) {
	g := NewWithT(t)
	r, err := Render(t.Context(), pack(t, map[string]string{
		"values.yaml":            "name: default\n",
		"templates/_help.tpl":    `{{ define "n" }}{{ .Release.Name }}-{{ .Values.name }}{{ end }}`,
		"templates/NOTES.txt":    "hello",
		"templates/a.yaml":       "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ include \"n\" . }}}\nstringData: {a: b}\n",
		"templates/b.yaml":       "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: two}}\n",
		"templates/c.yaml":       "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: \"pre-install, post-install\"}}\n",
		"templates/empty.yaml":   "{{ if false }}x{{ end }}\n---\n# nothing\n",
		"crds/d.yaml":            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x.example.com}\n",
		"templates/version.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v{{ .Capabilities.KubeVersion.Minor }}, namespace: {{ .Release.Namespace }}}\n",
	}), options(map[string]any{"name": "mine"}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Chart).To(Equal("c-1.0.0"))
	g.Expect(r.Definitions).To(HaveLen(1))
	var names []string
	for i := range r.Manifests {
		m := &r.Manifests[i]
		names = append(names, m.Object.GetKind()+"/"+m.Object.GetName())
		if m.Object.GetKind() == "Job" {
			g.Expect(m.HookEvents()).To(Equal([]string{"pre-install", "post-install"}))
		}
	}
	g.Expect(names).To(Equal([]string{"Secret/shop-db-mine", "ConfigMap/one", "ConfigMap/two", "Job/j", "ConfigMap/v37"}))
	g.Expect(r.Manifests[0].Object.Object).To(HaveKeyWithValue("data", map[string]any{"a": "Yg=="}))
	g.Expect(r.Manifests[0].Object.Object).NotTo(HaveKey("stringData"))
}

func TestRenderRefuses(t *testing.T) {
	big := make([]byte, MaxUnpacked+1)
	for name, test := range map[string]struct {
		files  map[string]string
		values map[string]any
		want   string
	}{
		"a template that fails": {
			files:  map[string]string{"templates/a.yaml": "\n{{ fail (printf \"no %s\" .Values.password) }}"},
			values: map[string]any{"password": "hunter2"}, want: "a.yaml:2",
		},
		"a template that is none":            {files: map[string]string{"templates/a.yaml": "{{ if }}"}, want: "a.yaml:1"},
		"values of another type":             {files: map[string]string{"templates/a.yaml": "{{ .Values.a.b }}"}, values: map[string]any{"a": "hunter2"}, want: "a.yaml:1"},
		"values that the schema refuses":     {files: map[string]string{"values.schema.json": `{"properties":{"a":{"type":"integer"}}}`}, values: map[string]any{"a": "hunter2"}, want: "do not fit chart c"},
		"what is no YAML":                    {files: map[string]string{"templates/a.yaml": "a: b: hunter2"}, want: "no YAML"},
		"an object without a kind":           {files: map[string]string{"templates/a.yaml": "metadata: {name: a}"}, want: "without kind"},
		"an object without a name":           {files: map[string]string{"templates/a.yaml": "{kind: Secret, apiVersion: v1}"}, want: "without a name"},
		"a library":                          {files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\ntype: library\n"}, want: "library chart"},
		"another Kubernetes":                 {files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\nkubeVersion: \"<1.20\"\n"}, want: "wants Kubernetes <1.20, and this cluster is v1.37.0"},
		"dependencies that are not packaged": {files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies: [{name: common, version: 1.x, repository: https://e.com}]\n"}, want: "common"},
		"a bomb":                             {files: map[string]string{"files/zero": string(big)}, want: "over 50 MiB"},
		"a range without end":                {files: map[string]string{"templates/a.yaml": "{{ range until 2000000000 }}{{ end }}"}, want: "over 100000 numbers"},
		"text without end":                   {files: map[string]string{"templates/a.yaml": "{{ repeat 2000000000 \"x\" }}"}, want: "over 1048576 characters"},
		"chance without end":                 {files: map[string]string{"templates/a.yaml": "{{ randAlphaNum 2000000000 }}"}, want: "over 1048576 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := Render(t.Context(), pack(t, test.files), options(test.values))
			reason, words := problem(t, err)
			g.Expect(reason).To(Equal(kubenestv1.ReasonInvalid))
			g.Expect(words).To(ContainSubstring(test.want))
			g.Expect(words).NotTo(ContainSubstring("hunter2"))
			g.Expect(len(words)).To(BeNumerically("<", 1024))
		})
	}
	for name, packed := range map[string][]byte{"no package": []byte("text"), "cut off": pack(t, nil)[:60]} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(packed)
			problem(t, err)
		})
	}
}

func TestSettle(t *testing.T) {
	g := NewWithT(t)
	object := func(password, image string, list ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"password": password}, "image": image, "list": list}}
	}
	o := object("new1", "v2", map[string]any{"sum": "1"})
	g.Expect(Settle(o, object("new2", "v2", map[string]any{"sum": "2"}), object("old", "v1", map[string]any{"sum": "0"}))).To(BeTrue())
	g.Expect(o).To(Equal(object("old", "v2", map[string]any{"sum": "0"})), "what is the same in both is wanted; what is not is kept")

	o = object("new1", "v2")
	g.Expect(Settle(o, object("new2", "v2"), nil)).To(BeTrue())
	g.Expect(o).To(Equal(object("new1", "v2")), "there is nothing to keep")

	o = object("given", "v2")
	g.Expect(Settle(o, object("given", "v2"), object("old", "v1"))).To(BeFalse())
	g.Expect(o).To(Equal(object("given", "v2")))
}
