// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/controllers/fingerprint"
)

// view is everything that decides about an App, read once. What is derived from it
// is pure.
type view struct {
	app          *kubenestv1.App
	organization bool
	// project is nil if there is none.
	project *kubenestv1.Project
	// history are the App's revisions, the newest last; latest is that of the spec, and
	// wanted the one to run.
	history        []revision
	latest, wanted revision
	// components are those to run: of the spec, or of the revision that it pins.
	components []kubenestv1.Component
	// places are the clusters of components, by name; a component whose cluster is not
	// known has none.
	places map[string]*kubenestv1.ManagedCluster
	// records are the clusters of components and stacks, by id.
	records map[string]*kubenestv1.ManagedCluster
	// allowed are the ids of the clusters of components that the Project may use.
	allowed map[string]bool
	// stacks are the App's StackDeploys.
	stacks []kubenestv1.StackDeploy
	// exports are those that the hub has, by addon.
	exports map[string]exported
	// charts are those in ConfigMaps, by name; credentials those of gitops, by cluster.
	charts      map[string]content
	credentials map[string]content
	now         time.Time
}

// content is something that travels beside a StackDeploy.
type content struct {
	revision string
	// problem says why it can not; empty if it can.
	problem string
}

// observe reads a view.
func (r *Reconciler) observe(ctx context.Context, app *kubenestv1.App) (*view, error) {
	v := &view{app: app, now: r.Clock.Now()}
	for _, step := range []func(context.Context, *view) error{
		r.readProject, r.readStacks, r.readRevisions, r.readClusters, r.readExports, r.readCharts, r.readCredentials,
	} {
		if err := step(ctx, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (r *Reconciler) readProject(ctx context.Context, v *view) error {
	var err error
	if v.organization, err = clusters.IsOrganization(ctx, r.Client, v.app.Namespace); err != nil {
		return err
	}
	var project kubenestv1.Project
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: v.app.Namespace, Name: v.app.Spec.ProjectRef.Name}, &project)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("read Project %s: %w", v.app.Spec.ProjectRef.Name, err)
	default:
		v.project = &project
	}
	return nil
}

func (r *Reconciler) readStacks(ctx context.Context, v *view) error {
	stacks, err := r.stacksOf(ctx, client.ObjectKeyFromObject(v.app))
	v.stacks = stacks
	return err
}

// stacksOf are the StackDeploys of an App.
func (r *Reconciler) stacksOf(ctx context.Context, app client.ObjectKey) ([]kubenestv1.StackDeploy, error) {
	var list kubenestv1.StackDeployList
	if err := r.Client.List(ctx, &list, client.InNamespace(app.Namespace), client.MatchingFields{indexStackApp: app.Name}); err != nil {
		return nil, fmt.Errorf("list StackDeploys of App %s: %w", app, err)
	}
	return list.Items, nil
}

func (r *Reconciler) readClusters(ctx context.Context, v *view) error {
	v.places, v.records, v.allowed = map[string]*kubenestv1.ManagedCluster{}, map[string]*kubenestv1.ManagedCluster{}, map[string]bool{}
	for i := range v.components {
		c := &v.components[i]
		if v.project == nil {
			break
		}
		record, err := clusters.Resolve(ctx, r.Client, v.project, c.ClusterID)
		if err != nil {
			return err
		}
		if record == nil {
			continue
		}
		v.places[c.Name] = record
		if v.records[record.ID()] != nil {
			continue
		}
		v.records[record.ID()] = record
		if v.allowed[record.ID()], err = clusters.Allows(ctx, r.Client, record, v.app.Namespace); err != nil {
			return err
		}
	}
	for i := range v.stacks {
		id := v.stacks[i].Spec.ClusterID
		if v.records[id] != nil {
			continue
		}
		record, err := clusters.ByID(ctx, r.Client, id)
		if err != nil {
			return err
		}
		if record != nil {
			v.records[id] = record
		}
	}
	return nil
}

func (r *Reconciler) readExports(ctx context.Context, v *view) error {
	addons := map[string]bool{}
	note := func(components []kubenestv1.Component) {
		for i := range components {
			for _, ref := range components[i].ExportRefs() {
				addons[ref.Component] = true
			}
		}
	}
	note(v.components)
	for i := range v.stacks {
		note(v.stacks[i].Spec.Components)
	}
	exports, err := r.exportsOf(ctx, v.app, addons)
	v.exports = exports
	return err
}

