// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

const (
	// maxMessage bounds a message, in bytes.
	maxMessage = 1024
	// maxReason bounds a reason, in bytes.
	maxReason = 256
	// maxItem bounds what a message says of one cluster, in bytes.
	maxItem = 256
	// leftNamed are the things that a deletion's message names.
	leftNamed = 10
	// maxClusters bounds the clusters that a status lists.
	maxClusters = 256
)

// clusterState is the state of a Project's namespace on one cluster.
type clusterState struct {
	id, name        string
	ready           metav1.ConditionStatus
	reason, message string
	// stalled: it does not mend by itself.
	stalled bool
	// kept: nothing depends on it.
	kept bool
}

// outcome is what a Project's status is to say.
type outcome struct {
	ready                metav1.Condition
	reconciling, stalled *metav1.Condition
	clusters             []kubenestv1.ProjectCluster
}

func refusedState(id, name string, why *refusal) clusterState {
	return clusterState{id: id, name: name, ready: metav1.ConditionFalse, reason: why.reason, message: why.message, stalled: true}
}

// state of the namespace on a target, from its StackDeploy's status.
func (t *target) state(p *kubenestv1.Project) clusterState {
	s := clusterState{id: t.id, name: t.name(p), ready: metav1.ConditionFalse}
	pending := func(format string, args ...any) clusterState {
		s.reason, s.message = kubenestv1.ReasonNamespacePending, fmt.Sprintf(format, args...)
		return s
	}
	switch {
	case t.refused != nil:
		return refusedState(s.id, s.name, t.refused)
	case t.stack == nil:
		return pending("Namespace %s is on its way to cluster %s.", p.TargetNamespace(), s.name)
	case t.kept && t.stack.DeletionTimestamp.IsZero():
		s.kept, s.ready, s.reason = true, metav1.ConditionTrue, kubenestv1.ReasonNamespaceKept
		s.message = fmt.Sprintf("No App of the Project is on cluster %s any more. Namespace %s stays there, with what people and addons keep in it, until the Project is deleted.",
			s.name, p.TargetNamespace())
		return s
	case !t.stack.DeletionTimestamp.IsZero() && t.wanted:
		return pending("Namespace %s on cluster %s is still being removed, and is made again then: %s", p.TargetNamespace(), s.name, whyLeft(t.stack))
	case !t.stack.DeletionTimestamp.IsZero():
		s.reason, s.message = kubenestv1.ReasonRemoving,
			fmt.Sprintf("Namespace %s on cluster %s is being removed: %s", p.TargetNamespace(), s.name, whyLeft(t.stack))
		return s
	}
	return s.observe(t.stack, p.TargetNamespace())
}

// observe reads a StackDeploy that is not being deleted. What is said of an older
// generation counts for nothing, but that the cluster is away.
func (s clusterState) observe(stack *kubenestv1.StackDeploy, namespace string) clusterState {
	delivered, ready := current(stack, kubenestv1.ConditionDelivered), current(stack, kubenestv1.ConditionReady)
	stalled := current(stack, kubenestv1.ConditionStalled)
	away := disconnected(stack)
	switch {
	case away != nil:
		s.ready, s.reason, s.message = metav1.ConditionUnknown, kubenestv1.ReasonClusterDisconnected, away.Message
	case delivered == nil || (delivered.Status == metav1.ConditionTrue && ready == nil):
		s.reason, s.message = kubenestv1.ReasonNamespacePending, fmt.Sprintf("Namespace %s is on its way to cluster %s.", namespace, s.name)
	case delivered.Status != metav1.ConditionTrue:
		s.reason, s.message = delivered.Reason, delivered.Message
	case ready.Status == metav1.ConditionTrue:
		s.ready, s.reason = metav1.ConditionTrue, kubenestv1.ReasonNamespaceReady
		s.message = fmt.Sprintf("Namespace %s is ready on cluster %s.", namespace, s.name)
	default:
		s.ready, s.reason, s.message = ready.Status, ready.Reason, ready.Message
	}
	s.stalled = s.ready == metav1.ConditionFalse && stalled != nil && stalled.Status == metav1.ConditionTrue
	return s
}

