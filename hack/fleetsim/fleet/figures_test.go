// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestFiguresRestOrMoveALittle(t *testing.T) {
	g := NewWithT(t)
	for i := range 40 {
		resting, moving := newFigures(i, false), newFigures(i, true)
		first := resting.facts(t.Context())
		g.Expect(first.Validate()).To(Succeed())
		again := resting.facts(t.Context())
		g.Expect(first.Equal(&again)).To(BeTrue())
		for range 100 {
			f := moving.facts(t.Context())
			g.Expect(f.Validate()).To(Succeed())
			g.Expect(*f.CPUUsed).To(BeNumerically("<=", *f.CPUTotal))
			g.Expect(*f.MemUsed).To(BeNumerically("<=", *f.MemTotal))
			g.Expect(*f.CPUTotal).To(Equal(*first.CPUTotal), "only usage moves")
			g.Expect(float64(*f.CPUUsed-*first.CPUUsed) / float64(*f.CPUTotal)).To(BeNumerically("<", 0.03))
		}
	}
}

func TestMovingShareIsSpreadEvenly(t *testing.T) {
	for share, want := range map[float64]int{0: 0, 0.1: 10, 0.25: 25, 1: 100} {
		moving := 0
		for i := range 100 {
			if moves(i, share) {
				moving++
			}
		}
		NewWithT(t).Expect(moving).To(Equal(want), "%v", share)
	}
}
