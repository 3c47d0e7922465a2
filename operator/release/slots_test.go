// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
)

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s := newSlots(3, 2)
		var got []string
		ask := func(ctx context.Context, key, name string) {
			go func() {
				if s.take(ctx, key) == nil {
					got = append(got, name)
				}
			}()
			synctest.Wait()
		}
		impatient, leave := context.WithCancel(t.Context())
		ask(t.Context(), "a", "a1")
		ask(t.Context(), "a", "a2")
		ask(impatient, "a", "a3")
		ask(t.Context(), "a", "a4")
		ask(t.Context(), "b", "b1")
		ask(t.Context(), "b", "b2")
		g.Expect(got).To(Equal([]string{"a1", "a2", "b1"}), "a has its share, and others do not wait for it")
		leave()
		synctest.Wait()
		s.give("a")
		synctest.Wait()
		g.Expect(got).To(Equal([]string{"a1", "a2", "b1", "a4"}), "who came first goes first, unless it has left")
		s.give("a")
		s.give("a")
		s.give("b")
		synctest.Wait()
		g.Expect(got).To(HaveLen(5))
		s.give("b")
		g.Expect(s.used).To(BeZero())
		g.Expect(s.by).To(BeEmpty())
		g.Expect(s.waiting).To(BeEmpty())
	})
}

func TestTurn(t *testing.T) {
	g := NewWithT(t)
	s := newSlots(1, 1)
	first := &turn{slots: s, key: "a"}
	g.Expect(first.begin(t.Context())).To(Succeed())
	c := yielding(t.Context(), nil, first)
	g.Expect(c.yield(func() error {
		other := &turn{slots: s, key: "b"}
		defer other.end()
		return other.begin(t.Context())
	})).To(Succeed(), "others have the slot meanwhile")
	g.Expect(s.by).To(HaveKeyWithValue("a", 1), "then it has it again")

	ctx, cancel := context.WithCancel(t.Context())
	c = yielding(ctx, nil, first)
	g.Expect(c.yield(func() error {
		g.Expect(s.take(t.Context(), "b")).To(Succeed())
		cancel()
		return nil
	})).To(MatchError(context.Canceled), "it ends, if it can not have it again")
	first.end()
	g.Expect(s.by).To(Equal(map[string]int{"b": 1}), "and gives back what it has, only")
}
