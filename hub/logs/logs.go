// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs reads the logs of a component's pods through the session of their
// cluster.
package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

// Sessions open byte streams to the operators; *session.Registry does.
type Sessions interface {
	OpenStream(ctx context.Context, clusterID string) (*session.Stream, error)
}

// Reasons of ends that the hub finds itself, besides the operator's.
const (
	// ReasonInterrupted: the session ended. The cluster's next one can go on.
	ReasonInterrupted wire.EndReason = "interrupted"
	// ReasonSilent: the operator said nothing for wire.StreamSilence.
	ReasonSilent wire.EndReason = "silent"
	// ReasonClosed: the reader closed the stream, or its context ended.
	ReasonClosed wire.EndReason = "closed"
)

// End is why a stream ended. It is the error of Next, always.
type End struct {
	Reason wire.EndReason
	// Message is the reason in words.
	Message string
	// Err is what went wrong, nil if the operator ended the stream.
	Err error
}

// Error tells the reason in words.
func (e *End) Error() string { return e.Message }

// Unwrap is the cause, if there is one.
func (e *End) Unwrap() error { return e.Err }

// Resumable reports whether another stream that goes on where this one stopped may
// have more.
func (e *End) Resumable() bool {
	switch e.Reason {
	case ReasonInterrupted, ReasonSilent, wire.ReasonStopping:
		return true
	default:
		return false
	}
}

// Entry is a line of a container's log, a piece of one, or a note about it.
type Entry struct {
	Pod, Container, Component string
	// Time at which the line was written; zero if it is not known.
	Time time.Time
	// Text as the program wrote it, without the line break: any bytes at all, with
	// escape sequences. It is valid until the next call.
	Text []byte
	// More: the line goes on in the next entry of this container.
	More bool
	// Note is for people, such as that the container ended; there is no text then. A
	// note without a pod is about all.
	Note string
}

// Stream is the logs of a component's pods, as they come. One goroutine reads; Close
// is safe for concurrent use.
type Stream struct {
	request wire.LogRequest
	stream  *session.Stream
	frames  *wire.FrameReader
	stop    func() bool

	opened  time.Time
	bytes   int64 // of text, with line breaks
	sources map[uint32]*origin
	byName  map[[2]string]*origin
	end     *End
}

// origin is a container whose log comes.
type origin struct {
	wire.LogSource
	position wire.LogPosition
}

// Open asks for logs. It fails with session.ErrNotConnected, session.ErrNoStreams or
// session.ErrTooManyStreams, with a *wire.StreamAnswer if the operator does not serve
// them, or with an *End if it did not answer. The stream ends with ctx; whoever
// opened it closes it.
func Open(ctx context.Context, sessions Sessions, clusterID string, request wire.LogRequest) (*Stream, error) {
	if err := request.Validate(); err != nil {
		return nil, wire.FailStream(wire.StreamInvalid, "The request for logs makes no sense: %v", err)
	}
	stream, err := sessions.OpenStream(ctx, clusterID)
	if err != nil {
		return nil, err
	}
	reader := bufio.NewReader(stream)
	s := &Stream{
		request: request, opened: time.Now(), stream: stream, frames: wire.NewFrameReader(reader),
		stop:    context.AfterFunc(ctx, func() { _ = stream.Close() }),
		sources: map[uint32]*origin{}, byName: map[[2]string]*origin{},
	}
	for _, p := range request.Resume {
		s.byName[[2]string{p.Pod, p.Container}] = &origin{position: p}
	}
	if err := s.ask(reader); err != nil {
		_ = s.Close()
		if answer, ok := errors.AsType[*wire.StreamAnswer](err); ok {
			return nil, answer
		}
		return nil, endOf(err)
	}
	return s, nil
}

func (s *Stream) ask(reader *bufio.Reader) error {
	if err := wire.WriteStreamHeader(s.stream, wire.StreamLogs, &s.request); err != nil {
		return err
	}
	if err := s.stream.SetReadDeadline(time.Now().Add(wire.StreamSilence)); err != nil {
		return err
	}
	return wire.ReadStreamAnswer(reader)
}

// Close closes the stream, and so stops the operator. It is safe to call again.
func (s *Stream) Close() error {
	s.stop()
	return s.stream.Close()
}

