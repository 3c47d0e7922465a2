// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/fingerprint"
)

// inputsFor lists what travels beside a StackDeploy: exports of addons on other
// clusters, charts, and what opens the Git repository.
func inputsFor(v *view, id string, spec *kubenestv1.StackDeploySpec) ([]kubenestv1.StackInput, *refusal) {
	byName := map[string]kubenestv1.StackInput{}
	var clash *refusal
	add := func(kind kubenestv1.InputKind, name, revision string) {
		if other, ok := byName[name]; ok && other.Kind != kind {
			clash = refuse(kubenestv1.ReasonInvalid, "%s and %s of this App are both named %s: rename one of the Secrets or ConfigMaps.",
				other.Kind, kind, name)
		}
		byName[name] = kubenestv1.StackInput{Name: name, Kind: kind, Revision: revision}
	}
	for i := range spec.Components {
		c := &spec.Components[i]
		for _, ref := range c.ExportRefs() {
			if place := v.places[ref.Component]; place == nil || place.ID() != id {
				add(kubenestv1.InputExports, kubenestv1.ExportsSecretName(v.app.Name, ref.Component), v.exports[ref.Component].revision)
			}
		}
		if c.AddonSpec != nil && c.AddonSpec.Chart.ConfigMapRef != nil {
			name := c.AddonSpec.Chart.ConfigMapRef.Name
			add(kubenestv1.InputChart, name, v.charts[name].revision)
		}
	}
	if spec.Delivery == kubenestv1.DeliveryArgoCD && spec.GitOps != nil && spec.GitOps.SecretRef != nil {
		add(kubenestv1.InputGitCredential, spec.GitOps.SecretRef.Name, v.credentialRevision(id, spec.GitOps.SecretRef.Name))
	}
	var inputs []kubenestv1.StackInput
	for _, in := range byName {
		inputs = append(inputs, in)
	}
	slices.SortFunc(inputs, func(a, b kubenestv1.StackInput) int { return strings.Compare(a.Name, b.Name) })
	return inputs, clash
}

// credentialRevision is that of a cluster's Git credential; what was delivered last
// where nothing but a workload that moves away is left.
func (v *view) credentialRevision(id, name string) string {
	if found := v.credentials[id].revision; found != "" {
		return found
	}
	if s := v.present(id); s != nil {
		for _, in := range s.Spec.Inputs {
			if in.Kind == kubenestv1.InputGitCredential && in.Name == name {
				return in.Revision
			}
		}
	}
	return ""
}

// heldOn lists the components of a cluster that are not to be begun yet, because of
// components on other clusters.
func heldOn(v *view, id string, spec *kubenestv1.StackDeploySpec) []kubenestv1.HeldComponent {
	var held []kubenestv1.HeldComponent
	for i := range spec.Components {
		name := spec.Components[i].Name
		wanted := find(v.components, name)
		if place := v.places[name]; wanted == nil || place == nil || place.ID() != id {
			continue // it is kept here while it moves
		}
		if reason := holds(v, id, wanted); reason != nil {
			held = append(held, kubenestv1.HeldComponent{Name: name, Reason: reason.reason, Message: reason.message})
		}
	}
	return held
}

// holds says why a component is not to be begun, nil if it is. One that was let go
// once is not held again because another cluster went away: it keeps running on the
// last values.
func holds(v *view, id string, c *kubenestv1.Component) *refusal {
	s := v.present(id)
	begun := s != nil && find(s.Spec.Components, c.Name) != nil && heldIn(s, c.Name) == nil
	for _, ref := range c.ExportRefs() {
		place := v.places[ref.Component]
		if place == nil || place.ID() == id {
			continue
		}
		away, there := absence(place), v.exports[ref.Component]
		// Those of the cluster that the addon has left are for whom runs with them only.
		missing := there.revision == "" || (!begun && there.cluster != "" && there.cluster != place.ID())
		switch {
		case missing && away != "":
			return refuse(kubenestv1.ReasonWaitingForExport, "Waits for export %s of %s on cluster %s, which %s. It goes on when the cluster is back.",
				ref.Key, ref.Component, v.nameOf(place), away)
		case missing:
			return refuse(kubenestv1.ReasonWaitingForExport, "Waits for export %s of %s on cluster %s.", ref.Key, ref.Component, v.nameOf(place))
		case !begun && away != "":
			return refuse(kubenestv1.ReasonClusterDisconnected, "Uses export %s of %s on cluster %s, which %s. It goes on when the cluster is back.",
				ref.Key, ref.Component, v.nameOf(place), away)
		}
	}
	if begun {
		return nil
	}
	for _, name := range c.DependsOn {
		place := v.places[name]
		if place == nil || place.ID() == id {
			continue
		}
		if other := v.present(place.ID()); other != nil && reported(other) && phaseIn(other, name) == kubenestv1.AppRunning {
			continue
		}
		if away := absence(place); away != "" {
			return refuse(kubenestv1.ReasonWaitingForDependency, "Waits for %s on cluster %s, which %s. It goes on when the cluster is back.", name, v.nameOf(place), away)
		}
		return refuse(kubenestv1.ReasonWaitingForDependency, "Waits for %s on cluster %s to run.", name, v.nameOf(place))
	}
	return nil
}

// chart looks at a ConfigMap that is said to hold a chart.
func (r *Reconciler) chart(ctx context.Context, key client.ObjectKey) (content, error) {
	known := metadata(configMapKind)
	err := r.inputs.Get(ctx, key, known)
	switch {
	case apierrors.IsNotFound(err):
		return content{problem: fmt.Sprintf("is not in namespace %s, or lacks the label %s=true", key.Namespace, kubenestv1.ChartLabel)}, nil
	case err != nil:
		return content{}, fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	version := fingerprint.OfObject(known)
	if kept, ok := r.digests.Get(version); ok {
		return kept.(content), nil
	}
	var stored corev1.ConfigMap
	err = r.Live.Get(ctx, key, &stored)
	switch {
	case apierrors.IsNotFound(err):
		return content{problem: "was deleted just now"}, nil
	case err != nil:
		return content{}, fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	var found content
	if len(stored.BinaryData) != 1 {
		found.problem = fmt.Sprintf("has %d keys in binaryData: a chart made by helm package is to be under the one key", len(stored.BinaryData))
	}
	for _, packaged := range stored.BinaryData {
		found.revision = fingerprint.OfChart(packaged)
	}
	// What was read may be newer than what is cached: it is remembered as what it is.
	r.digests.Add(fingerprint.OfObject(&stored), found)
	return found, nil
}

// digest of content, to tell it from other content.
func digest(data []byte) string { return wire.Digest(data) }
