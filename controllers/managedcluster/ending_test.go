// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

func TestEndingReason(t *testing.T) {
	for ending, want := range map[wire.Ending]string{
		wire.EndGoodbye:        kubenestv1.ReasonOperatorStopped,
		wire.EndSilent:         kubenestv1.ReasonHeartbeatTimeout,
		wire.EndRevoked:        kubenestv1.ReasonTokenRevoked,
		wire.EndProtocol:       kubenestv1.ReasonProtocolError,
		wire.EndFlooding:       kubenestv1.ReasonProtocolError,
		wire.EndSlow:           kubenestv1.ReasonSessionClosed,
		wire.EndLost:           kubenestv1.ReasonSessionClosed,
		wire.EndUnknownCluster: kubenestv1.ReasonSessionClosed,
		wire.EndMoving:         kubenestv1.ReasonSessionClosed,
	} {
		t.Run(string(ending), func(t *testing.T) {
			g := NewWithT(t)
			reason, message := endingReason(session.End{Ending: ending, Message: "because"}, wire.DefaultTiming)
			g.Expect(reason).To(Equal(want))
			g.Expect(message).To(MatchRegexp(`^[A-Z].*\.$`), "a sentence")
		})
	}
}

func TestCloseAges(t *testing.T) {
	add := func(ages ...time.Duration) *closeAges {
		var c closeAges
		for _, age := range ages {
			c.add(age)
		}
		return &c
	}
	s := time.Second
	t.Run("five at one age are explained", func(t *testing.T) {
		NewWithT(t).Expect(add(3*s, 60*s, 60*s, 61*s, 60*s, 59*s).explain()).
			To(ContainSubstring("closed 5 times in a row after 1m0s±1s"))
	})
	t.Run("four are not", func(t *testing.T) {
		NewWithT(t).Expect(add(60*s, 60*s, 60*s, 60*s).explain()).To(BeEmpty())
	})
	t.Run("different ages are not", func(t *testing.T) {
		NewWithT(t).Expect(add(60*s, 60*s, 60*s, 60*s, 80*s).explain()).To(BeEmpty())
	})
}