// Next waits for the next entry. Its error is always an *End, and then always the
// same, and the stream is closed. As long as Next is not called the pods' logs wait, and nothing else does.
func (s *Stream) Next() (Entry, error) {
	for s.end == nil {
		entry, ok, err := s.next()
		if err != nil {
			s.end = endOf(err)
			_ = s.Close() // the operator waits for it
			break
		}
		if ok {
			return entry, nil
		}
	}
	return Entry{}, s.end
}

// next reads a frame, which may be an entry.
func (s *Stream) next() (entry Entry, ok bool, err error) {
	if err := s.stream.SetReadDeadline(time.Now().Add(wire.StreamSilence)); err != nil {
		return entry, false, err
	}
	kind, data, err := s.frames.Next()
	if err != nil {
		return entry, false, err
	}
	switch kind {
	case wire.FrameLogText:
		text, err := wire.ReadLogText(data)
		if err != nil {
			return entry, false, err
		}
		entry, err = s.text(text)
		return entry, true, err
	case wire.FrameLogSource:
		var source wire.LogSource
		if err := wire.ReadJSONFrame(data, &source); err != nil {
			return entry, false, err
		}
		return entry, false, s.introduce(source)
	case wire.FrameLogNote:
		var note wire.LogNote
		if err := wire.ReadJSONFrame(data, &note); err != nil {
			return entry, false, err
		}
		entry, err = s.note(&note)
		return entry, true, err
	case wire.FrameEnd:
		var end wire.StreamEnd
		if err := wire.ReadJSONFrame(data, &end); err != nil {
			return entry, false, err
		}
		return entry, false, &End{Reason: end.Reason, Message: end.Message}
	default: // a keep-alive, or what a newer operator may say
		return entry, false, nil
	}
}

// maxSources bounds the containers of one stream: pods come and go.
const maxSources = 10_000

func (s *Stream) introduce(source wire.LogSource) error {
	// By both: an operator may introduce many containers under one ID.
	if len(s.sources) >= maxSources || len(s.byName) >= maxSources {
		return fmt.Errorf("%w: logs of more than %d containers", wire.ErrMalformed, maxSources)
	}
	name := [2]string{source.Pod, source.Container}
	o, ok := s.byName[name]
	if !ok {
		o = &origin{}
		s.byName[name] = o
	}
	o.LogSource = source
	s.sources[source.ID] = o
	return nil
}

func (s *Stream) text(t *wire.LogText) (Entry, error) {
	o, ok := s.sources[t.Source]
	if !ok {
		return Entry{}, fmt.Errorf("%w: a line of a log that was not introduced", wire.ErrMalformed)
	}
	s.bytes += int64(len(t.Text)) + 1
	if at := &o.position; !t.More && t.Time.Unix() > 0 {
		if !t.Time.Equal(at.Time) {
			at.Time, at.Lines = t.Time, 0
		}
		at.Lines++
	}
	return Entry{Pod: o.Pod, Container: o.Container, Component: o.Component, Time: t.Time, Text: t.Text, More: t.More}, nil
}

func (s *Stream) note(n *wire.LogNote) (Entry, error) {
	if n.Source == 0 {
		return Entry{Note: n.Message}, nil
	}
	o, ok := s.sources[n.Source]
	if !ok {
		return Entry{}, fmt.Errorf("%w: a note about a log that was not introduced", wire.ErrMalformed)
	}
	return Entry{Pod: o.Pod, Container: o.Container, Component: o.Component, Note: n.Message}, nil
}

// endOf tells why a stream ended from an error.
func endOf(err error) *End {
	if end, ok := errors.AsType[*End](err); ok {
		return end
	}
	ended, ok := errors.AsType[*socket.Ended](err)
	switch {
	case ok && ended.Ending == wire.EndGoodbye:
		return &End{Reason: wire.ReasonStopping, Message: "The cluster's operator stopped.", Err: err}
	case ok:
		return &End{Reason: ReasonInterrupted, Message: "The cluster's session ended: " + string(ended.Ending) + ".", Err: err}
	case errors.Is(err, net.ErrClosed):
		return &End{Reason: ReasonClosed, Message: "The stream was closed.", Err: err}
	case isTimeout(err):
		return &End{Reason: ReasonSilent, Message: "The cluster's operator said nothing for " + wire.StreamSilence.String() + ".", Err: err}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &End{Reason: ReasonInterrupted, Message: "The cluster's operator closed the stream without a word.", Err: err}
	}
	return &End{Reason: wire.ReasonFailed, Message: wire.Line(err.Error(), wire.MaxText), Err: err}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
