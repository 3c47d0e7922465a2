// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Command devenv runs kubenest on this machine: a management cluster with the
// hub, and workload clusters with an operator each. It is what "make run" starts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/kubenest/kubenest/hack/environment"
)

const usage = `devenv runs kubenest on this machine, as processes on 127.0.0.1.

Usage:
  devenv run [flags]   start a hub and workload clusters, and keep them running until Ctrl-C
  devenv ps [flags]    list the processes of the environment that runs, with their logs

Flags:
%s`

// startTimeout bounds a start, on a slow machine with many clusters too.
const startTimeout = 15 * time.Minute

// stopTimeout bounds the orderly part of a stop.
const stopTimeout = 15 * time.Second

// sameSignal is how far apart two signals may be and still be one: a terminal, a
// make and a wrapper may each pass on what the user meant once.
const sameSignal = 500 * time.Millisecond

type settings struct {
	dir      string
	clusters int
	hubs     int
	reset    bool
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "devenv: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	s := settings{}
	flags := pflag.NewFlagSet("devenv", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.IntVar(&s.clusters, "clusters", 2, "how many workload clusters to run; each takes about 0.6 GB of memory")
	flags.IntVar(&s.hubs, "hubs", 1, "how many hub replicas to run")
	flags.StringVar(&s.dir, "dir", ".kubenest", "folder for everything that the environment keeps")
	flags.BoolVar(&s.reset, "reset", false, "throw away what the folder holds, and start afresh")
	flags.Usage = func() { fmt.Printf(usage, flags.FlagUsagesWrapped(100)) }
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	switch {
	case flags.NArg() != 1:
		flags.Usage()
		return errors.New("say 'run' or 'ps'")
	case flags.Arg(0) == "ps":
		table, err := environment.Listing(s.dir)
		fmt.Print(table)
		return err
	case flags.Arg(0) == "run":
		return s.run()
	default:
		return fmt.Errorf("unknown command %q: say 'run' or 'ps'", flags.Arg(0))
	}
}

func (s *settings) validate() error {
	if s.clusters < 0 || s.clusters > 50 {
		return fmt.Errorf("--clusters %d: give a number from 0 to 50", s.clusters)
	}
	if s.hubs < 1 || s.hubs > 5 {
		return fmt.Errorf("--hubs %d: give a number from 1 to 5", s.hubs)
	}
	return nil
}

func (s *settings) run() error {
	if err := s.validate(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the programs, which lie beside this one: %w", err)
	}
	programs := filepath.Dir(self)
	if s.reset {
		if err := environment.Reset(s.dir); err != nil {
			return err
		}
	}
	ctx, hurried, release := interruptible()
	defer release()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	e, err := environment.Start(starting, environment.Options{
		Dir:      s.dir,
		Programs: programs,
		Assets:   filepath.Join(programs, "k8s"),
		Config:   filepath.Join(programs, "..", "config"),
		Clusters: environment.DefaultClusters(s.clusters), HubReplicas: s.hubs,
		Out: os.Stdout,
	})
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	if err := summarize(ctx, e); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "devenv: %v\n", err) // it runs all the same
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(hurried, stopTimeout)
	defer cancel()
	began := time.Now()
	e.Stop(stopping)
	fmt.Printf("stopped in %.1fs; 'make run' goes on from here\n", time.Since(began).Seconds())
	return nil
}

// interruptible makes a context that ends at the first signal, and one that ends
// at the second.
func interruptible() (ctx, hurried context.Context, release func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, stop := context.WithCancelCause(context.Background())
	hurried, hurry := context.WithCancel(context.Background())
	go func() {
		stop(fmt.Errorf("stopped by a signal (%v)", <-signals))
		fmt.Println("stopping; once more (Ctrl-C) to kill everything at once")
		first := time.Now()
		for range signals {
			if time.Since(first) > sameSignal {
				hurry()
			}
		}
	}()
	return ctx, hurried, hurry
}
