// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
	"github.com/kubenest/kubenest/operator/workload"
)

var update = flag.Bool("update", false, "write the golden files anew")

func target() stack.Target {
	return stack.Target{
		Owner: "c1/platform/shop-0123456789", Namespace: "shop", App: "shop",
		Project: kubenestv1.ProjectKey{Namespace: "platform", Name: "store"},
	}
}

// read a component, and what goes with it, from testdata.
func read(t *testing.T, name string) *workload.Workload {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Component   kubenestv1.Component `json:"component"`
		RestartedAt *metav1.Time         `json:"restartedAt"`
		Revisions   map[string]string    `json:"revisions"`
	}
	if err := yaml.UnmarshalStrict(data, &in); err != nil {
		t.Fatal(err)
	}
	return &workload.Workload{Target: target(), Component: &in.Component, RestartedAt: in.RestartedAt, Revisions: in.Revisions}
}

func render(t *testing.T, w *workload.Workload) []*unstructured.Unstructured {
	t.Helper()
	objects, err := w.Objects()
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestObjects(t *testing.T) {
	for _, name := range []string{"least", "all", "autoscaled"} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			for _, o := range render(t, read(t, name)) {
				data, err := yaml.Marshal(o.Object)
				if err != nil {
					t.Fatal(err)
				}
				got.WriteString("---\n")
				got.Write(data)
			}
			golden := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("objects differ from %s (go test -update writes it anew):\n%s", golden, got.String())
			}
		})
	}
}

func inputsOf(t *testing.T, w *workload.Workload) string {
	t.Helper()
	revision, _, err := unstructured.NestedString(render(t, w)[0].Object, "spec", "template", "metadata", "annotations", kubenestv1.InputsAnnotation)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestPodsRollWhenWhatTheyReadChanges(t *testing.T) {
	w := read(t, "all")
	before := inputsOf(t, w)
	if before == "" || before != inputsOf(t, w) {
		t.Fatalf("inputs %q, want a stable revision", before)
	}
	w.Revisions["unrelated"] = "9"
	if got := inputsOf(t, w); got != before {
		t.Error("a Secret that is not used rolls the pods")
	}
	w.Revisions["shop-db-exports"] = "r2"
	rotated := inputsOf(t, w)
	if rotated == before {
		t.Error("a rotated export does not roll the pods")
	}
	delete(w.Revisions, "mailer")
	if inputsOf(t, w) == rotated {
		t.Error("a Secret that goes does not roll the pods")
	}
	if got := inputsOf(t, read(t, "least")); got != "" {
		t.Errorf("inputs %q of pods that read none", got)
	}
}

func TestSecretsAreTheProjects(t *testing.T) {
	w := read(t, "all")
	if got, want := strings.Join(w.Secrets(), " "), "mailer shop-db-exports"; got != want {
		t.Errorf("Secrets %q, want %q", got, want)
	}
	for _, o := range render(t, w) {
		if o.GetNamespace() != "shop" {
			t.Errorf("%s is in namespace %q", o.GetKind(), o.GetNamespace())
		}
		if o.GetAnnotations()[kubenestv1.OwnerAnnotation] != target().Owner {
			t.Errorf("%s lacks its owner", o.GetKind())
		}
	}
}

func TestIngressNeedsAPort(t *testing.T) {
	w := read(t, "all")
	w.Component.WorkloadSpec.Port = 0
	_, err := w.Objects()
	var problem *stack.Problem
	if !errors.As(err, &problem) || problem.Reason != kubenestv1.ReasonInvalid || !strings.Contains(problem.Message, "port") {
		t.Errorf("got %v, want a problem that names the port", err)
	}
}
