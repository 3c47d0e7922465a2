// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// verdict is a component's phase and its words.
type verdict struct {
	phase           kubenestv1.AppPhase
	reason, message string
}

// componentStatus is that of a component on a cluster: what was reported last, with
// the phase that it has now.
func componentStatus(v *view, c *kubenestv1.Component, id string) *kubenestv1.ComponentStatus {
	out := &kubenestv1.ComponentStatus{Name: c.Name}
	stack := v.stack(id)
	if stack != nil && stack.DeletionTimestamp.IsZero() {
		if last := componentIn(stack, c.Name); last != nil {
			out = last.DeepCopy()
		}
	}
	out.Type, out.Cluster, out.ClusterID = c.Type, v.clusterName(id), id
	last := verdict{out.Phase, out.Reason, out.Message}
	if stack == nil || stack.Status.Source == nil {
		last = verdict{} // nothing was reported, whatever the status says of that
	}
	judged := judge(v, c.Name, id, last)
	if from := movingFrom(v, c); len(from) > 0 && v.places[c.Name].ID() == id {
		judged = moving(judged, from, out.Cluster)
	}
	out.Phase, out.Reason = judged.phase, wire.Shorten(judged.reason, maxReason)
	out.Message = wire.Shorten(judged.message, wire.MaxText)
	return out
}

// maxReason bounds a reason, in bytes.
const maxReason = 256

// judge decides a component's phase. last is what was reported last, empty if the
// cluster has not said anything of the component yet.
func judge(v *view, name, id string, last verdict) verdict {
	record, stack := v.records[id], v.stack(id)
	cluster := v.clusterName(id)
	switch {
	case record == nil:
		return verdict{kubenestv1.AppUnknown, kubenestv1.ReasonClusterNotFound, fmt.Sprintf("The record of cluster %s is gone.", cluster)}
	case record.Spec.Abandoned:
		return verdict{kubenestv1.AppUnknown, kubenestv1.ReasonAbandoned, fmt.Sprintf("Cluster %s was given up: give the component another cluster, or remove it.", cluster)}
	case stack == nil && v.app.Spec.Paused:
		return verdict{kubenestv1.AppPaused, kubenestv1.ReasonPaused, "It is deployed when spec.paused is unset."}
	case stack == nil:
		return verdict{kubenestv1.AppPending, kubenestv1.ReasonDeploying, "It is about to be sent to cluster " + cluster + "."}
	case !stack.DeletionTimestamp.IsZero():
		return verdict{kubenestv1.AppPending, kubenestv1.ReasonRemoving, fmt.Sprintf("What the App had on cluster %s before is being removed first.", cluster)}
	case find(stack.Spec.Components, name) == nil && v.app.Spec.Paused:
		return verdict{kubenestv1.AppPaused, kubenestv1.ReasonPaused, "It is deployed when spec.paused is unset."}
	}
	held := heldIn(stack, name)
	if away := absence(record); away != "" {
		begun := last.phase != "" && (held == nil || last.phase == kubenestv1.AppRunning || last.phase == kubenestv1.AppDegraded)
		if !begun {
			return verdict{kubenestv1.AppPending, kubenestv1.ReasonClusterDisconnected, fmt.Sprintf("Cluster %s %s. It is deployed when the cluster is back.", cluster, away)}
		}
		if v.unknown(record) {
			return verdict{kubenestv1.AppUnknown, kubenestv1.ReasonClusterDisconnected, fmt.Sprintf("Cluster %s %s. What is shown was so then%s.", cluster, away, changesWait(stack))}
		}
	}
	if held != nil {
		return heldVerdict(held, last.phase)
	}
	return current(v, stack, last)
}

// changesWait adds that something is not delivered, if so.
func changesWait(stack *kubenestv1.StackDeploy) string {
	if reported(stack) {
		return ""
	}
	return "; changes made since are sent when it is back"
}

// heldVerdict is that of a component that is held: it has not begun, or a change of
// it waits while it runs as it was.
func heldVerdict(held *kubenestv1.HeldComponent, last kubenestv1.AppPhase) verdict {
	if last == kubenestv1.AppRunning || last == kubenestv1.AppDegraded {
		return verdict{kubenestv1.AppDeploying, held.Reason, held.Message + " Until then it runs as it was."}
	}
	return verdict{kubenestv1.AppPending, held.Reason, held.Message}
}

// current is the verdict of a component whose cluster is there: what it says of the
// present spec, or why it has not said anything of that.
func current(v *view, stack *kubenestv1.StackDeploy, last verdict) verdict {
	if v.app.Spec.Paused && last.phase != "" {
		return last
	}
	delivered := meta.FindStatusCondition(stack.Status.Conditions, kubenestv1.ConditionDelivered)
	if delivered != nil && delivered.Status != metav1.ConditionTrue && delivered.ObservedGeneration >= stack.Generation {
		switch delivered.Reason {
		case kubenestv1.ReasonOperatorTooOld, kubenestv1.ReasonDeliveryRefused, kubenestv1.ReasonTooLarge:
			return verdict{kubenestv1.AppFailed, delivered.Reason, delivered.Message}
		default:
			return verdict{kubenestv1.AppDeploying, delivered.Reason, delivered.Message}
		}
	}
	switch {
	case !reported(stack):
		return verdict{kubenestv1.AppDeploying, kubenestv1.ReasonDeploying, "A change is on its way to the cluster."}
	case last.phase == "":
		return unmentioned(stack)
	}
	return last
}

// unmentioned is the verdict of a component of which a cluster's report says
// nothing: what it says of the whole.
func unmentioned(stack *kubenestv1.StackDeploy) verdict {
	ready := meta.FindStatusCondition(stack.Status.Conditions, kubenestv1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || ready.ObservedGeneration < stack.Generation {
		return verdict{kubenestv1.AppDeploying, kubenestv1.ReasonDeploying, "The cluster has taken it up."}
	}
	phase := stack.Status.Phase
	if phase == "" || phase == kubenestv1.AppRunning {
		phase = kubenestv1.AppDeploying
	}
	return verdict{phase, ready.Reason, ready.Message}
}

// moving adds to a verdict that the workload still runs elsewhere.
func moving(judged verdict, from []string, to string) verdict {
	if judged.phase == kubenestv1.AppRunning {
		judged.phase = kubenestv1.AppDeploying
	}
	ordinary := judged.reason == "" || judged.reason == kubenestv1.ReasonDeploying ||
		judged.reason == kubenestv1.ReasonDelivering || judged.reason == kubenestv1.ReasonRunning
	if ordinary {
		judged.reason = kubenestv1.ReasonMoving
	}
	where := strings.Join(from, ", ")
	judged.message = strings.TrimSpace(fmt.Sprintf("Moves from cluster %s to %s, and is removed from %s when it runs on %s. %s", where, to, where, to, judged.message))
	return judged
}
