// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"io"
	"sync"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// enough frames wait, in bytes: who has more waits. It is about what one frame of
// the session carries.
const enough = wire.MaxFrame

// Writer writes the frames of a stream in the order in which they were added.
// Meanwhile others gather, so that many small ones go together. All methods are safe
// for concurrent use.
type Writer struct {
	stream io.Writer

	mu       sync.Mutex
	changed  sync.Cond // of mu
	frames   []byte
	err      error // nothing is written any more
	finished bool
	bytes    int64 // written
}

func newWriter(stream io.Writer) *Writer {
	w := &Writer{stream: stream}
	w.changed.L = &w.mu
	return w
}

// Add adds frames, which it has appended to the bytes that it is given, and waits
// while there is no room. It fails when the stream has ended.
func (w *Writer) Add(frames func([]byte) []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.frames) >= enough && w.err == nil {
		w.changed.Wait()
	}
	if w.err != nil {
		return w.err
	}
	w.frames = frames(w.frames)
	w.changed.Broadcast()
	return nil
}

// AddJSON adds a frame whose data is JSON.
func (w *Writer) AddJSON(t wire.FrameType, message any) error {
	frame, err := wire.AppendJSONFrame(nil, t, message)
	if err != nil {
		return err
	}
	return w.Add(func(b []byte) []byte { return append(b, frame...) })
}

// run writes until all is written, or until it can't.
func (w *Writer) run() {
	var spare []byte
	silent := time.AfterFunc(wire.StreamKeepAlive, w.keepAlive)
	defer silent.Stop()
	for {
		frames, ok := w.take(spare)
		if !ok {
			return
		}
		n, err := w.stream.Write(frames)
		silent.Reset(wire.StreamKeepAlive)
		w.mu.Lock()
		w.bytes += int64(n)
		w.mu.Unlock()
		if err != nil {
			w.fail(err)
			return
		}
		spare = frames
	}
}

func (w *Writer) take(spare []byte) (frames []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.frames) == 0 && !w.finished && w.err == nil {
		w.changed.Wait()
	}
	if w.err != nil || len(w.frames) == 0 {
		return nil, false
	}
	frames, w.frames = w.frames, spare[:0]
	w.changed.Broadcast()
	return frames, true
}

// keepAlive says that the stream is silent, if it is.
func (w *Writer) keepAlive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.frames) == 0 && !w.finished && w.err == nil {
		w.frames = wire.AppendFrame(w.frames, wire.FrameKeepAlive, nil)
		w.changed.Broadcast()
	}
}

// finish adds the last frame.
func (w *Writer) finish(end *wire.StreamEnd) error {
	end.Message = wire.Line(end.Message, wire.MaxText)
	err := w.AddJSON(wire.FrameEnd, end)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = true
	w.changed.Broadcast()
	return err
}

// fail wakes who waits: nothing is written any more.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.changed.Broadcast()
}

func (w *Writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
