// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Stack names a StackDeploy of the hub.
type Stack struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Validate bounds the names, so that they can be shown and looked up.
func (s *Stack) Validate() error {
	if !isObjectName(s.Namespace, maxNamespace) || !isObjectName(s.Name, maxObjectName) {
		return errors.New("a StackDeploy's namespace or name is none")
	}
	return nil
}

func (s Stack) String() string { return s.Namespace + "/" + s.Name }

// Longest names in Kubernetes, in bytes.
const (
	maxNamespace  = 63
	maxObjectName = 253
)

// isObjectName accepts lower-case letters, digits, dashes and dots.
func isObjectName(s string, longest int) bool {
	if s == "" || len(s) > longest {
		return false
	}
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && r != '-' && r != '.' {
			return false
		}
	}
	return true
}

// Delivery identifies what was delivered of a StackDeploy of the hub.
type Delivery struct {
	// UID of the hub's object.
	UID string `json:"uid"`
	// Generation of the hub's object.
	Generation int64 `json:"generation"`
	// Digest of the delivery, see Digest.
	Digest string `json:"digest"`
}

// Validate bounds the ids.
func (v *Delivery) Validate() error {
	if !isID(v.UID) || !isID(v.Digest) || v.Generation < 0 {
		return errors.New("uid, generation or digest of a StackDeploy is none")
	}
	return nil
}

// Deliver brings a StackDeploy and what it needs. The operator answers with
// Delivered, and before that the hub sends only so much more.
type Deliver struct {
	Stack
	Delivery
	// Schema is the lowest schema version that keeps every field of Spec.
	Schema int `json:"schema"`
	// Spec is that of the StackDeploy, in JSON.
	Spec json.RawMessage `json:"spec"`
	// Inputs that the spec lists, with their content.
	Inputs []Input `json:"inputs,omitempty"`
}

// Digest of a spec as it is delivered. Inputs are in it by the revisions that the
// spec lists.
func Digest(spec []byte) string {
	sum := sha256.Sum256(spec)
	return hex.EncodeToString(sum[:digestBytes])
}

// digestBytes of SHA-256: two specs of one StackDeploy do not meet by chance.
const digestBytes = 16

// Input is something that travels beside a StackDeploy. Its data must never be
// logged: it may be a secret.
type Input struct {
	Name     string            `json:"name"`
	Kind     string            `json:"kind"`
	Revision string            `json:"revision"`
	Data     map[string][]byte `json:"data"`
}

// Validate bounds a delivery, and repeats nothing of its content.
func (d *Deliver) Validate() error {
	if err := errors.Join(d.Stack.Validate(), d.Delivery.Validate()); err != nil {
		return err
	}
	if len(d.Spec) == 0 || len(d.Inputs) > MaxInputs {
		return fmt.Errorf("a delivery without a spec, or with over %d inputs", MaxInputs)
	}
	for i := range d.Inputs {
		in := &d.Inputs[i]
		if !isObjectName(in.Name, maxObjectName) || !isID(in.Kind) || !isID(in.Revision) {
			return errors.New("an input's name, kind or revision is none")
		}
	}
	return nil
}

// Delivered says that a StackDeploy is stored durably, or why not.
type Delivered struct {
	Stack
	Delivery
	// Failure is empty when it is stored.
	Failure DeliveryFailure `json:"failure,omitempty"`
	// Message is the failure in words.
	Message string `json:"message,omitempty"`
}

// DeliveryFailure is why a delivery was not stored.
type DeliveryFailure string

const (
	// DeliverySchema: the cluster's schema would lose fields of it.
	DeliverySchema DeliveryFailure = "schema"
	// DeliveryInvalid: the cluster's API server refuses it; sending the same again
	// changes nothing.
	DeliveryInvalid DeliveryFailure = "invalid"
	// DeliveryUnavailable: it can't be stored now. The hub tries again later.
	DeliveryUnavailable DeliveryFailure = "unavailable"
)

// Validate bounds the words. A failure of a newer operator's counts as
// DeliveryInvalid.
func (d *Delivered) Validate() error {
	d.Message = Line(d.Message, MaxText)
	switch d.Failure {
	case "", DeliverySchema, DeliveryInvalid, DeliveryUnavailable:
	default:
		d.Failure = DeliveryInvalid
	}
	return errors.Join(d.Stack.Validate(), d.Delivery.Validate())
}

// Remove asks for everything of a StackDeploy to be removed. The operator answers
// with Removed, at once if it knows of none; until then it reports what it waits
// for.
type Remove struct {
	Stack
}

// Removed says that nothing of a StackDeploy is left.
type Removed struct {
	Stack
}

// Inventory is everything that an operator has, sent once after the welcome. Only
// a message that was read whole is one, so that what is not in it is not there.
type Inventory struct {
	Stacks []Held `json:"stacks"`
}

// Held is a StackDeploy that an operator has.
type Held struct {
	Stack
	Delivery
	// Removing is set while it is being removed.
	Removing bool `json:"removing,omitempty"`
}

// Validate bounds the list.
func (i *Inventory) Validate() error {
	if len(i.Stacks) > MaxStacks {
		return fmt.Errorf("an inventory of %d StackDeploys, at most %d are allowed", len(i.Stacks), MaxStacks)
	}
	for n := range i.Stacks {
		held := &i.Stacks[n]
		if err := errors.Join(held.Stack.Validate(), held.Delivery.Validate()); err != nil {
			return err
		}
	}
	return nil
}

// Report is the state of one StackDeploy on its cluster. All of them are sent after
// the inventory, then those that change; of several that wait, only the newest.
type Report struct {
	Stack
	// Delivery that the state is about.
	Delivery
	// Status is that of the operator's StackDeploy, in JSON.
	Status json.RawMessage `json:"status"`
}

// Validate bounds the state.
func (r *Report) Validate() error {
	if len(r.Status) == 0 || len(r.Status) > MaxStatus {
		return fmt.Errorf("a status of %d bytes, want 1 to %d", len(r.Status), MaxStatus)
	}
	return errors.Join(r.Stack.Validate(), r.Delivery.Validate())
}

// Exports are the values of one addon's exports. They are sent as reports are. The
// data must never be logged.
type Exports struct {
	Stack
	// Component is the addon.
	Component string `json:"component"`
	// Revision changes when the data does, and tells nothing of it.
	Revision string `json:"revision"`
	// Data is by export; nil when there are none any more.
	Data map[string][]byte `json:"data,omitempty"`
}

// Validate bounds the values, and repeats none.
func (e *Exports) Validate() error {
	if !isObjectName(e.Component, maxNamespace) || !isID(e.Revision) {
		return errors.New("component or revision of exports is none")
	}
	size := 0
	for name, value := range e.Data {
		if !isID(name) {
			return errors.New("an export's name is none")
		}
		size += len(value)
	}
	if size > MaxExports {
		return fmt.Errorf("exports of %d bytes, at most %d are allowed", size, MaxExports)
	}
	return e.Stack.Validate()
}
