// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Version of the envelope. A receiver refuses others.
const Version = 1

// Type names a message.
type Type string

// Message types. The sender is in the comment.
const (
	TypeHello      Type = "hello"      // operator: Hello
	TypeHeartbeat  Type = "heartbeat"  // operator: Heartbeat
	TypeStored     Type = "stored"     // operator: Stored
	TypeGoodbye    Type = "goodbye"    // operator: Goodbye
	TypeWelcome    Type = "welcome"    // hub: Welcome
	TypeRefused    Type = "refused"    // hub: Refusal
	TypeCredential Type = "credential" // hub: Credential
	TypeTrust      Type = "trust"      // hub: Trust
	TypeMoving     Type = "moving"     // hub: Moving
	TypeChunk      Type = "chunk"      // both: Chunk
	TypeDeliver    Type = "deliver"    // hub: Deliver
	TypeRemove     Type = "remove"     // hub: Remove
	TypeInventory  Type = "inventory"  // operator: Inventory
	TypeDelivered  Type = "delivered"  // operator: Delivered
	TypeRemoved    Type = "removed"    // operator: Removed
	TypeReport     Type = "report"     // operator: Report
	TypeExports    Type = "exports"    // operator: Exports
)

// Envelope is one text frame.
type Envelope struct {
	Version int             `json:"v"`
	Type    Type            `json:"type"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// ErrMalformed is in every error about a frame that is not what the contract
// says. The connection that sent it is closed with EndProtocol.
var ErrMalformed = errors.New("malformed message")

// Encode makes the envelope of a message. The result may exceed MaxFrame; Split
// cuts it.
func Encode(t Type, message any) ([]byte, error) {
	data, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t, err)
	}
	frame, err := json.Marshal(Envelope{Version: Version, Type: t, Data: data})
	if err != nil {
		return nil, fmt.Errorf("encode envelope of %s: %w", t, err)
	}
	return frame, nil
}

// Decode reads one envelope. It does not look into Data.
func Decode(frame []byte) (Envelope, error) {
	var e Envelope
	if err := json.Unmarshal(frame, &e); err != nil {
		return Envelope{}, fmt.Errorf("%w: %s", ErrMalformed, words(err))
	}
	switch {
	case e.Version != Version:
		return Envelope{}, fmt.Errorf("%w: envelope version %d, want %d", ErrMalformed, e.Version, Version)
	case e.Type == "":
		return Envelope{}, fmt.Errorf("%w: envelope without a type", ErrMalformed)
	}
	return e, nil
}

// maxWords bounds what is quoted of an error, in bytes.
const maxWords = 256

// words are an error of encoding/json in bounded words: it can quote a number as
// long as the message.
func words(err error) string { return Line(err.Error(), maxWords) }

// validator is a message that has rules beyond its JSON.
type validator interface{ Validate() error }

// Read decodes an envelope's data into message and checks it. Unknown fields
// are ignored, so that newer senders can be understood.
func (e Envelope) Read(message any) error {
	if len(e.Data) == 0 {
		return fmt.Errorf("%w: %s without data", ErrMalformed, e.Type)
	}
	if err := json.Unmarshal(e.Data, message); err != nil {
		return fmt.Errorf("%w: %s: %s", ErrMalformed, e.Type, words(err))
	}
	if v, ok := message.(validator); ok {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrMalformed, e.Type, err)
		}
	}
	return nil
}
