// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

// Ending names why a session ended. It is the close frame's reason, a metric's
// label and a log line's field; its code is in the range that RFC 6455 leaves to
// applications.
type Ending string

// Endings. "told" ones arrive in a close frame; the others are what a side
// concludes by itself.
const (
	// EndMoving (told): planned by the hub; the operator has been asked to move.
	EndMoving Ending = "moving"
	// EndGoodbye (told): planned by the operator.
	EndGoodbye Ending = "goodbye"
	// EndReplaced (told): a newer session of the same cluster was claimed.
	EndReplaced Ending = "replaced"
	// EndRevoked (told): the session's token was revoked.
	EndRevoked Ending = "revoked"
	// EndUnknownCluster (told): the record was deleted.
	EndUnknownCluster Ending = "unknown_cluster"
	// EndRefused (told): the hello was refused; a refused message came before.
	EndRefused Ending = "refused"
	// EndProtocol (told): a malformed, oversized or out-of-order message.
	EndProtocol Ending = "protocol"
	// EndFlooding (told): more messages than the budget allows.
	EndFlooding Ending = "flooding"
	// EndSlow: the peer does not read what it is sent.
	EndSlow Ending = "slow"
	// EndSilent: nothing was heard for Timing.DeadAfter.
	EndSilent Ending = "silent"
	// EndLost: the connection closed or broke without a word.
	EndLost Ending = "lost"
)

// codes are stable: they are on the wire.
var codes = map[Ending]int{
	EndMoving: 4000, EndGoodbye: 4001, EndReplaced: 4002, EndRevoked: 4003, EndUnknownCluster: 4004,
	EndRefused: 4005, EndProtocol: 4006, EndFlooding: 4007, EndSlow: 4008, EndSilent: 4009,
}

// Code is the close code to send; 1001 (going away) for an ending that is not
// told.
func (e Ending) Code() int {
	if code, ok := codes[e]; ok {
		return code
	}
	return 1001
}

// EndingOf is the ending that a received close code tells, EndLost for codes of
// others.
func EndingOf(code int) Ending {
	for e, c := range codes {
		if c == code {
			return e
		}
	}
	return EndLost
}

// Planned reports whether the ending is nobody's fault: logged at info level,
// and no cause to call a cluster disconnected while its next session comes up.
func (e Ending) Planned() bool { return e == EndMoving || e == EndReplaced }
