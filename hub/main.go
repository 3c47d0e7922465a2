// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubenest-hub is the hub: it keeps the records of clusters in the
// management cluster and holds the sessions with their operators.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kubenest/kubenest/api/version"
	"github.com/kubenest/kubenest/hub/setup"
)

func main() {
	options := setup.NewOptions()
	err := parse(options, os.Args[1:], os.Stdout)
	if err == nil {
		log := setup.Logger(options.LogLevel)
		ctrl.SetLogger(log)
		klog.SetLogger(log)
		err = setup.Run(ctrl.SetupSignalHandler(), options, log)
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "kubenest-hub: %v\n", err)
		os.Exit(1)
	}
}

// parse fails with pflag.ErrHelp when all that was asked for has been printed.
func parse(options *setup.Options, args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("kubenest-hub", pflag.ContinueOnError)
	groups := options.FlagGroups()
	for _, g := range groups {
		flags.AddFlagSet(g.Flags)
	}
	showVersion := flags.Bool("version", false, "print the version")
	flags.Usage = func() {
		fmt.Fprintln(out, "kubenest-hub keeps many Kubernetes clusters as records in one, and holds the\nsessions that their operators dial out to it.\n\nUsage:\n  kubenest-hub --external-url=https://hub.example.com [flags]")
		for _, g := range groups {
			fmt.Fprintf(out, "\n%s:\n%s", g.Title, g.Flags.FlagUsagesWrapped(100))
		}
		fmt.Fprintln(out, "\nMore:\n  -h, --help      print this\n      --version   print the version")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *showVersion {
		fmt.Fprintln(out, "kubenest-hub", version.String())
		return pflag.ErrHelp
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: all settings are flags, see --help", flags.Arg(0))
	}
	return options.Validate()
}
