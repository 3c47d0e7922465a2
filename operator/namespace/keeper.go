// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespace makes and keeps the Projects' namespaces of this cluster: the
// namespace, its quota and limits, and the ServiceAccount with whose rights everything
// in it is deployed. It is the one place where the operator uses rights of its own for
// a Project.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/stack"
)

// BoundsName names the ResourceQuota and the LimitRange.
const BoundsName = "kubenest"

// MadeAnnotation on a namespace says that the operator made it, so that it is deleted
// with its Project. One that was handed over to a Project lacks it, and stays.
const MadeAnnotation = "kubenest.io/made"

// roleAdmin and roleClusterAdmin are Kubernetes' own.
const (
	roleAdmin        = "admin"
	roleClusterAdmin = "cluster-admin"
)

// Labels of pod security admission.
const (
	labelEnforce = "pod-security.kubernetes.io/enforce"
	labelWarn    = "pod-security.kubernetes.io/warn"
)

// Keeper makes, keeps and removes namespaces.
type Keeper struct {
	// Client acts as the operator, and reads from the API server, not from a cache: what
	// is somebody else's is in no cache.
	Client client.Client
	// Cache has namespaces with ProjectLabel.
	Cache client.Reader
	// Own is the operator's namespace.
	Own string
	// Reserved are further namespaces that are nobody's Project.
	Reserved []string

	bound sync.Map // name → UID of the namespaces whose RoleBinding was seen
}

// BindingName names the ClusterRoleBinding of a Project that may have cluster-scoped
// objects.
func BindingName(namespace string) string { return kubenestv1.ProjectServiceAccount + "-" + namespace }

// reserved namespaces are the system's, whatever their annotations say.
func (k *Keeper) reserved(namespace string) bool {
	return strings.HasPrefix(namespace, "kube-") || namespace == k.Own ||
		slices.Contains([]string{"default", "argocd", "kubenest-system", "kubenest-inputs"}, namespace) ||
		slices.Contains(k.Reserved, namespace)
}

// Ensure has the namespace exist with all that belongs to it. What somebody has to mend
// is a *stack.Problem; then nothing that is somebody else's was touched.
func (k *Keeper) Ensure(ctx context.Context, t *stack.Target, settings *kubenestv1.NamespaceSettings) error {
	if k.reserved(t.Namespace) {
		return stack.Refuse(kubenestv1.ReasonNamespaceReserved, "namespace %s is the system's: choose another one for the Project", t.Namespace)
	}
	if err := k.ensureNamespace(ctx, t, settings); err != nil {
		return explain(err, t, "namespace "+t.Namespace)
	}
	// The right to use it comes last: bounds that came later would bound nothing.
	for _, step := range []func(context.Context, *stack.Target, *kubenestv1.NamespaceSettings) error{
		k.ensureQuota, k.ensureLimits, k.ensureAccount, k.ensureBinding,
	} {
		if err := step(ctx, t, settings); err != nil {
			return explain(err, t, "namespace "+t.Namespace)
		}
	}
	return k.ensureClusterBinding(ctx, t)
}

func (k *Keeper) ensureNamespace(ctx context.Context, t *stack.Target, settings *kubenestv1.NamespaceSettings) error {
	wanted := namespaceOf(t, settings)
	var live corev1.Namespace
	err := k.Client.Get(ctx, client.ObjectKey{Name: t.Namespace}, &live)
	switch {
	case apierrors.IsNotFound(err):
		// Created, and not applied: then nobody else's can be taken over. The Project's
		// labels come after, so that they can be taken away again.
		live = corev1.Namespace{}
		live.Name = t.Namespace
		live.Labels = ownLabels(t)
		live.Annotations = map[string]string{kubenestv1.OwnerAnnotation: t.Owner, MadeAnnotation: "true"}
		if err := k.Client.Create(ctx, &live, client.FieldOwner(kubenestv1.FieldManagerOperator)); err != nil {
			return err
		}
	case err != nil:
		return err
	case !t.Owns(&live):
		return taken(&live, t)
	case !live.DeletionTimestamp.IsZero():
		return stack.Wait(kubenestv1.ReasonNamespacePending, "namespace %s is being deleted, and is made anew then: %s",
			t.Namespace, strings.Join(remaining(&live), "; "))
	}
	return k.apply(ctx, wanted)
}

