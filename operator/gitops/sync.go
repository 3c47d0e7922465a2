// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

// state is what an Application's status says of what was published.
type state struct {
	// current: the status is about a commit that has what was published.
	current         bool
	synced, healthy bool
	message         string
	problem         *stack.Problem
}

func (s *state) into(sync *delivery.Sync) {
	sync.Synced, sync.Healthy, sync.Message, sync.Problem = s.synced, s.healthy, s.message, s.problem
}

// readState judges an Application. known says whether a revision has what was
// published: what Argo CD says of others is old news.
func readState(application *unstructured.Unstructured, at *place, known func(revision string) bool) state {
	status, _, _ := unstructured.NestedMap(application.Object, "status")
	sync, health := text(status, "sync", "status"), text(status, "health", "status")
	revision := text(status, "sync", "revision")
	s := state{current: known(revision) && comparedWith(status, at)}
	s.healthy = s.current && health == "Healthy"
	s.synced = s.current && sync == "Synced"

	failure := conditionError(status)
	if failure == "" {
		failure = operationError(status, known)
	}
	switch {
	case failure != "" && !s.synced:
		s.problem = stack.Refuse(kubenestv1.ReasonSyncFailed, "Argo CD's Application %s/%s: %s%s",
			application.GetNamespace(), application.GetName(), message("%s", failure), hint(failure))
		s.message = failure
	case len(status) == 0:
		s.message = "Argo CD has not looked at the Application yet"
	case !s.current:
		s.message = "Argo CD has not taken up the newest commit yet"
	case !s.synced:
		s.message = "Argo CD applies the newest commit (" + strings.ToLower(sync) + ")"
	case !s.healthy:
		s.message = "Argo CD finds the health " + strings.ToLower(health) + unhealthy(status)
	}
	s.message = message("%s", s.message)
	return s
}

// comparedWith says whether a status is about this place, and not one from before.
func comparedWith(status map[string]any, at *place) bool {
	source := []string{"sync", "comparedTo", "source"}
	return text(status, append(source, "repoURL")...) == at.url &&
		text(status, append(source, "path")...) == at.folder &&
		text(status, append(source, "targetRevision")...) == at.branch
}

// conditionError is what keeps Argo CD from comparing at all.
func conditionError(status map[string]any) string {
	conditions, _, _ := unstructured.NestedSlice(status, "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		kind := text(condition, "type")
		if ok && strings.HasSuffix(kind, "Error") && kind != "SyncError" { // the operation says that better
			return text(condition, "message")
		}
	}
	return ""
}

// operationError is how the last sync of a known revision failed.
func operationError(status map[string]any, known func(string) bool) string {
	operation, _, _ := unstructured.NestedMap(status, "operationState")
	phase, revision := text(operation, "phase"), text(operation, "syncResult", "revision")
	if revision == "" {
		revision = text(operation, "operation", "sync", "revision")
	}
	if !known(revision) {
		return ""
	}
	failed := failedResources(operation)
	switch {
	case phase == "Failed" || phase == "Error":
	case phase == "Running" && len(failed) > 0 && retried(operation): // it is at it again
	default:
		return ""
	}
	if len(failed) > 0 {
		return strings.Join(failed, "; ")
	}
	return text(operation, "message")
}

func retried(operation map[string]any) bool {
	count, _, _ := unstructured.NestedInt64(operation, "retryCount")
	return count > 0
}

// failedResources names some that could not be applied, each with the reason.
func failedResources(operation map[string]any) []string {
	const most = 4
	resources, _, _ := unstructured.NestedSlice(operation, "syncResult", "resources")
	var failed []string
	for _, r := range resources {
		resource, ok := r.(map[string]any)
		if !ok || text(resource, "status") != "SyncFailed" {
			continue
		}
		if len(failed) == most {
			return append(failed, "and more")
		}
		name := text(resource, "name")
		if namespace := text(resource, "namespace"); namespace != "" {
			name = namespace + "/" + name
		}
		failed = append(failed, text(resource, "kind")+" "+name+": "+text(resource, "message"))
	}
	return failed
}

// unhealthy names some resources that are not well, where the status has them.
func unhealthy(status map[string]any) string {
	const most = 4
	resources, _, _ := unstructured.NestedSlice(status, "resources")
	var named []string
	for _, r := range resources {
		resource, ok := r.(map[string]any)
		health := text(resource, "health", "status")
		if !ok || health == "" || health == "Healthy" || len(named) == most {
			continue
		}
		name := text(resource, "kind") + " " + text(resource, "name") + " is " + strings.ToLower(health)
		if why := text(resource, "health", "message"); why != "" {
			name += " (" + why + ")"
		}
		named = append(named, name)
	}
	if len(named) == 0 {
		return ""
	}
	return ": " + strings.Join(named, ", ")
}

// hint says what to do about what Argo CD often meets and kubenest can not mend.
func hint(failure string) string {
	switch {
	case strings.Contains(failure, "x509:"), strings.Contains(failure, "certificate"):
		return ". Argo CD has its own trust: add the authority to ConfigMap argocd-tls-certs-cm, as 'argocd cert add-tls' does"
	case strings.Contains(failure, "knownhosts"), strings.Contains(failure, "Host key verification failed"), strings.Contains(failure, "host key"):
		return ". Argo CD has its own host keys: add the host's to ConfigMap argocd-ssh-known-hosts-cm, as 'argocd cert add-ssh' does"
	}
	return ""
}

// text is a string in nested maps; empty where there is none.
func text(o map[string]any, fields ...string) string {
	value, _, _ := unstructured.NestedString(o, fields...)
	return value
}

// refresh has Argo CD look at the repository at once.
func (p *Publisher) refresh(ctx context.Context, application *unstructured.Unstructured) error {
	if application.GetAnnotations()[refreshAnnotation] != "" {
		return nil
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+refreshAnnotation+`":"normal"}}}`))
	if err := p.api.Patch(ctx, application, patch, client.FieldOwner(kubenestv1.FieldManagerOperator+"-refresh")); err != nil {
		return fmt.Errorf("have Argo CD refresh %s: %w", application.GetName(), err)
	}
	return nil
}
