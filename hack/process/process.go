// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	// Name tells the process from others of its group.
	Name string
	// Path is the program, Args its arguments without the program's name.
	Path string
	Args []string
	// Env is the whole environment; nothing is inherited.
	Env []string
	// LogFile takes standard output and standard error.
	LogFile string
	// Ready returns nil when the program serves; without it, running is enough.
	Ready func(context.Context) error
	// Stage orders the stopping of a group: the highest goes first.
	Stage int
	// Grace is how long the program may take to stop before it is killed, 5 s
	// when unset.
	Grace time.Duration
}

const (
	defaultGrace = 5 * time.Second
	probeEvery   = 100 * time.Millisecond
	// A process that died is started again after a wait that doubles from the
	// first to the last of these, and begins anew when it has lived for a while.
	firstWait, lastWait = time.Second, 20 * time.Second
	longLife            = 30 * time.Second
)

// Process is a program that is kept running from its Start to its Stop.
type Process struct {
	group *Group

	mu     sync.Mutex
	spec   Spec
	run    *run
	wanted bool // start it again when it dies
	starts int
	waits  time.Duration
}

// run is one life of a process.
type run struct {
	command *exec.Cmd
	began   time.Time
	ended   chan struct{}
	err     error // how it ended, once ended is closed
}

func (r *run) alive() bool {
	if r == nil {
		return false
	}
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// Name of the process.
func (p *Process) Name() string { return p.spec.Name }

// LogFile is the path of the process's log.
func (p *Process) LogFile() string { return p.spec.LogFile }

// PID is the id of the running process, 0 when there is none.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.run.alive() {
		return 0
	}
	return p.run.command.Process.Pid
}

// Starts counts how often the program was started.
func (p *Process) Starts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// SetArgs gives the program other arguments, from its next start on.
func (p *Process) SetArgs(args ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spec.Args = args
}

// Args are the program's arguments.
func (p *Process) Args() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spec.Args
}

// Start starts the program if it does not run, and waits until it is ready. A
// program that ends before that is an error with the last lines of its log.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	if !p.run.alive() {
		if err := p.launchLocked(); err != nil {
			p.mu.Unlock()
			return err
		}
	}
	r := p.run
	p.mu.Unlock()
	if err := p.awaitReady(ctx, r); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = true
	return nil
}

func (p *Process) awaitReady(ctx context.Context, r *run) error {
	if p.spec.Ready == nil {
		return nil
	}
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		err := p.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-r.ended:
			return fmt.Errorf("%s ended before it was ready (%w); its log %s ends:\n%s", p.spec.Name, r.err, p.spec.LogFile, p.Tail(8))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w; last answer: %w); its log %s ends:\n%s",
				p.spec.Name, context.Cause(ctx), err, p.spec.LogFile, p.Tail(8))
		case <-ticker.C:
		}
	}
}

func (p *Process) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return p.spec.Ready(ctx)
}

// AwaitReady waits until a process that was started, perhaps by its group after
// a death, serves.
func (p *Process) AwaitReady(ctx context.Context) error {
	return p.awaitReady(ctx, &run{ended: make(chan struct{})})
}

func (p *Process) launchLocked() error {
	if err := os.MkdirAll(filepath.Dir(p.spec.LogFile), 0o700); err != nil {
		return fmt.Errorf("make folder for the log of %s: %w", p.spec.Name, err)
	}
	log, err := openLog(p.spec.LogFile)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", p.spec.Name, err)
	}
	defer log.Close()                                    // the program has its own descriptor
	command := exec.Command(p.spec.Path, p.spec.Args...) //nolint:noctx // it outlives whoever starts it
	command.Env, command.Stdout, command.Stderr = p.spec.Env, log, log
	command.Dir = filepath.Dir(p.spec.LogFile)
	command.SysProcAttr = attributes()
	if err := p.group.spawn(command); err != nil {
		return fmt.Errorf("start %s: %w", p.spec.Name, err)
	}
	r := &run{command: command, began: time.Now(), ended: make(chan struct{})}
	p.run = r
	p.starts++
	go p.watch(r)
	go p.group.changed(Change{Process: p})
	return nil
}

// watch waits for the end of one life, and sees to the next.
func (p *Process) watch(r *run) {
	r.err = r.command.Wait()
	if r.err == nil {
		r.err = errors.New("exit status 0")
	}
	close(r.ended)
	p.mu.Lock()
	again := p.wanted && p.run == r
	if time.Since(r.began) > longLife {
		p.waits = 0
	}
	p.waits = min(max(2*p.waits, firstWait), lastWait)
	wait := p.waits
	p.mu.Unlock()
	if !again {
		return
	}
	p.group.changed(Change{Process: p, Died: r.err})
	time.AfterFunc(wait, func() { p.relaunch(r) })
}

func (p *Process) relaunch(last *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wanted || p.run != last {
		return
	}
	if err := p.launchLocked(); err != nil && !errors.Is(err, ErrClosed) {
		go p.group.changed(Change{Process: p, Died: err})
	}
}

// Kill ends the program as an accident would (SIGKILL): it is started again in a
// moment. It returns when the program is gone.
func (p *Process) Kill() {
	p.mu.Lock()
	r := p.run
	p.mu.Unlock()
	if r.alive() {
		_ = r.command.Process.Kill() // it may just have ended
		<-r.ended
	}
}

// Down ends the program (SIGKILL) and keeps it down until Start.
func (p *Process) Down() {
	p.unwant()
	p.Kill()
}

// Stop asks the program to stop (SIGTERM), kills it when its grace or ctx ends,
// and keeps it down until Start.
func (p *Process) Stop(ctx context.Context) {
	p.unwant()
	p.mu.Lock()
	r, grace := p.run, p.spec.Grace
	p.mu.Unlock()
	if !r.alive() {
		return
	}
	if grace == 0 {
		grace = defaultGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	_ = r.command.Process.Signal(syscall.SIGTERM) // it may just have ended
	_ = r.command.Process.Signal(syscall.SIGCONT) // a paused program hears nothing
	select {
	case <-r.ended:
	case <-timer.C:
		p.Kill()
	case <-ctx.Done():
		p.Kill()
	}
}

// Pause freezes the program (SIGSTOP): its sockets stay open, nobody answers.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	r := p.run
	p.mu.Unlock()
	if !r.alive() {
		return fmt.Errorf("%s does not run", p.spec.Name)
	}
	if err := r.command.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to %s: %w", s, p.spec.Name, err)
	}
	return nil
}

func (p *Process) unwant() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = false
}
