// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"sync"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/streams"
)

// errLimit says that as much was sent as was asked for.
var errLimit = errors.New("the limit of bytes is reached")

// output merges what the containers' logs say into one stream.
type output struct {
	writer *streams.Writer

	mu      sync.Mutex
	left    int64 // bytes of text that may be sent
	bounded bool
	sources uint32 // introduced so far
}

func newOutput(w *streams.Writer, limit int64) *output {
	return &output{writer: w, left: limit, bounded: limit > 0}
}

// introduce gives a container an ID.
func (o *output) introduce(pod, container, component string) (id uint32, err error) {
	o.mu.Lock()
	o.sources++
	id = o.sources
	o.mu.Unlock()
	return id, o.writer.AddJSON(wire.FrameLogSource, wire.LogSource{ID: id, Pod: pod, Container: container, Component: component})
}

func (o *output) note(source uint32, message string) error {
	return o.writer.AddJSON(wire.FrameLogNote, wire.LogNote{Source: source, Message: wire.Line(message, wire.MaxText)})
}

// text sends a piece of a line, as much of it as may be sent.
func (o *output) text(t *wire.LogText) error {
	cut := o.take(len(t.Text))
	if cut < 0 {
		return errLimit
	}
	limited := cut < len(t.Text)
	if limited {
		t.Text, t.More = t.Text[:cut], false
	}
	if err := o.writer.Add(func(b []byte) []byte { return wire.AppendLogText(b, t) }); err != nil {
		return err
	}
	if limited {
		return errLimit
	}
	return nil
}

// take is how much of a text may be sent, -1 if nothing any more.
func (o *output) take(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.bounded {
		return n
	}
	if o.left <= 0 {
		return -1
	}
	n = int(min(int64(n), o.left))
	o.left -= int64(n) + 1 // with its line break
	return n
}
