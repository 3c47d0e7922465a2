// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestBucketRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		b := bucket{Budget: Budget{PerSecond: 5, Burst: 2}}
		g.Expect(b.spend(1)).To(Succeed())
		g.Expect(b.spend(1)).To(Succeed())
		g.Expect(b.spend(1)).To(MatchError(errFlooding))
		time.Sleep(200 * time.Millisecond)
		g.Expect(b.spend(1)).To(Succeed())
		g.Expect(b.spend(1)).To(MatchError(errFlooding))
		time.Sleep(time.Hour)
		g.Expect(b.spend(1)).To(Succeed())
		g.Expect(b.spend(1)).To(Succeed())
		g.Expect(b.spend(1)).To(MatchError(errFlooding), "a long rest saves up no more than the burst")
	})
}

func TestNoBudgetIsAnyNumber(t *testing.T) {
	var b bucket
	for range 10_000 {
		NewWithT(t).Expect(b.spend(1)).To(Succeed())
	}
}
