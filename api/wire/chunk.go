// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
)

// Chunk is a piece of an encoded envelope that is larger than MaxFrame.
type Chunk struct {
	// ID tells the messages under way apart; it is unique in a session and
	// direction.
	ID int64 `json:"id"`
	// Index counts the chunks of a message from 0, without gaps.
	Index int `json:"index"`
	// Last marks the last chunk.
	Last bool `json:"last,omitempty"`
	// Data is base64 in JSON, so 4 bytes for 3.
	Data []byte `json:"data"`
}

// chunkData leaves room for base64 (4/3) and for the envelope around it.
const chunkData = (MaxFrame - 256) / 4 * 3

// Split cuts an encoded envelope into frames of at most MaxFrame bytes: itself
// if it fits, else chunks under the given id. next returns nil at the end.
func Split(frame []byte, id int64) (next func() ([]byte, error)) {
	if len(frame) <= MaxFrame {
		return func() ([]byte, error) {
			whole := frame
			frame = nil
			return whole, nil
		}
	}
	index := 0
	return func() ([]byte, error) {
		if len(frame) == 0 {
			return nil, nil
		}
		n := min(chunkData, len(frame))
		c := Chunk{ID: id, Index: index, Last: n == len(frame), Data: frame[:n]}
		frame, index = frame[n:], index+1
		return Encode(TypeChunk, c)
	}
}

// Assembler puts chunked messages together again. The zero value is ready; it
// is not safe for concurrent use.
type Assembler struct {
	parts map[int64]*assembly
	bytes int
}

type assembly struct {
	next int
	data []byte
}

// Add takes a chunk and returns the message that it completes, if it does.
// Errors are ErrMalformed: chunks out of order, too many messages under way, or
// more than MaxMessage bytes in all of them together.
func (a *Assembler) Add(c *Chunk) (message []byte, complete bool, err error) {
	part, known := a.parts[c.ID]
	switch {
	case len(c.Data) == 0:
		return nil, false, fmt.Errorf("%w: empty chunk of message %d", ErrMalformed, c.ID)
	case !known && c.Index != 0:
		return nil, false, fmt.Errorf("%w: message %d begins with chunk %d", ErrMalformed, c.ID, c.Index)
	case !known && len(a.parts) >= MaxAssemblies:
		return nil, false, fmt.Errorf("%w: more than %d chunked messages under way", ErrMalformed, MaxAssemblies)
	case known && c.Index != part.next:
		return nil, false, fmt.Errorf("%w: chunk %d of message %d, want %d", ErrMalformed, c.Index, c.ID, part.next)
	case a.bytes+len(c.Data) > MaxMessage:
		return nil, false, fmt.Errorf("%w: chunked messages over %d bytes", ErrMalformed, MaxMessage)
	}
	if !known {
		part = &assembly{}
		if a.parts == nil {
			a.parts = make(map[int64]*assembly, 1)
		}
		a.parts[c.ID] = part
	}
	part.data = append(part.data, c.Data...)
	part.next++
	a.bytes += len(c.Data)
	if !c.Last {
		return nil, false, nil
	}
	delete(a.parts, c.ID)
	a.bytes -= len(part.data)
	if len(a.parts) == 0 {
		a.parts = nil
	}
	return part.data, true, nil
}
