// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/status"
)

// moment is what a StackDeploy's status follows from while its cluster is
// connected.
type moment struct {
	stack  *kubenestv1.StackDeploy
	record *kubenestv1.ManagedCluster
	// want is what there is to deliver, held what the operator has.
	want wire.Delivery
	held *wire.Held
	// outcome is the condition Delivered.
	outcome metav1.Condition
	// report is the newest that was not worked in, if any.
	report *wire.Report
	// refused says by component why exports can not be kept.
	refused map[string]string
	now     metav1.Time
}

// observe is the status of a StackDeploy whose cluster is connected. It is
// idempotent: from the status that it made, it makes the same. used says whether the
// report is done with.
func observe(m *moment) (desired kubenestv1.StackDeployStatus, used bool) {
	desired = *m.stack.Status.DeepCopy()
	desired.ObservedGeneration = m.stack.Generation
	desired.Delivered = nil
	if m.held != nil {
		desired.Delivered = sourceOf(m.held.Stack, m.held.Delivery)
	}
	said, used := m.accept(&desired)
	if said != nil {
		desired.Components = said.Components
		desired.Source = sourceOf(m.report.Stack, m.report.Delivery)
		desired.ReportedAt = nil
		desired.Waiting, desired.Drift, desired.DriftedAt = said.Waiting, said.Drift, said.DriftedAt
	}
	m.complete(&desired)
	m.set(&desired, m.outcome)
	switch {
	case !m.stack.DeletionTimestamp.IsZero():
		m.removing(&desired)
	case m.outcome.Status != metav1.ConditionTrue:
		m.undelivered(&desired)
	default:
		m.running(&desired, said)
	}
	return desired, used
}

// accept is what the report says, if it counts: it is about this object, about no
// generation of before what is known, and not about other content of the same
// generation, as a hub before a restore delivered it. used is false if the report is
// about a generation that is still to be seen here.
func (m *moment) accept(known *kubenestv1.StackDeployStatus) (said *kubenestv1.StackDeployStatus, used bool) {
	r := m.report
	switch {
	case r == nil:
		return nil, true
	case r.UID != m.want.UID:
		return nil, true
	case r.Generation > m.want.Generation:
		return nil, false
	case r.Generation == m.want.Generation && r.Digest != m.want.Digest:
		return nil, true
	case known.Source != nil && known.Source.UID == r.UID && known.Source.Generation > r.Generation && known.Source.Generation <= m.want.Generation:
		return nil, true
	}
	said, err := read(r)
	if err != nil {
		return &kubenestv1.StackDeployStatus{
			Components: known.Components, Phase: kubenestv1.AppUnknown,
			Conditions: []metav1.Condition{{
				Type: kubenestv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: kubenestv1.ReasonInvalid,
				Message: fmt.Sprintf("What the operator of cluster %s reports can not be read: upgrade the operator to the hub's version.", m.cluster()),
			}},
		}, true
	}
	return said, true
}

func (m *moment) cluster() string { return nameOf(m.record, m.stack.Namespace) }

// complete adds what the hub knows of the components.
func (m *moment) complete(desired *kubenestv1.StackDeployStatus) {
	for i := range desired.Components {
		c := &desired.Components[i]
		c.Cluster, c.ClusterID = m.cluster(), m.stack.Spec.ClusterID
		inTheWay := notOurs(client.ObjectKey{Namespace: m.stack.Namespace, Name: kubenestv1.ExportsSecretName(m.stack.Spec.App, c.Name)})
		if c.Reason == kubenestv1.ReasonObjectNotOurs && c.Message == inTheWay {
			c.Reason, c.Message = "", ""
		}
		if why, ok := m.refused[c.Name]; ok {
			c.Reason, c.Message = kubenestv1.ReasonObjectNotOurs, why
		}
	}
}

// set puts a condition into a status.
func (m *moment) set(desired *kubenestv1.StackDeployStatus, c metav1.Condition) {
	status.Set(&desired.Conditions, c, m.stack.Generation, m.now)
}

// summarize sets the three conditions that kstatus reads, phase and message. Stalled
// and Reconciling are empty to be absent.
func (m *moment) summarize(desired *kubenestv1.StackDeployStatus, phase kubenestv1.AppPhase, conditions ...metav1.Condition) {
	for _, t := range summaryTypes {
		if meta.FindStatusCondition(conditions, t) == nil {
			meta.RemoveStatusCondition(&desired.Conditions, t)
		}
	}
	for _, c := range conditions {
		m.set(desired, c)
	}
	desired.Phase = phase
	if ready := meta.FindStatusCondition(conditions, kubenestv1.ConditionReady); ready != nil {
		desired.Message = ready.Message
	}
}

