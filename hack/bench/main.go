// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures what sessions cost, beside a bare gorilla server that is
// measured in the same run, and prints one table. It is what "make bench" starts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kubenest/kubenest/hack/bench/load"
	"github.com/kubenest/kubenest/hack/bench/server"
)

// Commands with which bench starts itself as another process.
const (
	serveCommand = "serve"
	loadCommand  = "load"
)

func main() {
	log.SetLogger(logr.Discard()) // controller-runtime's
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// run is the whole program. The table goes to out, and what goes on to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case serveCommand:
			return serve(ctx, args[1:])
		case loadCommand:
			return makeLoad(ctx, args[1:])
		}
	}
	o, err := parse(args, out)
	if err != nil || o == nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("it took longer than --timeout %v", o.timeout))
	defer cancel()
	err = measure(ctx, o, out, progress)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

func serve(ctx context.Context, args []string) error {
	var o server.Options
	flags := pflag.NewFlagSet(serveCommand, pflag.ContinueOnError)
	flags.StringVar((*string)(&o.Kind), "kind", "", "which server")
	flags.StringVar(&o.Address, "address", "", "where sessions are taken")
	flags.StringVar(&o.Control, "control", "", "where the one who measures asks")
	flags.StringVar(&o.CertFile, "cert", "", "certificate")
	flags.StringVar(&o.KeyFile, "key", "", "its key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return server.Run(ctx, o)
}

func makeLoad(ctx context.Context, args []string) error {
	var o load.Options
	flags := pflag.NewFlagSet(loadCommand, pflag.ContinueOnError)
	flags.StringVar(&o.Server, "server", "", "where to connect")
	flags.StringVar(&o.Control, "control", "", "where orders are taken")
	flags.StringVar(&o.CertFile, "cert", "", "the server's certificate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return load.Run(ctx, o)
}

const usage = `bench measures what sessions and deployments cost, beside a floor in the same run: a bare
gorilla server, and applying to a cluster directly.

Usage:
  bench [flags]

Flags:
%s`

// Parts of the table.
const (
	partSessions = "sessions"
	partRestart  = "restart"
	partIdle     = "idle"
	partApps     = "apps"
	partFleet    = "fleet"
)

// parts are all of them.
var parts = []string{partSessions, partRestart, partIdle, partApps, partFleet}

// options of a run.
type options struct {
	// sessions is how many there are at most, clusters how many records a real hub has.
	sessions, clusters int
	only               []string
	quick              bool
	// programs is the folder of kubenest-hub, assets that of the control plane, config
	// that of the manifests.
	programs, assets, config string
	profiles                 string
	timeout                  time.Duration
	paces                    paces
}

// paces are how long things are looked at.
type paces struct {
	// settle is how long sessions beat before memory is read.
	settle time.Duration
	// beat is how long heartbeats are measured, perSecond at what fixed rate.
	beat      time.Duration
	perSecond float64
	// idle is how long requests are counted.
	idle time.Duration
	// apps is how many Apps are deployed to a real cluster, fleet to how many simulated
	// ones.
	apps, fleet int
}

// parse reads the flags. It returns nil if there is nothing to do.
func parse(args []string, out io.Writer) (*options, error) {
	o := &options{paces: paces{settle: 30 * time.Second, beat: 20 * time.Second, perSecond: 2000, idle: time.Minute, apps: 100, fleet: 500}}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the programs, which lie beside this one: %w", err)
	}
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.IntVar(&o.sessions, "sessions", 10_000, "how many sessions to hold at most")
	flags.IntVar(&o.clusters, "clusters", 1000, "how many clusters a real hub gets")
	flags.StringSliceVar(&o.only, "only", parts, "what to measure")
	flags.BoolVar(&o.quick, "quick", false, "small and short, to see that it works; the numbers mean nothing")
	flags.StringVar(&o.profiles, "profiles", "", "folder in which to write profiles of the session server")
	flags.StringVar(&o.programs, "programs", filepath.Dir(self), "folder of kubenest-hub and kubenest-operator")
	flags.StringVar(&o.assets, "assets", "", "folder of etcd and kube-apiserver (default: k8s in --programs)")
	flags.StringVar(&o.config, "config", "", "folder of the project's manifests (default: config beside --programs)")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Minute, "when to give up")
	flags.Usage = func() { _, _ = fmt.Fprintf(out, usage, flags.FlagUsagesWrapped(100)) }
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil, nil //nolint:nilnil // help has been given, and there is nothing to do
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q: all settings are flags, see --help", flags.Arg(0))
	}
	if o.quick {
		o.sessions, o.clusters = min(o.sessions, 200), min(o.clusters, 30)
		o.paces = paces{settle: time.Second, beat: time.Second, perSecond: 500, idle: 5 * time.Second, apps: 5, fleet: 20}
	}
	if o.assets == "" {
		o.assets = filepath.Join(o.programs, "k8s")
	}
	if o.config == "" {
		o.config = filepath.Join(o.programs, "..", "config")
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	return o, nil
}

// maxSessions is what a process may have files for, and a client ports to one
// address.
const maxSessions = 19_000

func (o *options) validate() error {
	if o.sessions < 10 || o.sessions > maxSessions {
		return fmt.Errorf("--sessions %d: give a number from 10 to %d, for the server needs a file descriptor for each", o.sessions, maxSessions)
	}
	if o.clusters < 1 || o.clusters > 10_000 {
		return fmt.Errorf("--clusters %d: give a number from 1 to 10000", o.clusters)
	}
	for _, part := range o.only {
		if !slices.Contains(parts, part) {
			return fmt.Errorf("--only %s: choose from %s", part, strings.Join(parts, ", "))
		}
	}
	return nil
}