// taken says whose a namespace is.
func taken(live *corev1.Namespace, t *stack.Target) error {
	if owner := live.Annotations[kubenestv1.OwnerAnnotation]; owner != "" {
		return stack.Refuse(kubenestv1.ReasonNamespaceTaken, "namespace %s belongs to another Project (%s, of %s): it is left as it is. "+
			"Choose another namespace", t.Namespace, live.Labels[kubenestv1.ProjectLabel], owner)
	}
	return stack.Refuse(kubenestv1.ReasonNamespaceTaken, "namespace %s exists and is not kubenest's: it is left as it is. "+
		"Choose another namespace; to hand this one over, annotate it with %s=%s", t.Namespace, kubenestv1.OwnerAnnotation, t.Owner)
}

// ensure applies an object in the namespace, unless somebody else's is there.
func (k *Keeper) ensure(ctx context.Context, t *stack.Target, live client.Object, wanted applyConfiguration) error {
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(live), live)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case !t.Owns(live):
		return notOurs(t, live)
	}
	return k.apply(ctx, wanted)
}

func (k *Keeper) apply(ctx context.Context, wanted applyConfiguration) error {
	return k.Client.Apply(ctx, wanted, client.FieldOwner(kubenestv1.FieldManagerOperator), client.ForceOwnership)
}

// discard deletes an object in the namespace if it is ours.
func (k *Keeper) discard(ctx context.Context, t *stack.Target, live client.Object) error {
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(live), live)
	if err != nil || !t.Owns(live) {
		return client.IgnoreNotFound(err)
	}
	uid := live.GetUID()
	return client.IgnoreNotFound(k.Client.Delete(ctx, live, client.Preconditions{UID: &uid}))
}

func (k *Keeper) ensureQuota(ctx context.Context, t *stack.Target, settings *kubenestv1.NamespaceSettings) error {
	live := &corev1.ResourceQuota{ObjectMeta: meta(t.Namespace, BoundsName)}
	if len(settings.Quota) == 0 {
		return k.discard(ctx, t, live)
	}
	return k.ensure(ctx, t, live, quotaOf(t, settings))
}

func (k *Keeper) ensureLimits(ctx context.Context, t *stack.Target, settings *kubenestv1.NamespaceSettings) error {
	live := &corev1.LimitRange{ObjectMeta: meta(t.Namespace, BoundsName)}
	if len(settings.Limits) == 0 {
		return k.discard(ctx, t, live)
	}
	return k.ensure(ctx, t, live, limitsOf(t, settings))
}

func (k *Keeper) ensureAccount(ctx context.Context, t *stack.Target, _ *kubenestv1.NamespaceSettings) error {
	live := &corev1.ServiceAccount{ObjectMeta: meta(t.Namespace, kubenestv1.ProjectServiceAccount)}
	return k.ensure(ctx, t, live, accountOf(t))
}

func (k *Keeper) ensureBinding(ctx context.Context, t *stack.Target, _ *kubenestv1.NamespaceSettings) error {
	live := &rbacv1.RoleBinding{ObjectMeta: meta(t.Namespace, kubenestv1.ProjectServiceAccount)}
	return k.ensure(ctx, t, live, bindingOf(t))
}

// ensureClusterBinding gives what the cluster's owner has granted, if the operator may,
// and takes it away when it is granted no more.
func (k *Keeper) ensureClusterBinding(ctx context.Context, t *stack.Target) error {
	live := &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", BindingName(t.Namespace))}
	if !t.Grants.ClusterScoped {
		err := k.discard(ctx, t, live)
		if apierrors.IsForbidden(err) { // then it was never given
			return nil
		}
		return explain(err, t, "ClusterRoleBinding "+live.Name)
	}
	err := k.ensure(ctx, t, live, clusterBindingOf(t))
	if apierrors.IsForbidden(err) {
		return stack.Refuse(kubenestv1.ReasonForbidden, "the Project is granted cluster-scoped objects, and the operator of this cluster "+
			"may not give them. Allow it there: kubectl create clusterrolebinding kubenest-operator-cluster-scoped "+
			"--clusterrole=%s --serviceaccount=%s:kubenest-operator; or take spec.grants.clusterScoped of the ManagedCluster back",
			roleClusterAdmin, k.Own)
	}
	return explain(err, t, "ClusterRoleBinding "+live.Name)
}

