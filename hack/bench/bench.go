// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kubenest/kubenest/hack/ports"
	"github.com/kubenest/kubenest/hack/process"
)

// stopTimeout bounds the orderly part of an end.
const stopTimeout = 15 * time.Second

// bench is one run.
type bench struct {
	options
	self              string
	dir               string
	certFile, keyFile string
	ports             *ports.Book
	group             *process.Group
	progress          io.Writer
	start             time.Time

	rows  []row
	notes []string
}

// measure does what was asked for and prints the table.
func measure(ctx context.Context, o *options, out, progress io.Writer) (err error) {
	b := &bench{options: *o, progress: progress, start: time.Now()}
	if b.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if b.dir, err = os.MkdirTemp("", "kubenest-bench-"); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() {
		if err == nil {
			_ = os.RemoveAll(b.dir)
		} else {
			b.say("the logs are in %s", b.dir)
		}
	}()
	if b.certFile, b.keyFile, err = writeCertificate(b.dir); err != nil {
		return err
	}
	if b.ports, err = ports.Open(filepath.Join(b.dir, "ports.json")); err != nil {
		return err
	}
	if b.profiles != "" {
		if err := os.MkdirAll(b.profiles, 0o700); err != nil {
			return fmt.Errorf("make folder for profiles: %w", err)
		}
	}
	before, used := loadAverage(), readCPUUse()
	if err := b.measureAll(ctx); err != nil {
		return err
	}
	b.print(out, before, used.othersSince())
	return nil
}

// measureAll measures what was asked for. All processes have ended when it returns.
func (b *bench) measureAll(ctx context.Context) error {
	b.group = process.NewGroup(nil)
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		b.group.Stop(stopping)
	}()
	if slices.Contains(b.only, partSessions) {
		if err := b.measureSessions(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(b.only, func(part string) bool { return part == partRestart || part == partIdle || part == partFleet }) {
		if err := b.measureHub(ctx); err != nil {
			return err
		}
	}
	if slices.Contains(b.only, partApps) {
		return b.measureApps(ctx)
	}
	return nil
}

func (b *bench) print(out io.Writer, loadBefore, others string) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	say("")
	say("machine: %s", machine())
	say("load average before: %s; other programs took %s of the machine; the run took %v", loadBefore, others, time.Since(b.start).Round(time.Second))
	if b.quick {
		say("--quick: the numbers mean nothing")
	}
	say("")
	write(out, b.rows)
	say("")
	for _, note := range b.notes {
		say("- %s", note)
	}
}

// say tells what goes on.
func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, "[%6.1fs] %s\n", time.Since(b.start).Seconds(), fmt.Sprintf(format, args...))
}

func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}