func (r *Reconciler) readCharts(ctx context.Context, v *view) error {
	v.charts = map[string]content{}
	for _, name := range chartNames(v.components) {
		if _, ok := v.charts[name]; ok {
			continue
		}
		chart, err := r.chart(ctx, client.ObjectKey{Namespace: v.app.Namespace, Name: name})
		if err != nil {
			return err
		}
		v.charts[name] = chart
	}
	return nil
}

// readCredentials looks at the Secrets that open the repositories of clusters.
func (r *Reconciler) readCredentials(ctx context.Context, v *view) error {
	v.credentials = map[string]content{}
	for id, record := range v.records {
		g := record.Spec.GitOps
		if v.delivery(record) != kubenestv1.DeliveryArgoCD || g == nil || g.SecretRef == nil {
			continue
		}
		var secret corev1.Secret
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: record.Namespace, Name: g.SecretRef.Name}, &secret)
		switch {
		case apierrors.IsNotFound(err):
			v.credentials[id] = content{problem: fmt.Sprintf("Secret %s/%s, which it names, does not exist", record.Namespace, g.SecretRef.Name)}
		case err != nil:
			return fmt.Errorf("read Secret %s/%s: %w", record.Namespace, g.SecretRef.Name, err)
		case secret.Type != kubenestv1.SecretTypeGitCredential:
			v.credentials[id] = content{problem: fmt.Sprintf("Secret %s/%s, which it names, is not of type %s",
				record.Namespace, g.SecretRef.Name, kubenestv1.SecretTypeGitCredential)}
		default:
			v.credentials[id] = content{revision: fingerprint.OfObject(&secret)}
		}
	}
	return nil
}

// delivery to a cluster: the App's, else the cluster's own.
func (v *view) delivery(record *kubenestv1.ManagedCluster) kubenestv1.Delivery {
	switch {
	case v.app.Spec.Delivery != "":
		return v.app.Spec.Delivery
	case record.Spec.Delivery != "":
		return record.Spec.Delivery
	default:
		return kubenestv1.DeliveryDirect
	}
}

// stack is the App's StackDeploy for a cluster, nil if there is none.
func (v *view) stack(id string) *kubenestv1.StackDeploy {
	name := kubenestv1.StackName("app", v.app.Name, id)
	for i := range v.stacks {
		if v.stacks[i].Name == name {
			return &v.stacks[i]
		}
	}
	return nil
}

// present is the App's StackDeploy for a cluster, nil if there is none or it is
// being removed.
func (v *view) present(id string) *kubenestv1.StackDeploy {
	if s := v.stack(id); s != nil && s.DeletionTimestamp.IsZero() {
		return s
	}
	return nil
}

// nameOf a cluster's record, as a person of the App's namespace would write it.
func (v *view) nameOf(record *kubenestv1.ManagedCluster) string {
	if record.Namespace == v.app.Namespace {
		return record.Name
	}
	return record.Namespace + "/" + record.Name
}

// absence says how long a cluster has been away, empty if it is not.
func absence(record *kubenestv1.ManagedCluster) string {
	connected, since := clusters.Connected(record)
	switch {
	case connected:
		return ""
	case connection(record) == "" || !everConnected(record):
		return "has not connected yet"
	default:
		return "has been disconnected since " + since.UTC().Format(time.RFC3339)
	}
}

func everConnected(record *kubenestv1.ManagedCluster) bool {
	return record.Status.ClusterUID != "" || record.Status.Session != nil
}

// unknown reports whether a cluster has been away for so long that what runs there
// is not known any more.
func (v *view) unknown(record *kubenestv1.ManagedCluster) bool {
	connected, since := clusters.Connected(record)
	return !connected && v.now.Sub(since) >= clusters.AwayAfter
}

// untilUnknown is how long a cluster that is away has until then; 0 if it is not
// away, or has been for longer.
func (v *view) untilUnknown(record *kubenestv1.ManagedCluster) time.Duration {
	connected, since := clusters.Connected(record)
	if connected {
		return 0
	}
	return max(clusters.AwayAfter-v.now.Sub(since), 0)
}

// find a component by name, nil if there is none.
func find(components []kubenestv1.Component, name string) *kubenestv1.Component {
	for i := range components {
		if components[i].Name == name {
			return &components[i]
		}
	}
	return nil
}

// quote lists names for a person.
func quote(names []string) string { return strings.Join(names, ", ") }
