// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

// failing remembers since when what can not be removed from a repository has failed.
type failing struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// overdue notes a failure, and says whether it has lasted longer than a while.
func (f *failing) overdue(name types.NamespacedName, while time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, ok := f.since[name]
	if !ok {
		if f.since == nil {
			f.since = map[types.NamespacedName]time.Time{}
		}
		f.since[name] = time.Now()
		return false
	}
	return time.Since(since) > while
}

func (f *failing) forget(name types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.since, name)
}

// Remove removes the Application with what it made, then the folder, and Argo CD's
// project with the last Application of it. It names what it still waits for; when it
// names nothing, all is done. It ends even where Argo CD or the repository is gone:
// Options.Left is told then what stays. What Argo CD leaves behind on the cluster
// still carries the owner, so that the caller can remove it.
func (p *Publisher) Remove(ctx context.Context, pub *delivery.Publication) ([]string, error) {
	return p.remove(ctx, pub, true)
}

// Release removes the Application and the folder, and leaves what Argo CD applied as
// it is: for an App that is to be delivered directly from now on.
func (p *Publisher) Release(ctx context.Context, pub *delivery.Publication) ([]string, error) {
	return p.remove(ctx, pub, false)
}

func (p *Publisher) remove(ctx context.Context, pub *delivery.Publication, resources bool) ([]string, error) {
	waiting, err := p.removeApplication(ctx, pub, resources)
	if err != nil || len(waiting) > 0 {
		return waiting, err
	}
	if waiting, err = p.removeFolder(ctx, pub); err != nil || len(waiting) > 0 {
		return waiting, err
	}
	p.failing.forget(pub.Stack)
	return nil, p.removeProject(ctx, pub)
}

func (p *Publisher) get(ctx context.Context, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	err := p.api.Get(ctx, client.ObjectKey{Namespace: p.options.Namespace, Name: name}, o)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// gone says whether an error means that there is no such object, or no such kind.
func gone(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

func (p *Publisher) removeApplication(ctx context.Context, pub *delivery.Publication, resources bool) ([]string, error) {
	application, err := p.get(ctx, applicationKind, applicationName(&pub.Target))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Application: %w", err)
	}
	if !pub.Target.Owns(application) {
		return nil, nil
	}
	deleted := application.GetDeletionTimestamp()
	if deleted == nil {
		if err := p.setFinalizer(ctx, application, resources); err != nil {
			return nil, err
		}
		uid := application.GetUID()
		err := p.api.Delete(ctx, application, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("delete Application %s: %w", application.GetName(), err)
		}
		return p.waitingFor(application), nil
	}
	if time.Since(deleted.Time) < p.options.RemovalWait {
		return p.waitingFor(application), nil
	}
	// Nobody is at it: Argo CD does not run, or can not remove something.
	if err := p.setFinalizer(ctx, application, false); err != nil {
		return nil, err
	}
	p.options.Left(pub, message("Argo CD did not remove Application %s/%s within %s (does it run?); it was let go, and of what it made may be there still: %s",
		application.GetNamespace(), application.GetName(), p.options.RemovalWait, strings.Join(resourcesOf(application), ", ")))
	return nil, nil
}

// setFinalizer puts Argo CD's finalizer on an Application, or takes it off.
func (p *Publisher) setFinalizer(ctx context.Context, application *unstructured.Unstructured, on bool) error {
	before := application.DeepCopy()
	finalizers := slices.DeleteFunc(application.GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, removesResources) })
	if on {
		finalizers = append(finalizers, removesResources)
	}
	application.SetFinalizers(finalizers)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := p.api.Patch(ctx, application, patch, client.FieldOwner(kubenestv1.FieldManagerOperator))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("set finalizer of Application %s: %w", application.GetName(), err)
	}
	return nil
}

func (p *Publisher) waitingFor(application *unstructured.Unstructured) []string {
	waiting := []string{fmt.Sprintf("Application %s/%s, which Argo CD removes with what it made", application.GetNamespace(), application.GetName())}
	return append(waiting, resourcesOf(application)...)
}

