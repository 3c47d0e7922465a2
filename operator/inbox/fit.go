// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"encoding/json"
	"fmt"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// cuts make a status smaller, what is least missed first.
var cuts = []func(*kubenestv1.StackDeployStatus){
	func(s *kubenestv1.StackDeployStatus) { keepWarnings(s, 1) },
	func(s *kubenestv1.StackDeployStatus) { keepWarnings(s, 0) },
	func(s *kubenestv1.StackDeployStatus) { shortenTexts(s, wire.MaxText, 256) },
	func(s *kubenestv1.StackDeployStatus) { shortenTexts(s, 256, 64) },
	func(s *kubenestv1.StackDeployStatus) {
		for i := range s.Components {
			s.Components[i].Exports = nil
		}
	},
	func(s *kubenestv1.StackDeployStatus) { s.Components = nil },
}

// fit is a copy's status in JSON, in what room a report has. Where something is left
// out, its message says so.
func fit(s *kubenestv1.StackDeploy) (json.RawMessage, error) {
	status := &s.Status
	data, err := json.Marshal(status)
	for i := 0; err == nil && len(data) > wire.MaxStatus && i < len(cuts); i++ {
		if i == 0 {
			status = status.DeepCopy()
			const longest = 1024 // as written, and JSON may need six times that
			status.Message = wire.Shorten(status.Message, longest) + fmt.Sprintf(
				" (too large to be shown whole: see kubectl -n %s get stackdeploy %s -o yaml on the cluster)", s.Namespace, s.Name)
		}
		cuts[i](status)
		data, err = json.Marshal(status)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the status of StackDeploy %s/%s: %w", s.Namespace, s.Name, err)
	}
	return data, nil
}

func keepWarnings(s *kubenestv1.StackDeployStatus, n int) {
	for i := range s.Components {
		c := &s.Components[i]
		c.Warnings = c.Warnings[:min(n, len(c.Warnings))]
	}
}

// shortenTexts cuts what is said of the whole, and of components, to so many bytes.
func shortenTexts(s *kubenestv1.StackDeployStatus, whole, component int) {
	for i := range s.Conditions {
		s.Conditions[i].Message = wire.Shorten(s.Conditions[i].Message, whole)
	}
	for i := range s.Waiting {
		s.Waiting[i] = wire.Shorten(s.Waiting[i], component)
	}
	s.Drift = wire.Shorten(s.Drift, whole)
	for i := range s.Components {
		c := &s.Components[i]
		c.Message, c.Image = wire.Shorten(c.Message, component), wire.Shorten(c.Image, component)
	}
}
