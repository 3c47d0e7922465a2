// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/stack"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDifferences(t *testing.T) {
	const wanted = `
metadata: {labels: {kubenest.io/app: shop}}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: web
        image: web:v1
        args: [a, b]
        env: [{name: A, value: x}, {name: B, value: "y"}]
        ports: [{containerPort: 80, protocol: TCP}]
      nodeSelector: {}
`
	for name, test := range map[string]struct{ from, to, want string }{
		"nothing":                {"", "", ""},
		"more than is wanted":    {"replicas: 2", "replicas: 2\n  minReadySeconds: 5", ""},
		"a label":                {"kubenest.io/app: shop", "kubenest.io/app: x", "metadata.labels[kubenest.io/app]"},
		"a number":               {"replicas: 2", "replicas: 3", "spec.replicas"},
		"a field that is gone":   {"image: web:v1", "x: y", "spec.template.spec.containers[web].image"},
		"a list as a whole":      {"[a, b]", "[a]", "spec.template.spec.containers[web].args"},
		"a variable":             {"value: x", "value: z", "spec.template.spec.containers[web].env[A].value"},
		"one that is gone":       {`{name: A, value: x}, `, "", "spec.template.spec.containers[web].env[A]"},
		"one that somebody adds": {`{name: A, value: x}`, `{name: C, value: c}, {name: A, value: x}`, ""},
		"a port":                 {"containerPort: 80", "containerPort: 81", "spec.template.spec.containers[web].ports[80/TCP]"},
		"another container":      {"name: web", "name: evil", "spec.template.spec.containers[web]"},
	} {
		t.Run(name, func(t *testing.T) {
			live := object(t, strings.Replace(wanted, test.from, test.to, 1))
			var got []string
			for _, path := range differences(object(t, wanted), live) {
				got = append(got, describePath(path))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("differences %q, want %q", got, test.want)
			}
		})
	}
}

func TestChanger(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{
		{Manager: kubenestv1.FieldManagerOperator, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{}}}`)},
		{Manager: "status", Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{}}}`)},
		{Manager: "edit", FieldsV1: metav1.NewFieldsV1(
			`{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:args":{},"f:selector":{},"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{}}}}}`)},
	}
	wanted := `
metadata: {labels: {a: x, b: x}}
spec: {paused: true, args: [a], selector: {x: "y"}, containers: [{name: web, image: a, command: [b]}]}`
	got := map[string]string{}
	for _, path := range differences(object(t, wanted), map[string]any{
		"metadata": map[string]any{"labels": map[string]any{}},
		"spec":     map[string]any{"selector": map[string]any{}, "containers": []any{map[string]any{"name": "web"}}},
	}) {
		got[describePath(path)] = changer(managed, path)
	}
	for path, want := range map[string]string{
		"metadata.labels.a": "edit", "metadata.labels.b": "", "spec.paused": "", "spec.args": "edit", "spec.selector.x": "edit",
		"spec.containers[web].image": "edit", "spec.containers[web].command": "",
	} {
		if who, ok := got[path]; !ok || who != want {
			t.Errorf("%s was changed by %q, want %q (%v)", path, who, want, got)
		}
	}
}

