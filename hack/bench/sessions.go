// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hack/bench/load"
	"github.com/kubenest/kubenest/hack/bench/server"
)

// goalMemory is what a session may cost the process that holds it, in KB.
const goalMemory = 24

// warmUp is how many sessions a server has had before its memory is looked at, so
// that what it makes once is not taken for theirs.
const warmUp = 64

// figures of one server.
type figures struct {
	steps []step
	// opened is how many sessions the last step opened, took and cpu what that cost.
	opened    int
	took, cpu time.Duration
	// natural are the heartbeats of all sessions at their own pace, paced those at a
	// fixed rate, saturated those as fast as it goes.
	natural, paced, saturated use
}

// step is the memory that so many sessions added, in bytes.
type step struct {
	sessions int
	memory
}

// String tells where the memory of a session is.
func (s step) String() string {
	each := func(n int) string { return kilobytes(float64(n) / float64(s.sessions)) }
	return fmt.Sprintf("%s a session at %d: heap %s, stack %s, the rest is the runtime's",
		each(s.settled), s.sessions, each(s.heap), each(s.stacks))
}

// steps are the numbers of sessions at which memory is read.
func (b *bench) steps() []int {
	const first = 1000
	if b.sessions > first {
		return []int{first, b.sessions}
	}
	return []int{b.sessions}
}

// measureSessions measures the servers one after the other.
func (b *bench) measureSessions(ctx context.Context) error {
	var all [3]figures
	for i, kind := range []server.Kind{server.Bare, server.Kubenest, server.Frugal} {
		var err error
		if all[i], err = b.measureServer(ctx, kind); err != nil {
			return err
		}
	}
	bare, kubenest, frugal := all[0], all[1], all[2]
	for i, s := range bare.steps {
		n := float64(s.sessions)
		at := fmt.Sprintf(" at %d sessions", s.sessions)
		r := compared("memory a session"+at, float64(s.settled)/n, float64(kubenest.steps[i].settled)/n, kilobytes)
		r.goal = fmt.Sprintf("≤ %d KB", goalMemory)
		b.rows = append(b.rows, r,
			compared("… before garbage is collected", float64(s.standing)/n, float64(kubenest.steps[i].standing)/n, kilobytes),
			compared("… beside a frugal bare server", float64(frugal.steps[i].settled)/n, float64(kubenest.steps[i].settled)/n, kilobytes))
	}
	rate := func(f *figures) float64 { return float64(f.opened) / f.took.Seconds() }
	each := func(u use) float64 { return float64(u.cpu) / float64(u.heartbeats) }
	share := func(u use) float64 { return 100 * u.cpu.Seconds() / u.took.Seconds() }
	b.rows = append(b.rows,
		compared("sessions accepted a second", rate(&bare), rate(&kubenest), perSecond),
		compared("… server's CPU for one", float64(bare.cpu)/float64(bare.opened), float64(kubenest.cpu)/float64(kubenest.opened), micros),
		compared("heartbeats a second, saturated", float64(bare.saturated.heartbeats)/bare.saturated.took.Seconds(),
			float64(kubenest.saturated.heartbeats)/kubenest.saturated.took.Seconds(), perSecond),
		compared("… server's CPU for one", each(bare.saturated), each(kubenest.saturated), micros),
		compared(fmt.Sprintf("server's CPU a heartbeat at %.0f a second", b.paces.perSecond), each(bare.paced), each(kubenest.paced), micros),
		compared(fmt.Sprintf("CPU of %d sessions at their own pace, of a core", b.sessions), share(bare.natural), share(kubenest.natural), percent))
	for i, name := range []string{"bare", "kubenest", "frugal"} {
		b.note("Memory of the %s server: %v.", name, all[i].steps[len(all[i].steps)-1])
	}
	b.note("Memory is the growth of the server process's VmRSS, divided by the sessions; KB are 1024 bytes. The frugal bare server leaves its handler and has 512-byte buffers.")
	b.note("A session is accepted when TLS 1.3, upgrade, token, hello and welcome are through; the bare server checks no token. The last %d of %d sessions count.", bare.opened, b.sessions)
	b.note("Heartbeats carry figures that moved. Their own pace is one every %[1]v; kubenest also pings each session every %[1]v. Clients and server share the cores, so that rates hold for this machine and the ratios for any.", wire.DefaultTiming.Heartbeat)
	return nil
}

func (b *bench) measureServer(ctx context.Context, kind server.Kind) (f figures, err error) {
	p, err := b.startPair(ctx, string(kind), kind)
	if err != nil {
		return f, err
	}
	defer p.stop(ctx)
	base, err := p.warmUp(ctx)
	if err != nil {
		return f, err
	}
	held := 0
	for _, sessions := range b.steps() {
		f.opened = sessions - held
		if f.took, f.cpu, err = p.open(ctx, f.opened); err != nil {
			return f, err
		}
		held = sessions
		b.say("%s server: %d sessions, the last %d in %.1fs; letting them beat for %v", kind, held, f.opened, f.took.Seconds(), b.paces.settle)
		natural := float64(held) / wire.DefaultTiming.Heartbeat.Seconds()
		if f.natural, err = p.beatProfiled(ctx, "pace", natural, b.paces.settle); err != nil {
			return f, err
		}
		m, err := p.memory(ctx)
		if err != nil {
			return f, err
		}
		s := step{sessions: held, memory: m.since(base)}
		f.steps = append(f.steps, s)
		b.say("%s server: %s", kind, s)
	}
	for _, name := range []string{"heap", "goroutine"} {
		if err := p.profile(ctx, name, name); err != nil {
			return f, err
		}
	}
	if kind == server.Frugal {
		return f, nil
	}
	b.say("%s server: heartbeats", kind)
	if f.paced, err = p.beat(ctx, b.paces.perSecond, b.paces.beat); err != nil {
		return f, err
	}
	f.saturated, err = p.beatProfiled(ctx, "saturated", 0, b.paces.beat)
	return f, err
}

// beatProfiled is beat with a profile of the CPU, if profiles were asked for.
func (p *pair) beatProfiled(ctx context.Context, file string, perSecond float64, lasting time.Duration) (use, error) {
	profiled := make(chan error, 1)
	go func() { profiled <- p.profile(ctx, fmt.Sprintf("profile?seconds=%.0f", lasting.Seconds()), file) }()
	u, err := p.beat(ctx, perSecond, lasting)
	return u, errors.Join(err, <-profiled)
}

// warmUp gives a server some sessions and takes them away. It returns the memory
// that the server has then.
func (p *pair) warmUp(ctx context.Context) (memory, error) {
	if _, _, err := p.open(ctx, warmUp); err != nil {
		return memory{}, err
	}
	if _, err := p.beat(ctx, warmUp, time.Second); err != nil {
		return memory{}, err
	}
	if _, err := p.give(ctx, func(int) load.Order { return load.Order{Close: true} }); err != nil {
		return memory{}, err
	}
	if _, err := p.awaitSessions(ctx, 0); err != nil {
		return memory{}, err
	}
	return p.memory(ctx)
}

// profile writes a profile, if profiles were asked for.
func (p *pair) profile(ctx context.Context, name, file string) error {
	if p.b.profiles == "" {
		return nil
	}
	return p.control.Profile(ctx, name, filepath.Join(p.b.profiles, string(p.kind)+"-"+file+".pprof"))
}
