// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// LogRequest asks for the logs of the pods of an App's component, or of all its
// components.
type LogRequest struct {
	// Namespace of the Project on the cluster.
	Namespace string `json:"namespace"`
	// App and Component are the values of the pods' labels; no component is all.
	App       string `json:"app"`
	Component string `json:"component,omitempty"`
	// Pod and Container name a single one; empty is all.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// Follow goes on with what is written from now on, also by pods that come.
	Follow bool `json:"follow,omitempty"`
	// Previous asks for the logs of the containers that ran before the present ones.
	Previous bool `json:"previous,omitempty"`
	// TailLines bounds what is sent of each container's past; nil is all.
	TailLines *int64 `json:"tailLines,omitempty"`
	// SinceSeconds and SinceTime leave out what is older; one of them at most.
	SinceSeconds *int64     `json:"sinceSeconds,omitempty"`
	SinceTime    *time.Time `json:"sinceTime,omitempty"`
	// LimitBytes bounds the text that is sent altogether; 0 is any.
	LimitBytes int64 `json:"limitBytes,omitempty"`
	// Resume says up to where containers have been read: the stream goes on after it,
	// whatever TailLines and the Sinces say, which are for other containers.
	Resume []LogPosition `json:"resume,omitempty"`
}

// LogPosition is a line of a container's log.
type LogPosition struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Time of the line.
	Time time.Time `json:"time"`
	// Lines of exactly that time up to it, itself included.
	Lines int `json:"lines"`
}

// Validate refuses what can't be.
func (r *LogRequest) Validate() error {
	switch {
	case !isObjectName(r.Namespace, maxNamespace):
		return errors.New("the namespace is none")
	case !isID(r.App) || r.Component != "" && !isID(r.Component):
		return errors.New("the app or component is none")
	case r.Pod != "" && !isObjectName(r.Pod, maxObjectName) || r.Container != "" && !isObjectName(r.Container, maxNamespace):
		return errors.New("the pod or container is none")
	case r.SinceSeconds != nil && r.SinceTime != nil:
		return errors.New("sinceSeconds and sinceTime exclude each other")
	case r.SinceSeconds != nil && *r.SinceSeconds < 1:
		return fmt.Errorf("sinceSeconds %d must be above zero", *r.SinceSeconds)
	case r.TailLines != nil && *r.TailLines < 0:
		return fmt.Errorf("tailLines %d must not be below zero", *r.TailLines)
	case r.LimitBytes < 0:
		return fmt.Errorf("limitBytes %d must not be below zero", r.LimitBytes)
	case r.Previous && r.Follow:
		return errors.New("previous and follow exclude each other: what ended writes no more")
	case len(r.Resume) > MaxLogSources:
		return fmt.Errorf("more than %d containers to resume", MaxLogSources)
	}
	for i := range r.Resume {
		p := &r.Resume[i]
		if !isObjectName(p.Pod, maxObjectName) || !isObjectName(p.Container, maxNamespace) || p.Lines < 0 {
			return errors.New("a position to resume at is none")
		}
	}
	return nil
}

// Frames of a stream of logs.
const (
	// FrameLogSource introduces a container; its data is LogSource, in JSON.
	FrameLogSource FrameType = 16
	// FrameLogText is a line, or a piece of one, of a container that was introduced.
	FrameLogText FrameType = 17
	// FrameLogNote is about a container; its data is LogNote, in JSON.
	FrameLogNote FrameType = 18
)

// LogSource is a container whose log is sent.
type LogSource struct {
	// ID names it in the frames that follow.
	ID        uint32 `json:"id"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Component of the pod.
	Component string `json:"component,omitempty"`
}

// Validate bounds the names.
func (s *LogSource) Validate() error {
	if !isObjectName(s.Pod, maxObjectName) || !isObjectName(s.Container, maxNamespace) || s.Component != "" && !isID(s.Component) {
		return errors.New("a log's pod, container or component is none")
	}
	return nil
}

// LogNote says what became of a container, for people.
type LogNote struct {
	// Source is the ID of the container.
	Source uint32 `json:"source"`
	// Message such as "the container ended".
	Message string `json:"message"`
}

// Validate bounds the words.
func (n *LogNote) Validate() error {
	n.Message = Line(n.Message, MaxText)
	return nil
}

// LogText is a line of a log, or a piece of one.
type LogText struct {
	// Source is the ID of the container.
	Source uint32
	// Time at which the line was written.
	Time time.Time
	// Text as the program wrote it, without the line break; any bytes at all.
	Text []byte
	// More: the line goes on in the source's next frame.
	More bool
}

// A LogText is flags, source, seconds and nanoseconds since 1970, and the text.
const (
	logTextHeader = 1 + 4 + 8 + 4
	logTextMore   = 1
)

// AppendLogText appends a frame. The text may be MaxLogText bytes.
func AppendLogText(b []byte, t *LogText) []byte {
	b = append(b, byte(FrameLogText))
	b = binary.BigEndian.AppendUint32(b, uint32(logTextHeader+len(t.Text)))
	flags := byte(0)
	if t.More {
		flags |= logTextMore
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, t.Source)
	b = binary.BigEndian.AppendUint64(b, uint64(t.Time.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(t.Time.Nanosecond()))
	return append(b, t.Text...)
}

// ReadLogText reads the data of a FrameLogText. The text is not copied.
func ReadLogText(data []byte) (*LogText, error) {
	if len(data) < logTextHeader || len(data) > logTextHeader+MaxLogText {
		return nil, fmt.Errorf("%w: a log's line of %d bytes", ErrMalformed, len(data))
	}
	nanos := binary.BigEndian.Uint32(data[13:])
	if nanos >= 1e9 {
		return nil, fmt.Errorf("%w: a log's line at %d nanoseconds", ErrMalformed, nanos)
	}
	return &LogText{
		More:   data[0]&logTextMore != 0,
		Source: binary.BigEndian.Uint32(data[1:]),
		Time:   time.Unix(int64(binary.BigEndian.Uint64(data[5:])), int64(nanos)).UTC(),
		Text:   data[logTextHeader:],
	}, nil
}

// AppendJSONFrame appends a frame whose data is JSON.
func AppendJSONFrame(b []byte, t FrameType, message any) ([]byte, error) {
	data, err := json.Marshal(message)
	if err != nil {
		return b, fmt.Errorf("encode frame %d: %w", t, err)
	}
	return AppendFrame(b, t, data), nil
}

// ReadJSONFrame reads the data of a frame that is JSON, and checks it.
func ReadJSONFrame(data []byte, message validator) error {
	if err := json.Unmarshal(data, message); err != nil {
		return fmt.Errorf("%w: a stream's frame: %s", ErrMalformed, words(err))
	}
	if err := message.Validate(); err != nil {
		return fmt.Errorf("%w: a stream's frame: %w", ErrMalformed, err)
	}
	return nil
}
