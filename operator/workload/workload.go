// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload makes a component of type workload into Kubernetes objects. It is
// pure: the same component gives the same objects, in every way of delivery.
package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// historyLimit is how many old ReplicaSets are kept for kubectl rollout undo. An
// App's own history is kept by the hub.
const historyLimit = 3

// portName names the container's and the Service's port.
const portName = "main"

// Workload is a component and what its objects depend on besides.
type Workload struct {
	// Target is for whom the objects are.
	Target stack.Target
	// Component of type workload.
	Component *kubenestv1.Component
	// RestartedAt of the StackDeploy.
	RestartedAt *metav1.Time
	// Revisions of the Secrets that Secrets lists, by name. One that does not exist has
	// none.
	Revisions map[string]string
}

// Secrets that the pods' environment is taken from, sorted. Those are in the Project's
// namespace on this cluster, exports of addons among them.
func (w *Workload) Secrets() []string {
	var names []string
	for i := range w.Component.WorkloadSpec.Env {
		if ref := w.secretKeyRef(&w.Component.WorkloadSpec.Env[i]); ref != nil {
			names = append(names, ref.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Objects of the component: a Deployment, and a Service, Ingress and
// HorizontalPodAutoscaler as far as the component asks for them. Fields that it leaves
// to Kubernetes' defaults are absent, so that nobody owns them. What contradicts
// itself is a *stack.Problem.
func (w *Workload) Objects() ([]*unstructured.Unstructured, error) {
	spec := w.Component.WorkloadSpec
	if spec.Ingress != nil && spec.Port == 0 {
		return nil, stack.Refuse(kubenestv1.ReasonInvalid, "component %s has an ingress and no port that it could lead to: "+
			"set workloadSpec.port", w.Component.Name)
	}
	typed := []runtime.Object{w.deployment()}
	if spec.Port != 0 {
		typed = append(typed, w.service())
	}
	if spec.Ingress != nil {
		typed = append(typed, w.ingress())
	}
	if spec.Autoscaling != nil {
		typed = append(typed, w.autoscaler())
	}
	objects := make([]*unstructured.Unstructured, 0, len(typed))
	for _, t := range typed {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(t)
		if err != nil {
			return nil, fmt.Errorf("convert %T: %w", t, err)
		}
		o := &unstructured.Unstructured{Object: content}
		tidy(o)
		w.Target.Mark(o, w.Component.Name)
		objects = append(objects, o)
	}
	return objects, nil
}

// tidy drops what Go's types write though nobody has set it: applied, it would be
// ours.
func tidy(o *unstructured.Unstructured) {
	for _, path := range [][]string{
		{"status"},
		{"metadata", "creationTimestamp"},
		{"spec", "strategy"},
		{"spec", "template", "metadata", "creationTimestamp"},
	} {
		unstructured.RemoveNestedField(o.Object, path...)
	}
	containers, found, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if err != nil || !found {
		return
	}
	for _, c := range containers {
		if container, ok := c.(map[string]any); ok {
			if resources, ok := container["resources"].(map[string]any); ok && len(resources) == 0 {
				delete(container, "resources")
			}
		}
	}
	_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers") // it was there just now
}

// meta of an object of the component.
func (w *Workload) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      kubenestv1.ObjectName(w.Target.App, w.Component.Name),
		Namespace: w.Target.Namespace,
		Labels:    map[string]string{kubenestv1.ManagedByLabel: kubenestv1.ManagedBy},
	}
}

// selector finds the pods. It can never change, so that it has names only.
func (w *Workload) selector() map[string]string {
	labels := w.Target.Labels(w.Component.Name)
	delete(labels, kubenestv1.ProjectLabel)
	return labels
}

func (w *Workload) deployment() *appsv1.Deployment {
	spec := w.Component.WorkloadSpec
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: w.meta(),
		Spec: appsv1.DeploymentSpec{
			RevisionHistoryLimit: ptr.To[int32](historyLimit),
			Selector:             &metav1.LabelSelector{MatchLabels: w.selector()},
			Template:             w.pod(),
		},
	}
	if spec.Autoscaling == nil { // else the autoscaler has the field
		d.Spec.Replicas = new(ptr.Deref(spec.Replicas, 1))
	}
	return d
}

func (w *Workload) pod() corev1.PodTemplateSpec {
	spec := w.Component.WorkloadSpec
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{AutomountServiceAccountToken: new(false)},
	}
	container := w.container()
	if t := spec.PodTemplate; t != nil {
		maps.Copy(pod.Labels, t.Labels)
		maps.Copy(pod.Annotations, t.Annotations)
		pod.Spec.NodeSelector, pod.Spec.Tolerations, pod.Spec.SecurityContext = t.NodeSelector, t.Tolerations, t.SecurityContext
		container.SecurityContext = t.ContainerSecurityContext
	}
	if revision := w.inputsRevision(); revision != "" {
		pod.Annotations[kubenestv1.InputsAnnotation] = revision
	}
	if w.RestartedAt != nil {
		pod.Annotations[kubenestv1.RestartedAtAnnotation] = w.RestartedAt.UTC().Format(time.RFC3339)
	}
	for _, s := range spec.ImagePullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s.Name})
	}
	pod.Spec.Containers = []corev1.Container{container}
	return pod
}