// current is a condition about the present generation, nil if there is none.
func current(s *kubenestv1.StackDeploy, kind string) *metav1.Condition {
	c := meta.FindStatusCondition(s.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration < s.Generation {
		return nil
	}
	return c
}

// disconnected is the condition that says that the cluster is away, nil if it is
// there.
func disconnected(s *kubenestv1.StackDeploy) *metav1.Condition {
	for _, kind := range []string{kubenestv1.ConditionReady, kubenestv1.ConditionDelivered} {
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c != nil && c.Status != metav1.ConditionTrue && c.Reason == kubenestv1.ReasonClusterDisconnected {
			return c
		}
	}
	return nil
}

// summarize computes a Project's conditions from the states of its namespaces. The
// worst counts: what does not mend, then what is on its way, then what is unknown.
func summarize(states []clusterState) outcome {
	rank := func(s *clusterState) int {
		switch {
		case s.kept:
			return -1
		case s.stalled:
			return 3
		case s.ready == metav1.ConditionFalse:
			return 2
		case s.ready == metav1.ConditionUnknown:
			return 1
		default:
			return 0
		}
	}
	worst, highest := &clusterState{reason: kubenestv1.ReasonNamespaceReady, ready: metav1.ConditionTrue}, -1
	for i := range states {
		if r := rank(&states[i]); r > highest {
			worst, highest = &states[i], r
		}
	}
	var words []string
	for i := range states {
		if rank(&states[i]) == highest {
			words = append(words, wire.Shorten(states[i].message, maxItem))
		}
	}
	message := strings.Join(words, " ")
	if len(words) == 1 {
		message = worst.message
	}
	o := outcome{
		ready:    condition(kubenestv1.ConditionReady, worst.ready, worst.reason, message),
		clusters: clusterList(states),
	}
	switch highest {
	case 3:
		o.stalled = new(condition(kubenestv1.ConditionStalled, metav1.ConditionTrue, worst.reason, message))
	case 2:
		o.reconciling = new(condition(kubenestv1.ConditionReconciling, metav1.ConditionTrue, worst.reason, message))
	}
	return o
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason[:min(len(reason), maxReason)], Message: wire.Shorten(message, maxMessage),
	}
}

// clusterList is what the status says of each cluster that has an id.
func clusterList(states []clusterState) []kubenestv1.ProjectCluster {
	var list []kubenestv1.ProjectCluster
	for i := range states {
		s := &states[i]
		if s.id == "" || len(list) == maxClusters {
			continue
		}
		list = append(list, kubenestv1.ProjectCluster{
			ClusterID: s.id, Cluster: s.name, Ready: string(s.ready),
			Reason: s.reason[:min(len(s.reason), maxReason)], Message: wire.Shorten(s.message, maxMessage),
		})
	}
	return list
}

func (l *leftover) String() string {
	switch {
	case l.stack == nil:
		return "App " + l.app
	case l.app == "":
		return wire.Shorten(fmt.Sprintf("namespace %s on cluster %s (%s)", l.stack.Spec.Namespace, l.cluster, whyLeft(l.stack)), maxItem)
	}
	return wire.Shorten(fmt.Sprintf("App %s on cluster %s (%s)", l.app, l.cluster, whyLeft(l.stack)), maxItem)
}

// whyLeft says why a StackDeploy is still there.
func whyLeft(s *kubenestv1.StackDeploy) string {
	if away := disconnected(s); away != nil {
		return trimmed(away.Message)
	}
	switch {
	case s.DeletionTimestamp.IsZero():
		return "its removal has not begun"
	case len(s.Status.Waiting) > 0:
		return "waits for " + strings.Join(s.Status.Waiting, ", ")
	case s.Status.Message != "":
		return trimmed(s.Status.Message)
	}
	return "the operator has not answered yet"
}

func trimmed(message string) string { return strings.TrimRight(message, ". ") }
