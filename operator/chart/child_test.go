// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// Each of these would take minutes or gigabytes.
const (
	endless  = `{{ range 2000000000 }}{{ range 2000000000 }}{{ end }}{{ end }}`
	text     = `{{ $x := repeat 100000 "x" }}{{ range 2000000000 }}{{ $x }}{{ end }}`
	doubling = `{{ $l := until 1000 }}{{ range until 40 }}{{ $l = concat $l $l }}{{ end }}`
)

func TestBombs(t *testing.T) {
	for name, template := range map[string]string{"text": text, "doubled lists": doubling} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Render(t.Context(), pack(t, map[string]string{"templates/a.yaml": template}), options(nil))
			runtime.ReadMemStats(&after)
			reason, words := problem(t, err)
			g.Expect(reason).To(Equal(kubenestv1.ReasonInvalid))
			g.Expect(words).To(Or(ContainSubstring("more than 512 MiB of memory to render"), ContainSubstring("more than 20s")), "which of them depends on the machine")
			g.Expect((after.TotalAlloc-before.TotalAlloc)>>20).To(BeNumerically("<", 16), "MiB in this process")
		})
	}
}

func TestEndlessTemplate(t *testing.T) {
	g := NewWithT(t)
	text, err := json.Marshal(&job{Packed: pack(t, map[string]string{"templates/a.yaml": endless})})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = ask(t.Context(), text, time.Second)
	reason, words := problem(t, err)
	g.Expect(reason).To(Equal(kubenestv1.ReasonInvalid))
	g.Expect(words).To(ContainSubstring("more than 1s to render"))
}

func TestRenderIsCancelled(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := Render(ctx, pack(t, map[string]string{"templates/a.yaml": endless}), options(nil))
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Expect(time.Since(began)).To(BeNumerically("<", renderTimeout))
}

func TestChildHasNothingOfItsParent(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("SECRET_OF_THE_OPERATOR", "hunter2")
	r, err := Render(t.Context(), pack(t, map[string]string{
		"templates/a.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {found: {{ lookup "v1" "Secret" "shop" "a" | toJson | quote }}, env: "{{ .Files.Get "/proc/self/environ" }}"}}`,
	}), options(nil))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Manifests[0].Object.Object).To(HaveKeyWithValue("data", map[string]any{"found": "{}", "env": ""}))
	_, err = Render(t.Context(), pack(t, map[string]string{"templates/a.yaml": `{{ env "SECRET_OF_THE_OPERATOR" }}`}), options(nil))
	problem(t, err)
}

func TestChild(t *testing.T) {
	g := NewWithT(t)
	_, ok := Child(t.Context(), []string{"operator", "--version"}, nil, nil)
	g.Expect(ok).To(BeFalse())

	ask := func(template string) *answer {
		o := options(nil)
		text, err := json.Marshal(&job{
			Packed: pack(t, map[string]string{"templates/a.yaml": template}), Release: "r", Namespace: "n", Revision: 2,
			KubeVersion: o.Capabilities.KubeVersion, APIVersions: []string{"example.com/v1"},
		})
		g.Expect(err).NotTo(HaveOccurred())
		var out bytes.Buffer
		g.Expect(answerJob(t.Context(), bytes.NewReader(text), &out)).To(Succeed())
		a := &answer{}
		g.Expect(json.Unmarshal(out.Bytes(), a)).To(Succeed())
		return a
	}
	a := ask(`{apiVersion: v1, kind: {{ if and .Release.IsUpgrade (.Capabilities.APIVersions.Has "example.com/v1") }}A{{ end }}, metadata: {name: a}, m: 5000000000}`)
	g.Expect(a.Rendering).NotTo(BeNil())
	g.Expect(a.Rendering.Manifests[0].Object.Object).To(And(HaveKeyWithValue("kind", "A"), HaveKeyWithValue("m", int64(5000000000))))
	a = ask(`{apiVersion: v1, kind: A, metadata: {name: a}, n: [` + strings.Repeat("{},", maxParts) + `]}`)
	g.Expect(a.Rendering).To(BeNil())
	g.Expect(a.Problem.Message).To(ContainSubstring("over 400000 values"))

	g.Expect(answerJob(t.Context(), strings.NewReader("{"), nil)).NotTo(Succeed())
}

func TestOutputIsBounded(t *testing.T) {
	g := NewWithT(t)
	var o output
	_, err := o.Write(make([]byte, maxAnswer))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = o.Write([]byte("x"))
	g.Expect(err).To(MatchError(ContainSubstring("over the limit")))
}
