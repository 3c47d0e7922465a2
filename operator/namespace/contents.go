// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

type applyConfiguration = runtime.ApplyConfiguration

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func owner(t *stack.Target) map[string]string {
	return map[string]string{kubenestv1.OwnerAnnotation: t.Owner}
}

// contentLabels are on everything in the namespace, and on the ClusterRoleBinding.
func contentLabels(t *stack.Target) map[string]string {
	return map[string]string{
		kubenestv1.ProjectLabel:   kubenestv1.LabelValue(t.Project.Name),
		kubenestv1.ManagedByLabel: kubenestv1.ManagedBy,
	}
}

func namespaceOf(t *stack.Target, settings *kubenestv1.NamespaceSettings) *corev1ac.NamespaceApplyConfiguration {
	return corev1ac.Namespace(t.Namespace).WithLabels(labelsOf(t, settings)).WithAnnotations(owner(t))
}

// bare is the namespace without anything of ours.
func bare(t *stack.Target) *corev1ac.NamespaceApplyConfiguration {
	return corev1ac.Namespace(t.Namespace)
}

func quotaOf(t *stack.Target, settings *kubenestv1.NamespaceSettings) *corev1ac.ResourceQuotaApplyConfiguration {
	return corev1ac.ResourceQuota(BoundsName, t.Namespace).
		WithLabels(contentLabels(t)).WithAnnotations(owner(t)).
		WithSpec(corev1ac.ResourceQuotaSpec().WithHard(settings.Quota))
}

func limitsOf(t *stack.Target, settings *kubenestv1.NamespaceSettings) *corev1ac.LimitRangeApplyConfiguration {
	spec := corev1ac.LimitRangeSpec()
	for i := range settings.Limits {
		l := &settings.Limits[i]
		item := corev1ac.LimitRangeItem().WithType(l.Type)
		if l.Max != nil {
			item.WithMax(l.Max)
		}
		if l.Min != nil {
			item.WithMin(l.Min)
		}
		if l.Default != nil {
			item.WithDefault(l.Default)
		}
		if l.DefaultRequest != nil {
			item.WithDefaultRequest(l.DefaultRequest)
		}
		if l.MaxLimitRequestRatio != nil {
			item.WithMaxLimitRequestRatio(l.MaxLimitRequestRatio)
		}
		spec.WithLimits(item)
	}
	return corev1ac.LimitRange(BoundsName, t.Namespace).
		WithLabels(contentLabels(t)).WithAnnotations(owner(t)).WithSpec(spec)
}

// accountOf needs no token: the operator acts as it by impersonation.
func accountOf(t *stack.Target) *corev1ac.ServiceAccountApplyConfiguration {
	return corev1ac.ServiceAccount(kubenestv1.ProjectServiceAccount, t.Namespace).
		WithLabels(contentLabels(t)).WithAnnotations(owner(t)).
		WithAutomountServiceAccountToken(false)
}

func bindingOf(t *stack.Target) *rbacv1ac.RoleBindingApplyConfiguration {
	return rbacv1ac.RoleBinding(kubenestv1.ProjectServiceAccount, t.Namespace).
		WithLabels(contentLabels(t)).WithAnnotations(owner(t)).
		WithRoleRef(clusterRole(roleAdmin)).WithSubjects(account(t))
}

func clusterBindingOf(t *stack.Target) *rbacv1ac.ClusterRoleBindingApplyConfiguration {
	return rbacv1ac.ClusterRoleBinding(BindingName(t.Namespace)).
		WithLabels(contentLabels(t)).WithAnnotations(owner(t)).
		WithRoleRef(clusterRole(roleClusterAdmin)).WithSubjects(account(t))
}

func clusterRole(name string) *rbacv1ac.RoleRefApplyConfiguration {
	return rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(name)
}

func account(t *stack.Target) *rbacv1ac.SubjectApplyConfiguration {
	return rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(kubenestv1.ProjectServiceAccount).WithNamespace(t.Namespace)
}