// undelivered is the summary of what the operator does not have.
func (m *moment) undelivered(desired *kubenestv1.StackDeployStatus) {
	why := m.outcome
	ready := metav1.Condition{Type: kubenestv1.ConditionReady, Status: metav1.ConditionFalse, Reason: why.Reason, Message: why.Message}
	switch why.Reason {
	case kubenestv1.ReasonOperatorTooOld, kubenestv1.ReasonDeliveryRefused, kubenestv1.ReasonTooLarge:
		m.summarize(desired, kubenestv1.AppFailed, ready,
			metav1.Condition{Type: kubenestv1.ConditionStalled, Status: metav1.ConditionTrue, Reason: why.Reason, Message: why.Message})
	case kubenestv1.ReasonInputMissing:
		m.summarize(desired, kubenestv1.AppPending, ready, reconciling(why.Reason, why.Message))
	default:
		ready.Reason = kubenestv1.ReasonDeploying
		m.summarize(desired, kubenestv1.AppDeploying, ready, reconciling(why.Reason, why.Message))
	}
}

func reconciling(reason, message string) metav1.Condition {
	return metav1.Condition{Type: kubenestv1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// running is the summary of what the operator has: what it says about it, if it has
// said something about this delivery.
func (m *moment) running(desired *kubenestv1.StackDeployStatus, said *kubenestv1.StackDeployStatus) {
	current := desired.Source != nil && *desired.Source == *sourceOf(stackOf(m.stack), m.want)
	ready := meta.FindStatusCondition(desired.Conditions, kubenestv1.ConditionReady)
	switch {
	case current && said != nil:
		m.said(desired, said)
	case current && ready != nil && ready.ObservedGeneration == m.stack.Generation && !overridden(ready.Reason):
		// What was said last holds until the operator says more, which it does after
		// each welcome.
	default:
		message := fmt.Sprintf("Cluster %s has it, and has not said yet what became of it.", m.cluster())
		m.summarize(desired, kubenestv1.AppDeploying,
			metav1.Condition{Type: kubenestv1.ConditionReady, Status: metav1.ConditionFalse, Reason: kubenestv1.ReasonDeploying, Message: message},
			reconciling(kubenestv1.ReasonDeploying, message))
	}
}

// overridden reports whether a reason of Ready is the hub's, about a delivery that
// failed.
func overridden(reason string) bool {
	switch reason {
	case kubenestv1.ReasonOperatorTooOld, kubenestv1.ReasonDeliveryRefused, kubenestv1.ReasonTooLarge, kubenestv1.ReasonInputMissing:
		return true
	default:
		return false
	}
}

// said is the summary in the operator's words, made to agree with itself: what is
// ready is not on its way, and what is stalled is not either.
func (m *moment) said(desired *kubenestv1.StackDeployStatus, said *kubenestv1.StackDeployStatus) {
	ready := meta.FindStatusCondition(said.Conditions, kubenestv1.ConditionReady)
	if ready == nil {
		ready = &metav1.Condition{Type: kubenestv1.ConditionReady, Status: metav1.ConditionFalse, Reason: kubenestv1.ReasonDeploying, Message: said.Message}
	}
	conditions := []metav1.Condition{*ready}
	stalled := meta.FindStatusCondition(said.Conditions, kubenestv1.ConditionStalled)
	onItsWay := meta.FindStatusCondition(said.Conditions, kubenestv1.ConditionReconciling)
	switch {
	case ready.Status == metav1.ConditionTrue:
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		conditions = append(conditions, *stalled)
	case onItsWay != nil && onItsWay.Status == metav1.ConditionTrue:
		conditions = append(conditions, *onItsWay)
	}
	phase := said.Phase
	if phase == "" {
		phase = kubenestv1.AppDeploying
	}
	m.summarize(desired, phase, conditions...)
	if said.Message != "" {
		desired.Message = said.Message
	}
}

// removing is the summary of what is being removed.
func (m *moment) removing(desired *kubenestv1.StackDeployStatus) {
	message := m.outcome.Message
	if m.outcome.Reason == kubenestv1.ReasonRemoving && len(desired.Waiting) > 0 {
		message = wire.Shorten(fmt.Sprintf("Cluster %s removes it, and waits for: %s.", m.cluster(), strings.Join(desired.Waiting, ", ")), wire.MaxText)
	}
	m.summarize(desired, kubenestv1.AppDeploying,
		metav1.Condition{Type: kubenestv1.ConditionReady, Status: metav1.ConditionFalse, Reason: kubenestv1.ReasonRemoving, Message: message},
		reconciling(kubenestv1.ReasonDeleting, message))
}
