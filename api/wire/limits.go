// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"time"
)

const (
	// Subprotocol is offered and selected in Sec-WebSocket-Protocol.
	Subprotocol = "kubenest.v1"
	// Protocol is the version of the message set behind the subprotocol.
	Protocol = 1
	// Path of the WebSocket endpoint.
	Path = "/ws/operator"

	// MaxFrame is the largest frame, in bytes. Larger messages are chunked.
	MaxFrame = 32 << 10
	// MaxMessage is the largest message after reassembly, in bytes. etcd takes
	// objects of up to 1.5 MiB; Secrets travel beside them.
	MaxMessage = 4 << 20
	// MaxAssemblies is how many chunked messages may be under way in a direction.
	MaxAssemblies = 2
	// MaxName bounds ids and versions, in bytes.
	MaxName = 64
	// MaxText bounds a text for people, in bytes.
	MaxText = 1024
	// MaxToken bounds a JWT, in bytes.
	MaxToken = 4 << 10

	// MaxInputs is how many inputs a StackDeploy may have.
	MaxInputs = 64
	// MaxStacks is how many StackDeploys a cluster may have.
	MaxStacks = 10_000
	// MaxStatus bounds a report's status, in bytes.
	MaxStatus = 256 << 10
	// MaxExports bounds an addon's exports, in bytes.
	MaxExports = 256 << 10
	// MaxUnanswered is how many deliveries may be on their way to an operator, and
	// MaxUnansweredBytes how large they may be together unless it is a single one.
	MaxUnanswered      = 16
	MaxUnansweredBytes = 1 << 20

	// MaxStreams is how many byte streams a session may have at once.
	MaxStreams = 32
	// StreamWindow is how much of a stream, in bytes, may be on its way or unread: with
	// more, its writer waits. Hence a session with all its streams holds MaxStreams
	// times as much at most.
	StreamWindow = 256 << 10
	// StreamLinger is how long an end of a stream that closed waits for the other one to
	// close it, too.
	StreamLinger = 30 * time.Second
	// MaxStreamHeader bounds the first line of a stream in each direction, in bytes.
	MaxStreamHeader = 32 << 10
	// MaxStreamData bounds what one frame of a stream carries, in bytes, so that it
	// fits a frame of the session.
	MaxStreamData = 24 << 10
	// StreamKeepAlive is how often a stream that has nothing to say says so, and
	// StreamSilence after how long without a word it is given up.
	StreamKeepAlive = 10 * time.Second
	StreamSilence   = time.Minute

	// MaxLogSources is how many containers one stream of logs may have, and
	// MaxLogStreams how many streams of logs an operator serves at once.
	MaxLogSources = 64
	MaxLogStreams = 16
	// MaxLogText bounds a piece of a log's line, in bytes; longer lines come in several.
	MaxLogText = 16 << 10

	// OpeningTimeout bounds each of: the upgrade, hello, and welcome.
	OpeningTimeout = 10 * time.Second
	// WriteTimeout bounds the writing of one frame.
	WriteTimeout = 10 * time.Second
	// CloseTimeout bounds a farewell: the socket is torn down after it, whether or
	// not the peer answered the close frame.
	CloseTimeout = time.Second
	// StoreTimeout is how long the hub waits for Stored.
	StoreTimeout = 10 * time.Second
)

// Timing of a session.
type Timing struct {
	// Heartbeat is how often the operator beats, and the hub pings.
	Heartbeat time.Duration
	// DeadAfter is the silence after which a side gives the other up.
	DeadAfter time.Duration
}

// DefaultTiming shows a silent peer within 45 s: 40 s of silence, and time to
// write it down.
var DefaultTiming = Timing{Heartbeat: 12 * time.Second, DeadAfter: 40 * time.Second}

// Validate refuses a timing in which a single lost beat looks like death.
func (t Timing) Validate() error {
	switch {
	case t.Heartbeat <= 0:
		return fmt.Errorf("heartbeat %v must be above zero", t.Heartbeat)
	case t.Heartbeat > 10*time.Minute:
		return fmt.Errorf("heartbeat %v must be at most 10m", t.Heartbeat)
	case t.DeadAfter < 3*t.Heartbeat:
		return fmt.Errorf("dead-after %v must be at least three heartbeats (3 × %v = %v): a peer that misses one beat is not dead",
			t.DeadAfter, t.Heartbeat, 3*t.Heartbeat)
	case t.DeadAfter > time.Hour:
		return fmt.Errorf("dead-after %v must be at most 1h", t.DeadAfter)
	}
	return nil
}
