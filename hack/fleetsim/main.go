// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Command fleetsim plays many clusters with their operators against a hub, to see
// what a fleet costs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/fleetsim/fleet"
)

const usage = `fleetsim plays many clusters in one process: real operators, without Kubernetes behind them.

Usage:
  fleetsim --kubeconfig .kubenest/hub.kubeconfig --register --clusters 1000

Flags:
%s`

const (
	progressEvery = 5 * time.Second
	// maxClusters bounds what one run makes in a management cluster.
	maxClusters = 20_000
	// maxDuration bounds a run that is forgotten.
	maxDuration = 24 * time.Hour
	// registerTimeout bounds the registration.
	registerTimeout = 30 * time.Minute
)

type settings struct {
	kubeconfig, namespace, prefix string
	clusters                      int
	register                      bool
	moving                        float64
	duration, ramp                time.Duration
}

func main() {
	log.SetLogger(logr.Discard()) // controller-runtime's
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "fleetsim: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var s settings
	flags := pflag.NewFlagSet("fleetsim", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster (default: as kubectl)")
	flags.IntVar(&s.clusters, "clusters", 100, "how many clusters to play; each needs a connection, so a file descriptor of this process")
	flags.BoolVar(&s.register, "register", false, "create the clusters' records, and the namespace if need be; those that exist are used as they are")
	flags.StringVar(&s.namespace, "namespace", "fleetsim", "organization that holds the records")
	flags.StringVar(&s.prefix, "prefix", "sim", "beginning of the records' names; processes that run at once need different ones")
	flags.Float64Var(&s.moving, "moving", 0, "share of the clusters, 0 to 1, whose usage moves a little at each heartbeat")
	flags.DurationVar(&s.duration, "duration", 10*time.Minute, "how long to play")
	flags.DurationVar(&s.ramp, "ramp", 0, "time over which the operators start; 0 starts all at once")
	flags.Usage = func() { _, _ = fmt.Fprintf(out, usage, flags.FlagUsagesWrapped(100)) }
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: all settings are flags, see --help", flags.Arg(0))
	}
	if err := s.validate(); err != nil {
		return err
	}
	return s.play(ctx, out)
}

func (s *settings) validate() error {
	switch {
	case s.clusters < 1 || s.clusters > maxClusters:
		return fmt.Errorf("--clusters %d: give a number from 1 to %d", s.clusters, maxClusters)
	case s.moving < 0 || s.moving > 1:
		return fmt.Errorf("--moving %v: give a number from 0 to 1", s.moving)
	case s.duration <= 0 || s.duration > maxDuration:
		return fmt.Errorf("--duration %v: give a time of up to %v", s.duration, maxDuration)
	case s.ramp < 0 || s.ramp > s.duration:
		return fmt.Errorf("--ramp %v: give a time within --duration %v", s.ramp, s.duration)
	case s.prefix == "":
		return errors.New("--prefix must not be empty")
	}
	return fleet.CheckDescriptors(s.clusters)
}

func (s *settings) play(ctx context.Context, out io.Writer) error {
	say := sayer(out)
	members, err := s.members(ctx, say)
	if err != nil {
		return err
	}
	f, err := fleet.New(fleet.Options{Members: members, Moving: s.moving, Ramp: s.ramp})
	if err != nil {
		return err
	}
	playing, end := context.WithTimeout(ctx, s.duration)
	defer end()
	// The fleet stops after the summary, in which the clusters are to be connected.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- f.Run(running) }()
	say("starting %d operators", len(members))
	err = watch(playing, f, say)
	if err == nil {
		err = summarize(f, say)
	}
	stop()
	say("the records stay; to delete them: kubectl delete mc -n %s -l %s=%s", s.namespace, fleet.Label, s.prefix)
	return errors.Join(err, <-done)
}

// members are the clusters, registered if that was asked for.
func (s *settings) members(ctx context.Context, say func(string, ...any)) ([]fleet.Member, error) {
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	records := &fleet.Records{Client: c, Namespace: s.namespace, Prefix: s.prefix, Clusters: s.clusters}
	if s.register {
		say("creating the records %s to %s in namespace %s", records.Name(0), records.Name(s.clusters-1), s.namespace)
		if err := records.Register(ctx); err != nil {
			return nil, err
		}
	}
	told := -1
	return records.Members(ctx, func(ready int) {
		if ready != told {
			say("%d of %d have a connection Secret", ready, s.clusters)
			told = ready
		}
	})
}

func (s *settings) client() (client.Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of the management cluster (--kubeconfig): %w", err)
	}
	config.QPS, config.Burst = 200, 400
	config.UserAgent = "kubenest-fleetsim"
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), kubenestv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client of the management cluster: %w", err)
	}
	return c, nil
}

// watch says how it goes until ctx ends.
func watch(ctx context.Context, f *fleet.Fleet, say func(string, ...any)) error {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		stats, err := f.Stats()
		if err != nil {
			return err
		}
		say("%v", stats)
	}
}

func summarize(f *fleet.Fleet, say func(string, ...any)) error {
	stats, err := f.Stats()
	if err != nil {
		return err
	}
	say("played %d clusters for %v: %v", stats.Clusters, stats.Elapsed.Round(time.Second), stats)
	if stats.AllConnected == 0 {
		say("they were never all connected at once")
		return nil
	}
	say("all were connected after %.1fs", stats.AllConnected.Seconds())
	return nil
}

// sayer prints lines with the seconds since now.
func sayer(out io.Writer) func(format string, args ...any) {
	start := time.Now()
	return func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, "[%6.1fs] %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
}
