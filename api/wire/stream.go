// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Kinds of streams.
const (
	// StreamLogs carries the logs of pods; its request is LogRequest.
	StreamLogs = "logs"
)

// StreamHeader is the first line of a stream, from the side that opened it.
type StreamHeader struct {
	// Kind says what the stream is for.
	Kind string `json:"kind"`
	// Request is the kind's own.
	Request json.RawMessage `json:"request,omitempty"`
}

// Validate bounds the kind.
func (h *StreamHeader) Validate() error {
	if !isID(h.Kind) {
		return errors.New("a stream's kind is none")
	}
	return nil
}

// Read decodes the request and checks it.
func (h *StreamHeader) Read(request any) error {
	return Envelope{Type: Type(h.Kind), Data: h.Request}.Read(request)
}

// StreamFailure tells a program why a stream is not served.
type StreamFailure string

// Failures of streams.
const (
	// StreamUnsupported: the operator knows no streams of this kind.
	StreamUnsupported StreamFailure = "unsupported"
	// StreamInvalid: the request makes no sense; asking again changes nothing.
	StreamInvalid StreamFailure = "invalid"
	// StreamNotFound: what was asked for is not there.
	StreamNotFound StreamFailure = "not_found"
	// StreamForbidden: the operator must not or may not do it.
	StreamForbidden StreamFailure = "forbidden"
	// StreamBusy: the operator serves as many as it can.
	StreamBusy StreamFailure = "busy"
	// StreamUnavailable: the cluster can't do it now.
	StreamUnavailable StreamFailure = "unavailable"
)

// StreamAnswer is the second line of a stream, from the side that accepted it: a
// failure, or none. As an error it is the failure.
type StreamAnswer struct {
	// Class is empty if the stream is served.
	Class StreamFailure `json:"class,omitempty"`
	// Message is the failure in words, with what to do next.
	Message string `json:"message,omitempty"`
}

// FailStream makes a failure.
func FailStream(class StreamFailure, format string, args ...any) *StreamAnswer {
	return &StreamAnswer{Class: class, Message: fmt.Sprintf(format, args...)}
}

// Error makes a failure an error.
func (a *StreamAnswer) Error() string { return a.Message }

// Validate bounds the words. A failure that is not known counts as
// StreamUnavailable.
func (a *StreamAnswer) Validate() error {
	a.Message = Line(a.Message, MaxText)
	switch a.Class {
	case "", StreamUnsupported, StreamInvalid, StreamNotFound, StreamForbidden, StreamBusy, StreamUnavailable:
	default:
		a.Class = StreamUnavailable
	}
	return nil
}

// WriteStreamHeader asks for something.
func WriteStreamHeader(w io.Writer, kind string, request any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request for %s: %w", kind, err)
	}
	return writeLine(w, &StreamHeader{Kind: kind, Request: data})
}

// ReadStreamHeader reads what is asked for.
func ReadStreamHeader(r *bufio.Reader) (*StreamHeader, error) {
	h := &StreamHeader{}
	return h, readLine(r, h)
}

// WriteStreamAnswer answers; a nil failure is none.
func WriteStreamAnswer(w io.Writer, failure *StreamAnswer) error {
	if failure == nil {
		failure = &StreamAnswer{}
	}
	return writeLine(w, failure)
}

// ReadStreamAnswer reads the answer. Its error is a *StreamAnswer if the stream is
// not served.
func ReadStreamAnswer(r *bufio.Reader) error {
	a := &StreamAnswer{}
	if err := readLine(r, a); err != nil {
		return err
	}
	if a.Class != "" {
		return a
	}
	return nil
}

func writeLine(w io.Writer, message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode line: %w", err)
	}
	if len(line) >= MaxStreamHeader {
		return fmt.Errorf("a stream's line of %d bytes: at most %d are allowed", len(line)+1, MaxStreamHeader)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// readLine reads no more than it needs, as far as the peer can tell.
func readLine(r *bufio.Reader, message validator) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxStreamHeader {
			return fmt.Errorf("%w: a stream's line over %d bytes", ErrMalformed, MaxStreamHeader)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if err := json.Unmarshal(line, message); err != nil {
		return fmt.Errorf("%w: a stream's line: %s", ErrMalformed, words(err))
	}
	if err := message.Validate(); err != nil {
		return fmt.Errorf("%w: a stream's line: %w", ErrMalformed, err)
	}
	return nil
}

// FrameType says what a frame of a stream is.
type FrameType byte

// Frames that all kinds of streams have. Types that a reader does not know it
// ignores, which is how streams grow.
const (
	// FrameKeepAlive has no data: the stream is silent, and alive.
	FrameKeepAlive FrameType = 1
	// FrameEnd is the last one; its data is StreamEnd, in JSON.
	FrameEnd FrameType = 2
)

// frameHeader is a type and a length, in bytes.
const frameHeader = 1 + 4

// AppendFrame appends a frame. The data may be MaxStreamData bytes.
func AppendFrame(b []byte, t FrameType, data []byte) []byte {
	b = append(b, byte(t))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// FrameReader reads frames.
type FrameReader struct {
	reader *bufio.Reader
	data   []byte
}

// NewFrameReader reads the frames that come after an answer.
func NewFrameReader(r *bufio.Reader) *FrameReader { return &FrameReader{reader: r} }

// Next reads a frame; its data is valid until the next call. A stream that ends
// without FrameEnd ends with io.EOF, or io.ErrUnexpectedEOF within a frame.
func (f *FrameReader) Next() (t FrameType, data []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(f.reader, header[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length > MaxStreamData {
		return 0, nil, fmt.Errorf("%w: a stream's frame of %d bytes", ErrMalformed, length)
	}
	if int(length) > cap(f.data) {
		f.data = make([]byte, length)
	}
	f.data = f.data[:length]
	if _, err := io.ReadFull(f.reader, f.data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return FrameType(header[0]), f.data, nil
}

// EndReason tells a program why a stream ended.
type EndReason string

// Reasons of ends.
const (
	// ReasonComplete: all that was asked for was sent.
	ReasonComplete EndReason = "complete"
	// ReasonGone: what was followed is not there any more.
	ReasonGone EndReason = "gone"
	// ReasonLimit: the request's own limit was reached, or the operator's.
	ReasonLimit EndReason = "limit"
	// ReasonStopping: the operator stops; what comes after it can go on.
	ReasonStopping EndReason = "stopping"
	// ReasonFailed: something went wrong.
	ReasonFailed EndReason = "failed"
)

// StreamEnd is the last frame of a stream.
type StreamEnd struct {
	Reason EndReason `json:"reason"`
	// Message is the reason in words.
	Message string `json:"message,omitempty"`
}

// Validate bounds the words. A reason that is not known counts as ReasonFailed.
func (e *StreamEnd) Validate() error {
	e.Message = Line(e.Message, MaxText)
	switch e.Reason {
	case ReasonComplete, ReasonGone, ReasonLimit, ReasonStopping, ReasonFailed:
	default:
		e.Reason = ReasonFailed
	}
	return nil
}