// Ready reports, as a *stack.Problem, why an App of a Project can not be deployed into
// its namespace. owner is OwnerAnnotation's value for the Project's own StackDeploy.
func (k *Keeper) Ready(ctx context.Context, t *stack.Target, owner string) error {
	if k.reserved(t.Namespace) {
		return stack.Refuse(kubenestv1.ReasonNamespaceReserved, "namespace %s is the system's: choose another one for the Project", t.Namespace)
	}
	var live corev1.Namespace
	project := stack.Target{Owner: owner, Namespace: t.Namespace, Project: t.Project}
	err := k.Cache.Get(ctx, client.ObjectKey{Name: t.Namespace}, &live)
	if apierrors.IsNotFound(err) {
		err = k.Client.Get(ctx, client.ObjectKey{Name: t.Namespace}, &live)
	}
	switch {
	case apierrors.IsNotFound(err):
		k.bound.Delete(t.Namespace)
		return stack.Wait(kubenestv1.ReasonWaitingForNamespace, "namespace %s is not there yet", t.Namespace)
	case err != nil:
		return fmt.Errorf("read namespace %s: %w", t.Namespace, err)
	case !project.Owns(&live):
		return taken(&live, &project)
	case !live.DeletionTimestamp.IsZero():
		return stack.Wait(kubenestv1.ReasonWaitingForNamespace, "namespace %s is being deleted", t.Namespace)
	}
	if uid, ok := k.bound.Load(t.Namespace); ok && uid == live.UID {
		return nil
	}
	binding := rbacv1.RoleBinding{ObjectMeta: meta(t.Namespace, kubenestv1.ProjectServiceAccount)}
	err = k.Client.Get(ctx, client.ObjectKeyFromObject(&binding), &binding)
	switch {
	case apierrors.IsNotFound(err):
		return stack.Wait(kubenestv1.ReasonWaitingForNamespace, "namespace %s is being set up", t.Namespace)
	case err != nil:
		return fmt.Errorf("read RoleBinding %s/%s: %w", t.Namespace, binding.Name, err)
	case !project.Owns(&binding):
		return notOurs(&project, &binding)
	}
	k.bound.Store(t.Namespace, live.UID)
	return nil
}

// Has reports whether the namespace is there and is the Project's. Where it is not,
// nothing of the Project's Apps can be there.
func (k *Keeper) Has(ctx context.Context, t *stack.Target, owner string) (bool, error) {
	var live corev1.Namespace
	err := k.Client.Get(ctx, client.ObjectKey{Name: t.Namespace}, &live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read namespace %s: %w", t.Namespace, err)
	}
	project := stack.Target{Owner: owner}
	return !k.reserved(t.Namespace) && project.Owns(&live), nil
}

// Remove deletes what Ensure made, and says what that waits for. The namespace goes
// only if the operator made it, and then with all that is in it.
func (k *Keeper) Remove(ctx context.Context, t *stack.Target) (waiting []string, err error) {
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", BindingName(t.Namespace))}
	if err := k.discard(ctx, t, binding); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("delete ClusterRoleBinding %s: %w", binding.Name, err)
	}
	var live corev1.Namespace
	err = k.Client.Get(ctx, client.ObjectKey{Name: t.Namespace}, &live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read namespace %s: %w", t.Namespace, err)
	case k.reserved(t.Namespace) || !t.Owns(&live):
		return nil, nil
	case !live.DeletionTimestamp.IsZero():
		return remaining(&live), nil
	case live.Annotations[MadeAnnotation] == "":
		return nil, k.release(ctx, t)
	}
	uid := live.UID
	if err := client.IgnoreNotFound(k.Client.Delete(ctx, &live, client.Preconditions{UID: &uid})); err != nil {
		return nil, fmt.Errorf("delete namespace %s: %w", t.Namespace, err)
	}
	return []string{"namespace " + t.Namespace + " is being deleted"}, nil
}

