// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// kubenest-operator runs in a workload cluster and keeps one session with the hub.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/kubenest/kubenest/api/version"
	"github.com/kubenest/kubenest/operator/chart"
	"github.com/kubenest/kubenest/operator/setup"
)

func main() {
	if code, ok := chart.Child(context.Background(), os.Args, os.Stdin, os.Stdout); ok { // before anything else: it is another program
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its surroundings as arguments. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	options := setup.NewOptions()
	groups := options.FlagGroups()
	flags := pflag.NewFlagSet("kubenest-operator", pflag.ContinueOnError)
	flags.Usage = func() {}
	for _, group := range groups {
		flags.AddFlagSet(group.Flags)
	}
	showVersion := flags.Bool("version", false, "print the version and exit")

	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		help(stdout, groups)
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
		fallthrough
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%v\nkubenest-operator --help lists the flags.\n", err)
		return 2
	}
	if *showVersion {
		_, _ = fmt.Fprintln(stdout, version.String())
		return 0
	}
	if err := options.Validate(); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	log := logger(options.LogLevel, stderr)
	klog.SetLogger(log.WithName("client-go"))
	ctrl.SetLogger(log.WithName("controller-runtime"))
	if err := setup.Run(logr.NewContext(ctx, log), options); err != nil {
		log.Error(err, "The operator ended")
		return 1
	}
	log.Info("The operator stopped")
	return 0
}

func help(w io.Writer, groups []setup.FlagGroup) {
	const width = 110
	_, _ = fmt.Fprintln(w, "kubenest-operator runs in a workload cluster and keeps one session with the hub.")
	for _, group := range groups {
		_, _ = fmt.Fprintf(w, "\n%s:\n%s", group.Title, group.Flags.FlagUsagesWrapped(width))
	}
	_, _ = fmt.Fprintln(w, "\nHTTPS_PROXY and NO_PROXY are heeded. --version prints the version.")
}

func logger(level string, w io.Writer) logr.Logger {
	levels := map[string]zapcore.Level{"debug": zapcore.DebugLevel, "error": zapcore.ErrorLevel}
	return zap.New(zap.WriteTo(w), zap.Level(levels[level]), zap.StacktraceLevel(zapcore.PanicLevel))
}
