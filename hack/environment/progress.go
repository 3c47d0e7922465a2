// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// stillEvery is how often it is said what a start waits for.
const stillEvery = 10 * time.Second

// progress says what goes on, with the seconds since the start.
type progress struct {
	start time.Time
	done  chan struct{}

	mu      sync.Mutex
	out     io.Writer
	pending []string
}

func newProgress(out io.Writer) *progress {
	p := &progress{start: time.Now(), out: out, done: make(chan struct{})}
	go p.still()
	return p
}

// say prints a line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sayLocked(format, args...)
}

func (p *progress) sayLocked(format string, args ...any) {
	// A reader that is gone must not stop the environment.
	_, _ = fmt.Fprintf(p.out, "[%6.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// step does one thing of a start, and says what it is and how long it took.
func (p *progress) step(what string, do func() error) error {
	began := time.Now()
	p.mu.Lock()
	p.pending = append(p.pending, what)
	p.sayLocked("%s …", what)
	p.mu.Unlock()
	err := do()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, pending := range p.pending {
		if pending == what {
			p.pending = append(p.pending[:i:i], p.pending[i+1:]...)
			break
		}
	}
	if err == nil {
		p.sayLocked("%s: done in %.1fs", what, time.Since(began).Seconds())
	}
	return err
}

// still says now and then what is being waited for.
func (p *progress) still() {
	ticker := time.NewTicker(stillEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		if len(p.pending) > 0 {
			p.sayLocked("still waiting for: %s", strings.Join(p.pending, "; "))
		}
		p.mu.Unlock()
	}
}

func (p *progress) close() { close(p.done) }
