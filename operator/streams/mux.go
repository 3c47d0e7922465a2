// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"

	"github.com/kubenest/kubenest/api/wire"
)

// drainTimeout is how long the hub may take to read what was written at last.
const drainTimeout = 10 * time.Minute

// Stream is what this package needs of one; *socket.Stream is one.
type Stream interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
}

// Handler serves one kind of streams.
type Handler interface {
	// Prepare looks at a request. It returns what serves it, or why nothing does.
	// ctx ends with the stream.
	Prepare(ctx context.Context, header *wire.StreamHeader) (Run, *wire.StreamAnswer)
}

// Run writes frames until all is written or ctx ends, and says why it stopped. It is
// called once, always.
type Run func(ctx context.Context, w *Writer) wire.StreamEnd

// Mux hands each stream to the handler of its kind.
type Mux struct {
	handlers map[string]Handler
	log      logr.Logger
}

// NewMux makes one. The handlers are by kind.
func NewMux(log logr.Logger, handlers map[string]Handler) *Mux {
	return &Mux{handlers: handlers, log: log}
}

// Serve serves a stream until it is over, and closes it.
func (m *Mux) Serve(ctx context.Context, stream Stream) {
	defer stream.Close() // it has ended, or nobody reads
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader := bufio.NewReader(stream)
	_ = stream.SetReadDeadline(time.Now().Add(wire.OpeningTimeout))
	header, err := wire.ReadStreamHeader(reader)
	if err != nil {
		m.log.V(1).Info("Stream closed before it asked for anything", "reason", err.Error())
		return
	}
	_ = stream.SetReadDeadline(time.Time{})
	left := make(chan struct{})
	go func() { // the hub says nothing more: whatever comes is the end
		defer close(left)
		_, _ = reader.ReadByte()
		cancel()
	}()
	if m.answer(ctx, stream, header) {
		timeout := time.NewTimer(drainTimeout)
		defer timeout.Stop()
		select { // closing now could cut off what the hub has not read
		case <-left:
		case <-timeout.C:
		}
	}
	_ = stream.Close()
	<-left
}

// answer reports whether everything was written, to the end.
func (m *Mux) answer(ctx context.Context, stream Stream, header *wire.StreamHeader) bool {
	began := time.Now()
	run, failure := m.prepare(ctx, header)
	if failure != nil {
		m.log.Info("Stream refused", "kind", header.Kind, "class", failure.Class, "reason", failure.Message)
		return wire.WriteStreamAnswer(stream, failure) == nil
	}
	if err := wire.WriteStreamAnswer(stream, nil); err != nil {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		run(ctx, newWriter(stream)) // lets go of what it holds
		return false
	}
	w := newWriter(stream)
	stop := context.AfterFunc(ctx, func() { _ = stream.Close(); w.fail(ctx.Err()) })
	defer stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.run()
	}()
	end := run(ctx, w)
	err := w.finish(&end)
	<-written
	m.log.V(1).Info("Stream ended", "kind", header.Kind, "reason", end.Reason, "message", end.Message,
		"bytes", w.bytes, "age", time.Since(began).Round(time.Millisecond).String())
	return err == nil && w.failed() == nil
}

func (m *Mux) prepare(ctx context.Context, header *wire.StreamHeader) (Run, *wire.StreamAnswer) {
	handler, ok := m.handlers[header.Kind]
	if !ok {
		return nil, wire.FailStream(wire.StreamUnsupported,
			"%s", fmt.Sprintf("This operator knows no streams of %q: upgrade it.", header.Kind))
	}
	return handler.Prepare(ctx, header)
}
