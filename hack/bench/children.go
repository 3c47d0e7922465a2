// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubenest/kubenest/hack/bench/load"
	"github.com/kubenest/kubenest/hack/bench/server"
	"github.com/kubenest/kubenest/hack/process"
)

const (
	// loaders is how many processes make load.
	loaders = 2
	// dialling is how many sessions each of them opens at once.
	dialling = 32
)

// pair is a server and those who load it, each a process of its own.
type pair struct {
	b       *bench
	kind    server.Kind
	server  *process.Process
	control server.Control
	loaders [loaders]*process.Process
	orders  [loaders]load.Control
}

// startPair starts a server of a kind, and the processes that load it.
func (b *bench) startPair(ctx context.Context, name string, kind server.Kind) (*pair, error) {
	p := &pair{b: b, kind: kind}
	address, err := b.ports.Address(name)
	if err != nil {
		return nil, err
	}
	if p.control.Address, err = b.ports.Address(name + "-control"); err != nil {
		return nil, err
	}
	p.server = b.child(name, func(ctx context.Context) error {
		_, err := p.control.Stats(ctx)
		return err
	}, serveCommand, "--kind="+string(kind), "--address="+address, "--control="+p.control.Address, "--cert="+b.certFile, "--key="+b.keyFile)
	if err := p.server.Start(ctx); err != nil {
		return nil, err
	}
	for i := range p.loaders {
		name := fmt.Sprintf("%s-load-%d", name, i)
		if p.orders[i].Address, err = b.ports.Address(name); err != nil {
			return nil, err
		}
		p.loaders[i] = b.child(name, p.orders[i].Ready, loadCommand, "--server="+address, "--control="+p.orders[i].Address, "--cert="+b.certFile)
		if err := p.loaders[i].Start(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (b *bench) child(name string, ready func(context.Context) error, args ...string) *process.Process {
	return b.group.New(process.Spec{
		Name: name, Path: b.self, Args: args, Env: []string{"HOME=" + b.dir},
		LogFile: filepath.Join(b.dir, "logs", name+".log"), Ready: ready, Stage: 100,
	})
}

// stop ends the pair.
func (p *pair) stop(ctx context.Context) {
	for _, l := range p.loaders {
		if l != nil {
			l.Stop(ctx)
		}
	}
	p.server.Stop(ctx)
}

// give has all loaders do something, and returns what they did together.
func (p *pair) give(ctx context.Context, order func(i int) load.Order) (load.Done, error) {
	var done [loaders]load.Done
	group, ctx := errgroup.WithContext(ctx)
	for i, o := range p.orders {
		group.Go(func() (err error) {
			done[i], err = o.Give(ctx, order(i))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return load.Done{}, fmt.Errorf("%s server: %w; its log ends:\n%s", p.kind, err, p.server.Tail(5))
	}
	all := done[0]
	for _, d := range done[1:] {
		all.Heartbeats += d.Heartbeats
		if d.Began.Before(all.Began) {
			all.Began = d.Began
		}
		if d.Ended.After(all.Ended) {
			all.Ended = d.Ended
		}
	}
	return all, nil
}

// open opens more sessions as fast as it goes, and returns what that took.
func (p *pair) open(ctx context.Context, count int) (took, cpu time.Duration, err error) {
	tokens, err := p.control.Tokens(ctx, count)
	if err != nil {
		return 0, 0, err
	}
	before, err := p.control.Stats(ctx)
	if err != nil {
		return 0, 0, err
	}
	done, err := p.give(ctx, func(i int) load.Order {
		return load.Order{Tokens: tokens[i*count/loaders : (i+1)*count/loaders], Parallel: dialling}
	})
	if err != nil {
		return 0, 0, err
	}
	after, err := p.awaitSessions(ctx, before.Sessions+int64(count))
	return done.Ended.Sub(done.Began), after.CPU - before.CPU, err
}

// beat has heartbeats sent for a time: at a rate, or as fast as it goes if that is
// 0. It returns what the server's process used for them.
func (p *pair) beat(ctx context.Context, perSecond float64, lasting time.Duration) (use, error) {
	before, err := p.control.Stats(ctx)
	if err != nil {
		return use{}, err
	}
	done, err := p.give(ctx, func(int) load.Order { return load.Order{PerSecond: perSecond / loaders, For: lasting} })
	if err != nil {
		return use{}, err
	}
	after, err := p.awaitHeartbeats(ctx, before.Heartbeats+done.Heartbeats)
	if err != nil {
		return use{}, err
	}
	return use{heartbeats: int(done.Heartbeats), cpu: after.CPU - before.CPU, took: done.Ended.Sub(done.Began)}, nil
}

// use is what heartbeats took.
type use struct {
	heartbeats int
	cpu, took  time.Duration
}

// awaitHeartbeats waits until the server has read so many heartbeats.
func (p *pair) awaitHeartbeats(ctx context.Context, heartbeats int64) (server.Stats, error) {
	return p.await(ctx, fmt.Sprintf("%d heartbeats", heartbeats), func(s *server.Stats) bool { return s.Heartbeats >= heartbeats })
}

// awaitSessions waits until the server holds so many sessions.
func (p *pair) awaitSessions(ctx context.Context, sessions int64) (server.Stats, error) {
	return p.await(ctx, fmt.Sprintf("%d sessions", sessions), func(s *server.Stats) bool { return s.Sessions == sessions })
}

func (p *pair) await(ctx context.Context, what string, arrived func(*server.Stats) bool) (server.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		stats, err := p.control.Stats(ctx)
		if err != nil || arrived(&stats) {
			return stats, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return stats, fmt.Errorf("%s server has %d sessions and read %d heartbeats, not %s: %w; its log ends:\n%s",
				p.kind, stats.Sessions, stats.Heartbeats, what, ctx.Err(), p.server.Tail(5))
		}
	}
}

// memory of the server: as it stands, and once its garbage is collected.
func (p *pair) memory(ctx context.Context) (m memory, err error) {
	pid := p.server.PID()
	if m.standing, err = resident(pid); err != nil {
		return m, err
	}
	if err := p.control.Settle(ctx); err != nil {
		return m, err
	}
	if m.settled, err = resident(pid); err != nil {
		return m, err
	}
	stats, err := p.control.Stats(ctx)
	m.heap, m.stacks = int(stats.HeapBytes), int(stats.Stack)
	return m, err
}

// memory of a process in bytes: what is resident as it stands, what is once garbage
// is collected, and of that the heap and the stacks.
type memory struct{ standing, settled, heap, stacks int }

// since is the growth over a process that had settled.
func (m memory) since(base memory) memory {
	return memory{
		standing: m.standing - base.settled, settled: m.settled - base.settled,
		heap: m.heap - base.heap, stacks: m.stacks - base.stacks,
	}
}
