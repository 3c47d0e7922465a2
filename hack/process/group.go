// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"sync"
)

// ErrClosed is the answer to a start in a group that was stopped.
var ErrClosed = errors.New("the environment has stopped")

// Group is all programs of an environment.
type Group struct {
	onChange func(Change)
	spawns   chan spawn
	closed   chan struct{}
	close    func()

	mu        sync.Mutex
	processes []*Process
}

// Change is a start of a process, or a death that nobody asked for.
type Change struct {
	Process *Process
	// Died says why the process is gone; nil when it was started.
	Died error
}

type spawn struct {
	command *exec.Cmd
	result  chan error
}

// NewGroup makes an empty group. onChange, which may be nil, is called from
// several goroutines and must not wait for the group's processes.
func NewGroup(onChange func(Change)) *Group {
	g := &Group{onChange: onChange, spawns: make(chan spawn), closed: make(chan struct{})}
	g.close = sync.OnceFunc(func() { close(g.closed) })
	go g.spawner()
	return g
}

// spawner starts all programs from one thread that lives until the group is
// closed. The kernel ends a program together with the thread that started it,
// which is what ends them all when this process is killed. The thread is not
// unlocked at the end, and so ends too, with whatever still runs.
func (g *Group) spawner() {
	runtime.LockOSThread()
	for {
		select {
		case s := <-g.spawns:
			s.result <- s.command.Start()
		case <-g.closed:
			return
		}
	}
}

func (g *Group) spawn(command *exec.Cmd) error {
	s := spawn{command: command, result: make(chan error)}
	select {
	case g.spawns <- s:
		return <-s.result
	case <-g.closed:
		return ErrClosed
	}
}

// New adds a process, which is not started yet.
func (g *Group) New(spec Spec) *Process {
	p := &Process{spec: spec, group: g}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.processes = append(g.processes, p)
	return p
}

// Processes gives all processes in the order in which they were added.
func (g *Group) Processes() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.processes)
}

// Stop stops all processes for good, stage after stage, the highest first. The
// end of ctx hurries it: what runs then is killed.
func (g *Group) Stop(ctx context.Context) {
	defer g.close()
	stages := map[int][]*Process{}
	for _, p := range g.Processes() {
		p.unwant() // nothing comes up again while the others go down
		stages[p.spec.Stage] = append(stages[p.spec.Stage], p)
	}
	order := make([]int, 0, len(stages))
	for stage := range stages {
		order = append(order, stage)
	}
	slices.Sort(order)
	for _, stage := range slices.Backward(order) {
		var group sync.WaitGroup
		for _, p := range stages[stage] {
			group.Go(func() { p.Stop(ctx) })
		}
		group.Wait()
	}
}

func (g *Group) changed(c Change) {
	if g.onChange != nil {
		g.onChange(c)
	}
}
