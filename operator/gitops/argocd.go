// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

const (
	// StackAnnotation on an Application names the operator's StackDeploy.
	StackAnnotation = "kubenest.io/stack"

	// inCluster is how Argo CD calls the cluster that it runs in.
	inCluster = "https://kubernetes.default.svc"
	// removesResources is Argo CD's: with it, an Application takes along what it made.
	removesResources = "resources-finalizer.argocd.argoproj.io"
	// refreshAnnotation makes Argo CD look at the repository. It takes it off.
	refreshAnnotation = "argocd.argoproj.io/refresh"
	secretTypeLabel   = "argocd.argoproj.io/secret-type" //nolint:gosec // the name of a label
)

var (
	applicationKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}
	projectKind     = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "AppProject"}
	secretKind      = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

// checkInstalled refuses where the cluster does not know Argo CD's kinds.
func (p *Publisher) checkInstalled() error {
	for _, kind := range []schema.GroupVersionKind{applicationKind, projectKind} {
		_, err := p.api.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			return stack.Refuse(kubenestv1.ReasonSyncFailed, "Argo CD is not installed on this cluster (it does not know %s.%s): "+
				"install it in namespace %s, or set delivery to direct", strings.ToLower(kind.Kind)+"s", kind.Group, p.options.Namespace)
		}
		if err != nil {
			return fmt.Errorf("look up kind %s: %w", kind.Kind, err)
		}
	}
	return nil
}

func (p *Publisher) object(kind schema.GroupVersionKind, name, owner string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(p.options.Namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{kubenestv1.ManagedByLabel: kubenestv1.ManagedBy})
	o.SetAnnotations(map[string]string{kubenestv1.OwnerAnnotation: owner})
	return o
}

// projectOwner is that of what all Apps of a Project share: the StackDeploy of its
// namespace.
func projectOwner(pub *delivery.Publication, at *place) string {
	key := pub.Target.Project
	return kubenestv1.Owner(at.clusterID, &kubenestv1.StackSource{
		Namespace: key.Namespace, Name: kubenestv1.StackName("project", key.Name, at.clusterID),
	})
}

// objects are what Argo CD has to have, in the order in which it needs it.
func (p *Publisher) objects(pub *delivery.Publication, at *place) []*unstructured.Unstructured {
	shared, owner := projectObject(pub.Target.Project), projectOwner(pub, at)
	objects := []*unstructured.Unstructured{p.appProject(pub, at, shared, owner)}
	if len(pub.Credential) > 0 {
		objects = append(objects, p.repositorySecret(pub, at, shared, owner))
	}
	return append(objects, p.application(pub, at, shared))
}

// appProject is what holds an App in its namespace, whoever writes to the repository.
func (p *Publisher) appProject(pub *delivery.Publication, at *place, name, owner string) *unstructured.Unstructured {
	o := p.object(projectKind, name, owner)
	destination := map[string]any{"server": inCluster, "namespace": pub.Target.Namespace}
	clusterKinds := []any{}
	if pub.Target.Grants.ClusterScoped {
		clusterKinds = []any{map[string]any{"group": "*", "kind": "*"}}
	}
	o.Object["spec"] = map[string]any{
		"description":              message("Project %s/%s of kubenest", pub.Target.Project.Namespace, pub.Target.Project.Name),
		"sourceRepos":              []any{at.url},
		"destinations":             []any{destination},
		"clusterResourceWhitelist": clusterKinds,
		// Used where Argo CD is set to impersonate.
		"destinationServiceAccounts": []any{map[string]any{
			"server": inCluster, "namespace": pub.Target.Namespace,
			"defaultServiceAccount": pub.Target.Namespace + ":" + kubenestv1.ProjectServiceAccount,
		}},
	}
	return o
}

// repositorySecret lets Argo CD read the repository, for this Project only.
func (p *Publisher) repositorySecret(pub *delivery.Publication, at *place, project, owner string) *unstructured.Unstructured {
	o := p.object(secretKind, project, owner)
	labels := o.GetLabels()
	labels[secretTypeLabel] = "repository"
	o.SetLabels(labels)
	data := map[string]string{"type": "git", "url": at.url, "project": project}
	if key := pub.Credential[keySSHKey]; len(key) > 0 && at.ssh() {
		data[keySSHKey] = string(key)
	} else if password := pub.Credential[keyPassword]; len(password) > 0 {
		data[keyUsername], data[keyPassword] = username(pub.Credential), strings.TrimSpace(string(password))
	}
	o.Object["type"] = "Opaque"
	o.Object["data"] = encoded(data)
	return o
}

