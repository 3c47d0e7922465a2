// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"encoding/json"
	"fmt"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// PublishedAnnotation on the operator's StackDeploy says with what it was published, in
// JSON. It is there before anything is in the repository, and until all is out of it.
const PublishedAnnotation = "kubenest.io/published"

// Published is what a publication can be taken back with. The spec says nothing of it
// any more once delivery is direct.
type Published struct {
	// GitOps is where it is.
	GitOps kubenestv1.GitOps `json:"gitops"`
	// Credential is the input that opens the repository; nil without one.
	Credential *kubenestv1.StackInput `json:"credential,omitempty"`
}

// PublishedOf reads a StackDeploy's annotation; nil if there is none. One that can not
// be read gives an empty place: the Application can be found without.
func PublishedOf(s *kubenestv1.StackDeploy) *Published {
	text, ok := s.Annotations[PublishedAnnotation]
	if !ok {
		return nil
	}
	p := &Published{}
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return &Published{}
	}
	return p
}

// Annotation is the value of PublishedAnnotation.
func (p *Published) Annotation() (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode what was published: %w", err)
	}
	return string(text), nil
}

// At reports whether it is at this place.
func (p *Published) At(g *kubenestv1.GitOps) bool {
	return g != nil && p.GitOps.RepoURL == g.RepoURL && p.GitOps.Branch == g.Branch && p.GitOps.Path == g.Path
}

// Kept are the inputs of a StackDeploy that are still of use: those of its spec, and
// what its publication is taken back with.
func Kept(s *kubenestv1.StackDeploy) []kubenestv1.StackInput {
	kept := append([]kubenestv1.StackInput{}, s.Spec.Inputs...)
	if p := PublishedOf(s); p != nil && p.Credential != nil {
		kept = append(kept, *p.Credential)
	}
	return kept
}