func TestExplain(t *testing.T) {
	const secret = "hunter2"
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	terminating := apierrors.NewForbidden(resource, "web", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	invalid := apierrors.NewInvalid(kind, "web", field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), secret, "must be a number")})
	for name, test := range map[string]struct {
		err     error
		kind    string
		reason  string
		waiting bool
		words   []string
	}{
		"quota": {
			apierrors.NewForbidden(resource, "web", errors.New("exceeded quota: kubenest, requested: count/deployments.apps=1")), "Deployment",
			ReasonExceededQuota, false,
			[]string{"Deployment shop/web", "count/deployments.apps=1", "spec.quota"},
		},
		"rights": {
			apierrors.NewForbidden(resource, "web", errors.New(`User "x" cannot patch resource`)), "Deployment",
			kubenestv1.ReasonForbidden, false,
			[]string{"cannot patch", "shop/kubenest-project"},
		},
		"impersonation": {
			apierrors.NewForbidden(resource, "web", errors.New(`User "x" cannot impersonate resource "serviceaccounts"`)), "Deployment",
			kubenestv1.ReasonForbidden, false,
			[]string{"upgrade its chart"},
		},
		"a namespace that goes": {terminating, "Deployment", kubenestv1.ReasonWaitingForNamespace, true, []string{"shop"}},
		"no namespace": {
			apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), "Deployment",
			kubenestv1.ReasonWaitingForNamespace, true,
			[]string{"shop"},
		},
		"a field":          {invalid, "Deployment", kubenestv1.ReasonInvalid, false, []string{"spec.replicas", "must be a number"}},
		"a Secret's field": {invalid, "Secret", kubenestv1.ReasonInvalid, false, []string{"spec.replicas"}},
		"an unknown kind": {
			&meta.NoKindMatchError{GroupKind: kind}, "Deployment",
			kubenestv1.ReasonInvalid, false,
			[]string{"install what defines it"},
		},
		"too long":         {apierrors.NewBadRequest(strings.Repeat("x", 4096)), "Deployment", kubenestv1.ReasonInvalid, false, nil},
		"another try":      {apierrors.NewServiceUnavailable("x"), "Deployment", "", false, nil},
		"a lost race":      {apierrors.NewConflict(resource, "web", errors.New("uid")), "Deployment", "", false, nil},
		"a Secret's words": {apierrors.NewBadRequest("illegal base64 " + secret), "Secret", kubenestv1.ReasonInvalid, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"kind": test.kind}}
			o.SetNamespace("shop")
			o.SetName("web")
			err := Explain(test.err, &stack.Target{Namespace: "shop"}, o)
			var problem *stack.Problem
			if !errors.As(err, &problem) {
				if test.reason != "" || !errors.Is(err, test.err) {
					t.Errorf("got %v, want a problem %q", err, test.reason)
				}
				return
			}
			if problem.Reason != test.reason || problem.Waiting != test.waiting || len(problem.Message) > wire.MaxText {
				t.Errorf("got %+v, want %s, waiting %t", problem, test.reason, test.waiting)
			}
			for _, w := range test.words {
				if !strings.Contains(problem.Message, w) {
					t.Errorf("%q does not say %q", problem.Message, w)
				}
			}
			if test.kind == "Secret" && strings.Contains(problem.Message, secret) {
				t.Errorf("%q tells what is in a Secret", problem.Message)
			}
		})
	}
}

func TestHandedOver(t *testing.T) {
	entry := func(manager, operation, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), Subresource: subresource,
			APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	var (
		theirs = entry("theirs", "Apply", "", `{"f:spec":{"f:a":{},"f:b":{}}}`)
		ours   = entry("ours", "Apply", "", `{"f:spec":{"f:b":{},"f:c":{}}}`)
		person = entry("theirs", "Update", "", `{"f:spec":{"f:d":{}}}`)
		status = entry("theirs", "Apply", "status", `{"f:status":{}}`)
	)
	for name, test := range map[string]struct{ have, want []metav1.ManagedFieldsEntry }{
		"nothing of theirs":      {[]metav1.ManagedFieldsEntry{ours, person, status}, nil},
		"theirs only":            {[]metav1.ManagedFieldsEntry{person, theirs}, []metav1.ManagedFieldsEntry{person, entry("ours", "Apply", "", `{"f:spec":{"f:a":{},"f:b":{}}}`)}},
		"theirs and ours":        {[]metav1.ManagedFieldsEntry{theirs, ours, status}, []metav1.ManagedFieldsEntry{entry("ours", "Apply", "", `{"f:spec":{"f:a":{},"f:b":{},"f:c":{}}}`), status}},
		"of another API version": {[]metav1.ManagedFieldsEntry{older(theirs), ours}, []metav1.ManagedFieldsEntry{ours, older(entry("ours", "Apply", "", `{"f:spec":{"f:a":{},"f:b":{}}}`))}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := handedOver(test.have, "theirs", "ours")
			if err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("managed fields %v, want %v", got, test.want)
			}
		})
	}
	if _, err := handedOver([]metav1.ManagedFieldsEntry{ours, entry("theirs", "Apply", "", "[")}, "theirs", "ours"); err == nil {
		t.Error("fields that can not be read are lost")
	}
}

func older(e metav1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
	e.APIVersion = "apps/v1beta2"
	return e
}