func (w *Workload) container() corev1.Container {
	spec := w.Component.WorkloadSpec
	c := corev1.Container{
		Name:    w.Component.Name,
		Image:   spec.Image,
		Command: spec.Command,
		Args:    spec.Args,
	}
	if spec.Port != 0 {
		c.Ports = []corev1.ContainerPort{{Name: portName, ContainerPort: spec.Port, Protocol: corev1.ProtocolTCP}}
	}
	if spec.Resources != nil {
		c.Resources = *spec.Resources
	}
	if p := spec.Probes; p != nil {
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = p.Liveness, p.Readiness, p.Startup
	}
	for i := range spec.Env {
		e := &spec.Env[i]
		v := corev1.EnvVar{Name: e.Name, Value: e.Value}
		if ref := w.secretKeyRef(e); ref != nil {
			v.Value, v.ValueFrom = "", &corev1.EnvVarSource{SecretKeyRef: ref}
		}
		c.Env = append(c.Env, v)
	}
	return c
}

// secretKeyRef of a variable that is taken from a Secret. Exports are in one, too,
// wherever the addon runs.
func (w *Workload) secretKeyRef(e *kubenestv1.EnvVar) *corev1.SecretKeySelector {
	switch {
	case e.ValueFrom == nil:
		return nil
	case e.ValueFrom.ExportRef != nil:
		ref := e.ValueFrom.ExportRef
		return &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: kubenestv1.ExportsSecretName(w.Target.App, ref.Component)},
			Key:                  ref.Key,
		}
	case e.ValueFrom.SecretKeyRef != nil:
		ref := e.ValueFrom.SecretKeyRef
		selector := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}, Key: ref.Key}
		if ref.Optional {
			selector.Optional = new(true)
		}
		return selector
	}
	return nil
}

// inputsRevision changes when a Secret that the pods use does, and rolls them: they
// read it only when they start. It is empty when they use none.
func (w *Workload) inputsRevision() string {
	names := w.Secrets()
	if len(names) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprintf(sum, "%s=%s\n", name, w.Revisions[name])
	}
	const bytes = 8
	return hex.EncodeToString(sum.Sum(nil)[:bytes])
}

func (w *Workload) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: w.meta(),
		Spec: corev1.ServiceSpec{
			Selector: w.selector(),
			Ports: []corev1.ServicePort{{
				Name: portName, Protocol: corev1.ProtocolTCP,
				Port: w.Component.WorkloadSpec.Port, TargetPort: intstr.FromInt32(w.Component.WorkloadSpec.Port),
			}},
		},
	}
}

func (w *Workload) ingress() *networkingv1.Ingress {
	spec := w.Component.WorkloadSpec
	meta := w.meta()
	meta.Annotations = maps.Clone(spec.Ingress.Annotations)
	path := spec.Ingress.Path
	if path == "" {
		path = "/"
	}
	ingress := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
		ObjectMeta: meta,
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: spec.Ingress.Host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path: path, PathType: ptr.To(networkingv1.PathTypePrefix),
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
						Name: meta.Name, Port: networkingv1.ServiceBackendPort{Number: spec.Port},
					}},
				}},
			}},
		}}},
	}
	if spec.Ingress.ClassName != "" {
		ingress.Spec.IngressClassName = new(spec.Ingress.ClassName)
	}
	if spec.Ingress.TLSSecretName != "" {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{spec.Ingress.Host}, SecretName: spec.Ingress.TLSSecretName}}
	}
	return ingress
}

func (w *Workload) autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	a := w.Component.WorkloadSpec.Autoscaling
	minimum, percent := a.MinReplicas, a.TargetCPUPercent
	if minimum == 0 {
		minimum = 1
	}
	if percent == 0 {
		percent = 80
	}
	meta := w.meta()
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: meta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: meta.Name},
			MinReplicas:    new(minimum),
			MaxReplicas:    a.MaxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name:   corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(percent)},
				},
			}},
		},
	}
}
