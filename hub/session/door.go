// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "sync"

// door is where connections come in. It counts the goroutines that Close has to
// wait for.
type door struct {
	mu     sync.Mutex
	closed bool           // for good
	why    string         // nobody may enter now; empty if they may
	inside sync.WaitGroup // first entered under mu, so not while Close waits
}

// enter counts a goroutine in, unless sessions are not accepted, and says why.
func (d *door) enter() (why string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return "it is stopping", false
	case d.why != "":
		return d.why, false
	}
	d.inside.Add(1)
	return "", true
}

// another counts one more in, brought by one that is inside.
func (d *door) another() { d.inside.Add(1) }

func (d *door) leave() { d.inside.Done() }

// set says why nobody may enter, and reports whether that is new.
func (d *door) set(why string) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = d.why != why
	d.why = why
	return changed
}

func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}