// release gives a namespace back that had been handed over.
func (k *Keeper) release(ctx context.Context, t *stack.Target) error {
	var errs []error
	for _, o := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: meta(t.Namespace, kubenestv1.ProjectServiceAccount)},
		&corev1.ServiceAccount{ObjectMeta: meta(t.Namespace, kubenestv1.ProjectServiceAccount)},
		&corev1.ResourceQuota{ObjectMeta: meta(t.Namespace, BoundsName)},
		&corev1.LimitRange{ObjectMeta: meta(t.Namespace, BoundsName)},
	} {
		errs = append(errs, k.discard(ctx, t, o))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("empty namespace %s: %w", t.Namespace, err)
	}
	// Applied without a field, the operator's are taken off; the annotation that a person
	// has put there goes with a patch of its own.
	live := &corev1.Namespace{ObjectMeta: meta("", t.Namespace)}
	if err := k.apply(ctx, bare(t)); err != nil {
		return fmt.Errorf("release namespace %s: %w", t.Namespace, err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+kubenestv1.OwnerAnnotation+`":null}}}`))
	if err := client.IgnoreNotFound(k.Client.Patch(ctx, live, patch)); err != nil {
		return fmt.Errorf("release namespace %s: %w", t.Namespace, err)
	}
	return nil
}

// remaining says what the deletion of a namespace waits for, in the API server's words.
func remaining(live *corev1.Namespace) []string {
	var words []string
	for _, c := range live.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		words = append(words, wire.Line(fmt.Sprintf("namespace %s: %s", live.Name, c.Message), maxWaiting))
	}
	if len(words) == 0 {
		words = append(words, "namespace "+live.Name+" is being deleted")
	}
	return words
}

// maxWaiting bounds an entry of status.waiting, in bytes.
const maxWaiting = 512

func notOurs(t *stack.Target, live client.Object) error {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", live), "*v1.")
	return stack.Refuse(kubenestv1.ReasonObjectNotOurs, "%s %s/%s exists and was not made for this Project: it is left as it is. "+
		"Delete it, or annotate it with %s=%s", kind, live.GetNamespace(), live.GetName(), kubenestv1.OwnerAnnotation, t.Owner)
}

// explain makes a *stack.Problem of what trying again does not change.
func explain(err error, t *stack.Target, what string) error {
	var problem *stack.Problem
	switch {
	case err == nil || errors.As(err, &problem):
		return err
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return stack.Wait(kubenestv1.ReasonNamespacePending, "namespace %s is being deleted, and is made anew then", t.Namespace)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return stack.Refuse(kubenestv1.ReasonInvalid, "%s", wire.Line(fmt.Sprintf("%s is not valid: %v", what, err), wire.MaxText))
	case apierrors.IsForbidden(err):
		return stack.Refuse(kubenestv1.ReasonForbidden, "%s", wire.Line(fmt.Sprintf(
			"the operator may not set %s up: %v. Upgrade its chart, which has the rights it needs", what, err), wire.MaxText))
	}
	return fmt.Errorf("set %s up: %w", what, err)
}

func ownLabels(t *stack.Target) map[string]string {
	level := string(t.Grants.PodSecurity)
	return map[string]string{
		kubenestv1.ProjectLabel:   kubenestv1.LabelValue(t.Project.Name),
		kubenestv1.ManagedByLabel: kubenestv1.ManagedBy,
		labelEnforce:              level,
		labelWarn:                 level,
	}
}

// labelsOf a namespace: the Project's never win.
func labelsOf(t *stack.Target, settings *kubenestv1.NamespaceSettings) map[string]string {
	labels := maps.Clone(settings.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, ownLabels(t))
	return labels
}
