// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// Limits of the StackDeploy schema, in characters and items.
const (
	maxReportComponents = 128
	maxComponentName    = 40
	maxReason           = 256
	maxImage            = 512
	maxExportNames      = 64
	maxExportName       = 63
	maxWarnings         = 5
	maxWarning          = 512
	maxWaiting          = 32
)

var (
	componentName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
	exportName      = regexp.MustCompile(`^[a-z]([-_a-zA-Z0-9]*[a-zA-Z0-9])?$`)
)

// read makes a status of an operator's report that may be shown and stored. It is
// the operator's words: what does not fit is cut, or left out.
func read(report *wire.Report) (*kubenestv1.StackDeployStatus, error) {
	var said kubenestv1.StackDeployStatus
	if err := json.Unmarshal(report.Status, &said); err != nil {
		return nil, fmt.Errorf("read report: %s", wire.Line(err.Error(), maxWarning))
	}
	s := &kubenestv1.StackDeployStatus{
		Phase:     phaseOf(said.Phase),
		Message:   wire.Line(said.Message, wire.MaxText),
		Drift:     wire.Line(said.Drift, wire.MaxText),
		DriftedAt: said.DriftedAt,
	}
	for _, what := range said.Waiting[:min(len(said.Waiting), maxWaiting)] {
		s.Waiting = append(s.Waiting, wire.Line(what, maxWarning))
	}
	for _, t := range summaryTypes {
		if c := meta.FindStatusCondition(said.Conditions, t); c != nil {
			s.Conditions = append(s.Conditions, conditionOf(c))
		}
	}
	named := map[string]bool{}
	for i := range said.Components {
		c := &said.Components[i]
		if len(s.Components) == maxReportComponents || named[c.Name] || len(c.Name) > maxComponentName || !componentName.MatchString(c.Name) {
			continue
		}
		named[c.Name] = true
		s.Components = append(s.Components, componentOf(c))
	}
	return s, nil
}

// summaryTypes are the conditions that the operator decides.
var summaryTypes = []string{kubenestv1.ConditionReady, kubenestv1.ConditionReconciling, kubenestv1.ConditionStalled}

func conditionOf(c *metav1.Condition) metav1.Condition {
	status := c.Status
	if status != metav1.ConditionTrue && status != metav1.ConditionFalse {
		status = metav1.ConditionUnknown
	}
	reason := c.Reason
	if len(reason) > maxReason || !conditionReason.MatchString(reason) {
		reason = kubenestv1.ReasonDeploying
	}
	return metav1.Condition{Type: c.Type, Status: status, Reason: reason, Message: wire.Line(c.Message, wire.MaxText)}
}

func componentOf(c *kubenestv1.ComponentStatus) kubenestv1.ComponentStatus {
	s := kubenestv1.ComponentStatus{
		Name: c.Name, Phase: phaseOf(c.Phase),
		Reason:  wire.Line(c.Reason, maxReason),
		Message: wire.Line(c.Message, wire.MaxText),
		Image:   wire.Line(c.Image, maxImage),
		Since:   c.Since, ReadyReplicas: replicas(c.ReadyReplicas), DesiredReplicas: replicas(c.DesiredReplicas),
	}
	if c.Type == kubenestv1.ComponentWorkload || c.Type == kubenestv1.ComponentAddon {
		s.Type = c.Type
	}
	for _, name := range c.Exports {
		if len(s.Exports) < maxExportNames && len(name) <= maxExportName && exportName.MatchString(name) {
			s.Exports = append(s.Exports, name)
		}
	}
	for _, warning := range c.Warnings[:min(len(c.Warnings), maxWarnings)] {
		s.Warnings = append(s.Warnings, wire.Line(warning, maxWarning))
	}
	return s
}

func replicas(n *int32) *int32 {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}

// phaseOf leaves out a phase that the schema does not know.
func phaseOf(p kubenestv1.AppPhase) kubenestv1.AppPhase {
	switch p {
	case kubenestv1.AppPending, kubenestv1.AppDeploying, kubenestv1.AppRunning, kubenestv1.AppDegraded,
		kubenestv1.AppFailed, kubenestv1.AppPaused, kubenestv1.AppUnknown:
		return p
	default:
		return ""
	}
}
