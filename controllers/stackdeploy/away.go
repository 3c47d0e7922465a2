// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
)

// absence is what the status of a StackDeploy follows from whose cluster is not
// connected.
type absence struct {
	stack *kubenestv1.StackDeploy
	// record of the cluster, nil if it is gone.
	record *kubenestv1.ManagedCluster
	// since when it is away, and whether that is long enough to call what it runs
	// unknown: until then an operator that restarts changes nothing.
	since time.Time
	long  bool
	now   metav1.Time
}

// absent is the status of a StackDeploy whose cluster is not connected. What was
// known last stays, with its time.
func absent(a *absence) kubenestv1.StackDeployStatus {
	desired := *a.stack.Status.DeepCopy()
	owed := a.owed()
	if !owed && !a.long {
		return desired
	}
	reason, message := a.words(owed)
	m := moment{stack: a.stack, now: a.now}
	desired.ObservedGeneration = a.stack.Generation
	m.set(&desired, undelivered(reason, message))
	reported := desired.Source != nil
	if reported && a.long && desired.ReportedAt == nil {
		at := metav1.NewTime(a.lastHeard()).Rfc3339Copy()
		desired.ReportedAt = &at
	}

	ready := metav1.Condition{Type: kubenestv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	phase := kubenestv1.AppPending
	if reported && a.long {
		ready.Status, phase = metav1.ConditionUnknown, kubenestv1.AppUnknown
	}
	conditions := []metav1.Condition{ready}
	switch {
	case a.record == nil:
		conditions = append(conditions, metav1.Condition{Type: kubenestv1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason, Message: message})
	case owed:
		conditions = append(conditions, reconciling(reason, message))
	}
	m.summarize(&desired, phase, conditions...)
	return desired
}

// owed reports whether the operator lacks something: the newest generation, or to
// hear that it is to be removed.
func (a *absence) owed() bool {
	d := a.stack.Status.Delivered
	return !a.stack.DeletionTimestamp.IsZero() || d == nil || d.UID != string(a.stack.UID) || d.Generation != a.stack.Generation
}

// words say why, and what to do. They hold no times: those stand in the status.
func (a *absence) words(owed bool) (reason, message string) {
	if a.record == nil {
		return kubenestv1.ReasonClusterNotFound, fmt.Sprintf(
			"There is no ManagedCluster with id %s: its record was deleted, or its namespace is not restored yet.", a.stack.Spec.ClusterID)
	}
	cluster := nameOf(a.record, a.stack.Namespace)
	switch {
	case a.record.Spec.Abandoned:
		return kubenestv1.ReasonClusterDisconnected, fmt.Sprintf("Cluster %s was given up (spec.abandoned).", cluster)
	case neverConnected(a.record):
		return kubenestv1.ReasonClusterDisconnected, fmt.Sprintf(
			"Cluster %s has not connected yet: install its operator. This is delivered by itself then.", cluster)
	case owed:
		return kubenestv1.ReasonClusterDisconnected, fmt.Sprintf(
			"Cluster %s is not connected. This is delivered by itself when it is back; kubectl -n %s describe managedcluster %s says why it is away.",
			cluster, a.record.Namespace, a.record.Name)
	default:
		return kubenestv1.ReasonClusterDisconnected, fmt.Sprintf(
			"Cluster %s is not connected. What is shown was so at status.reportedAt; kubectl -n %s describe managedcluster %s says why it is away.",
			cluster, a.record.Namespace, a.record.Name)
	}
}

func neverConnected(record *kubenestv1.ManagedCluster) bool {
	return record.Status.Session == nil || record.Status.Session.Epoch == 0
}

// lastHeard is when the operator was heard last: what it had reported then was so.
func (a *absence) lastHeard() time.Time {
	if a.record != nil && a.record.Status.Session != nil && a.record.Status.Session.LastHeardAt != nil {
		return a.record.Status.Session.LastHeardAt.Time
	}
	if a.since.IsZero() {
		return a.now.Time
	}
	return a.since
}

// awaySince is since when a cluster is away; whether that is long enough is for
// clusters.AwayAfter to say.
func awaySince(record *kubenestv1.ManagedCluster) time.Time {
	if record == nil {
		return time.Time{}
	}
	_, since := clusters.Connected(record)
	return since
}