func (p *Publisher) application(pub *delivery.Publication, at *place, project string) *unstructured.Unstructured {
	o := p.object(applicationKind, applicationName(&pub.Target), pub.Target.Owner)
	labels := o.GetLabels()
	labels[kubenestv1.AppLabel] = kubenestv1.LabelValue(pub.Target.App)
	labels[kubenestv1.ProjectLabel] = kubenestv1.LabelValue(pub.Target.Project.Name)
	o.SetLabels(labels)
	annotations := o.GetAnnotations()
	annotations[StackAnnotation] = pub.Stack.Name
	o.SetAnnotations(annotations)
	o.Object["spec"] = map[string]any{
		"project":     project,
		"source":      map[string]any{"repoURL": at.url, "path": at.folder, "targetRevision": at.branch},
		"destination": map[string]any{"server": inCluster, "namespace": pub.Target.Namespace},
		"syncPolicy": map[string]any{
			// An App may have no objects, as when all its components are held.
			"automated":   map[string]any{"prune": true, "selfHeal": true, "allowEmpty": true},
			"syncOptions": []any{"ServerSideApply=true"},
			"retry": map[string]any{
				"limit":   int64(5),
				"backoff": map[string]any{"duration": "2s", "factor": int64(2), "maxDuration": "1m"},
			},
		},
	}
	return o
}

// checkOwners refuses what is there and is not kubenest's for this.
func (p *Publisher) checkOwners(ctx context.Context, pub *delivery.Publication, at *place) error {
	for _, o := range p.objects(pub, at) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		err := p.api.Get(ctx, client.ObjectKeyFromObject(o), live)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if err := owned(live, o); err != nil {
			return err
		}
	}
	return nil
}

func owned(live, o *unstructured.Unstructured) error {
	owner := live.GetAnnotations()[kubenestv1.OwnerAnnotation]
	if owner == o.GetAnnotations()[kubenestv1.OwnerAnnotation] {
		return nil
	}
	whose := "which is not kubenest's"
	if owner != "" {
		whose = "which is of " + owner
	}
	return stack.Refuse(kubenestv1.ReasonObjectNotOurs, "%s %s/%s is there, %s: remove or rename it",
		o.GetKind(), o.GetNamespace(), o.GetName(), message("%s", whose))
}

// apply brings Argo CD's objects to what they should be, and gives the Application.
func (p *Publisher) apply(ctx context.Context, pub *delivery.Publication, at *place) (*unstructured.Unstructured, error) {
	var live *unstructured.Unstructured
	for _, o := range p.objects(pub, at) {
		live = &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		err := p.api.Get(ctx, client.ObjectKeyFromObject(o), live)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if err == nil {
			if err := owned(live, o); err != nil {
				return nil, err
			}
			if live.GetDeletionTimestamp() != nil {
				return nil, stack.Wait(kubenestv1.ReasonSyncFailed, "%s %s/%s is being deleted: it is made anew when it is gone", o.GetKind(), o.GetNamespace(), o.GetName())
			}
			if covers(o.Object, live.Object) && sameKeys(o, live) {
				continue
			}
		}
		if err := p.patch(ctx, o); err != nil {
			return nil, err
		}
		live = o // with what the API server answered
	}
	return live, nil
}

func (p *Publisher) patch(ctx context.Context, o *unstructured.Unstructured) error {
	err := p.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(o),
		client.FieldOwner(kubenestv1.FieldManagerOperator), client.ForceOwnership)
	switch {
	case apierrors.IsForbidden(err):
		return stack.Refuse(kubenestv1.ReasonForbidden, "the operator may not write %ss in namespace %s: allow it, as the operator's chart does with gitops enabled (%s)",
			o.GetKind(), o.GetNamespace(), message("%v", err))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return stack.Refuse(kubenestv1.ReasonInvalid, "Argo CD's %s %s is refused: %s", o.GetKind(), o.GetName(), message("%v", err))
	case err != nil:
		return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// sameKeys says whether the data of a Secret has the same keys: a password has to go
// when an SSH key takes its place.
func sameKeys(a, b *unstructured.Unstructured) bool {
	data, _, _ := unstructured.NestedMap(a.Object, "data")
	live, _, _ := unstructured.NestedMap(b.Object, "data")
	return len(data) == len(live)
}

// encoded is data as a Secret has it.
func encoded(data map[string]string) map[string]any {
	out := make(map[string]any, len(data))
	for key, value := range data {
		out[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	return out
}

// covers says whether everything in want is in have. Lists are compared whole.
func covers(want, have any) bool {
	wanted, ok := want.(map[string]any)
	if !ok {
		return equality.Semantic.DeepEqual(want, have)
	}
	has, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range wanted {
		if !covers(value, has[key]) {
			return false
		}
	}
	return true
}