// resourcesOf names what an Application made, as far as it says.
func resourcesOf(application *unstructured.Unstructured) []string {
	const most = 20
	resources, _, _ := unstructured.NestedSlice(application.Object, "status", "resources")
	var named []string
	for _, r := range resources {
		if resource, ok := r.(map[string]any); ok && len(named) < most {
			named = append(named, strings.TrimSpace(text(resource, "kind")+" "+strings.TrimPrefix(text(resource, "namespace")+"/"+text(resource, "name"), "/")))
		}
	}
	return named
}

// removeFolder takes the App's folder out of the repository, in one commit.
func (p *Publisher) removeFolder(ctx context.Context, pub *delivery.Publication) ([]string, error) {
	at, err := placeOf(pub, p.options.Local)
	if err != nil {
		return nil, nil // nothing was ever committed there
	}
	b := p.branches.of(at.key())
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	delete(b.folders, at.folder)
	err = p.commitRemoval(ctx, b, pub, at)
	problem, ok := errors.AsType[*stack.Problem](err)
	switch {
	case !ok:
		return nil, err
	case problem.Reason == kubenestv1.ReasonObjectNotOurs: // never was this App's
		return nil, nil
	case p.failing.overdue(pub.Stack, p.options.RemovalWait):
		p.options.Left(pub, message("folder %s stays on branch %s of %s: %s", at.folder, at.branch, at.url, problem.Message))
		return nil, nil
	}
	return []string{message("folder %s on branch %s of %s: %s", at.folder, at.branch, at.url, problem.Message)}, nil
}

func (p *Publisher) commitRemoval(ctx context.Context, b *branch, pub *delivery.Publication, at *place) error {
	r, err := p.options.open(at.url, pub.Credential)
	if err != nil {
		return err
	}
	defer r.close()
	if now, err := r.position(ctx, at.branch); err != nil {
		return p.options.problem(r, at, err)
	} else if now.IsZero() {
		return nil // no branch, no folder
	}
	_, err = p.options.commit(ctx, r, b, &change{
		at: at, owner: []byte(pub.Target.Owner + "\n"), signature: signature(),
		message: fmt.Sprintf("%s/%s: removed\n\nApp %s of Project %s/%s, from namespace %s of cluster %s.",
			pub.Target.Project.Namespace, pub.Target.App, pub.Target.App,
			pub.Target.Project.Namespace, pub.Target.Project.Name, pub.Target.Namespace, at.clusterID),
	})
	return err
}

// removeProject removes what the Project's Applications shared, if there is none left.
func (p *Publisher) removeProject(ctx context.Context, pub *delivery.Publication) error {
	name := projectObject(pub.Target.Project)
	applications := &unstructured.UnstructuredList{}
	applications.SetGroupVersionKind(applicationKind)
	err := p.api.List(ctx, applications, client.InNamespace(p.options.Namespace), client.MatchingLabels{kubenestv1.ManagedByLabel: kubenestv1.ManagedBy})
	if err != nil && !gone(err) {
		return fmt.Errorf("list Applications: %w", err)
	}
	for i := range applications.Items {
		if project, _, _ := unstructured.NestedString(applications.Items[i].Object, "spec", "project"); project == name {
			return nil
		}
	}
	owner := pub.Target.Owner
	clusterID, _, _ := strings.Cut(owner, "/")
	want := projectOwner(pub, &place{clusterID: clusterID})
	for _, kind := range []schema.GroupVersionKind{secretKind, projectKind} {
		live, err := p.get(ctx, kind, name)
		if gone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s %s: %w", kind.Kind, name, err)
		}
		if live.GetAnnotations()[kubenestv1.OwnerAnnotation] != want {
			continue
		}
		uid := live.GetUID()
		err = p.api.Delete(ctx, live, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s %s: %w", kind.Kind, name, err)
		}
	}
	return nil
}
