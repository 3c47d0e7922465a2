// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubenest-hub is the hub: it keeps the records of clusters in the
// management cluster and holds the sessions with their operators.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kubenest/kubenest/api/version"
	"github.com/kubenest/kubenest/hub/setup"
)

func main() {
	options := setup.NewOptions()
	switch err := parse(options, os.Args[1:]); {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		fail(err)
	}
	log := setup.Logger(options.LogLevel)
	ctrl.SetLogger(log)
	if err := setup.Run(ctrl.SetupSignalHandler(), options, log); err != nil {
		fail(err)
	}
}

func parse(options *setup.Options, args []string) error {
	flags := pflag.NewFlagSet("kubenest-hub", pflag.ContinueOnError)
	groups := options.FlagGroups()
	for _, g := range groups {
		flags.AddFlagSet(g.Flags)
	}
	showVersion := flags.Bool("version", false, "print the version")
	flags.Usage = func() {
		fmt.Println("kubenest-hub keeps many Kubernetes clusters as records in one, and holds the\nsessions that their operators dial out to it.\n\nUsage:\n  kubenest-hub --external-url=https://hub.example.com [flags]")
		for _, g := range groups {
			fmt.Printf("\n%s:\n%s", g.Title, g.Flags.FlagUsagesWrapped(100))
		}
		fmt.Println("\nMore:\n  -h, --help      print this\n      --version   print the version")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *showVersion {
		fmt.Println("kubenest-hub", version.String())
		return pflag.ErrHelp
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: all settings are flags, see --help", flags.Arg(0))
	}
	return options.Validate()
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "kubenest-hub: %v\n", err)
	os.Exit(1)
}
