// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"fmt"
	"time"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

// endingReason puts a session's end into a reason and words that say what to
// do. It contains no times: a condition's message must not change by itself.
func endingReason(end session.End, timing wire.Timing) (reason, message string) {
	switch end.Ending {
	case wire.EndGoodbye:
		message = "The operator said that it stops."
		if end.Message != "" {
			message = fmt.Sprintf("The operator said that it stops: %s.", end.Message)
		}
		return kubenestv1.ReasonOperatorStopped, message
	case wire.EndSilent:
		return kubenestv1.ReasonHeartbeatTimeout, fmt.Sprintf(
			"Nothing was heard of the operator for %v. The network between them is cut, or the cluster is down; the operator connects again by itself.",
			timing.DeadAfter)
	case wire.EndRevoked:
		return kubenestv1.ReasonTokenRevoked,
			"The operator's token was revoked. Install the operator again with the values.yaml of the connection Secret."
	case wire.EndUnknownCluster:
		return kubenestv1.ReasonSessionClosed,
			"The hub closed the session, since the record is not taken up any more; the operator connects again by itself once it is."
	case wire.EndProtocol, wire.EndFlooding:
		message = "The operator broke the session's protocol."
		if end.Message != "" {
			message = fmt.Sprintf("The operator broke the session's protocol: %s.", end.Message)
		}
		return kubenestv1.ReasonProtocolError, message + " Upgrade the operator to the hub's version."
	case wire.EndSlow:
		return kubenestv1.ReasonSessionClosed,
			"The operator did not read what it was sent; it connects again by itself."
	default:
		return kubenestv1.ReasonSessionClosed,
			"The connection to the operator closed without a word; the operator connects again by itself."
	}
}

const (
	// sameAgeCloses in a row at nearly one age look like somebody's timeout.
	sameAgeCloses = 5
	// sameAgeSpread is how far apart "nearly one age" may be.
	sameAgeSpread = 2 * time.Second
	// leastAge of closes that may be a timeout: an operator that crashes as it
	// starts closes at one age, too.
	leastAge = 5 * time.Second
)

// closeAges remembers the ages at which a cluster's last sessions were lost.
// Middleboxes that cut idle or old connections do so at the same age each time,
// and nothing else tells of them.
type closeAges struct {
	ages [sameAgeCloses]time.Duration
	n    int
}

// add takes the age of a session that was lost without a word.
func (c *closeAges) add(age time.Duration) {
	copy(c.ages[:], c.ages[1:])
	c.ages[len(c.ages)-1] = age
	c.n = min(c.n+1, len(c.ages))
}

// explain is a sentence about the ages, empty when they tell nothing.
func (c *closeAges) explain() string {
	if c.n < len(c.ages) {
		return ""
	}
	low, high := c.ages[0], c.ages[0]
	for _, age := range c.ages[1:] {
		low, high = min(low, age), max(high, age)
	}
	if low < leastAge || high-low > sameAgeSpread {
		return ""
	}
	middle := (low + (high-low)/2).Round(time.Second)
	return fmt.Sprintf(" It closed %d times in a row after %v±1s: is there a proxy or balancer with a timeout of that length?",
		len(c.ages), middle)
}
