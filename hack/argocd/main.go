// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Argocd is the part of Argo CD that the tests need, in one file: the application controller, the
// repo server with its helper for git's passwords, and a Redis in memory for both, chosen by the
// name it is called by.
//
// It exists so that a test needs neither Docker nor a download: it is built from Argo CD's
// published Go module. build.sh builds it; package hack/argocdtest runs it.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	askpass "github.com/argoproj/argo-cd/v3/cmd/argocd-git-ask-pass/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
)

// program is one of the programs in this binary. Its run reads os.Args, as a main function does.
type program struct {
	name string
	run  func() error
}

var programs = []program{
	{"argocd-application-controller", func() error { return controller.NewCommand().Execute() }},
	{"argocd-repo-server", func() error { return reposerver.NewCommand().Execute() }},
	{"argocd-git-ask-pass", func() error { return askpass.NewCommand().Execute() }},
	{"redis", redis},
}

// called is the variable by which Argo CD's own binary is told what to be. The repo server starts
// "argocd" with it, when git asks for a password.
const called = "ARGOCD_BINARY_NAME"

func main() {
	p, ok := find(os.Getenv(called))
	if !ok {
		p, ok = find(filepath.Base(os.Args[0]))
	}
	if !ok && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		p, ok = find(os.Args[0])
	}
	if !ok {
		fmt.Fprintln(os.Stderr, "this is several programs in one file; say which, or call it by a link with the name:")
		for _, p := range programs {
			fmt.Fprintln(os.Stderr, "  "+p.name)
		}
		os.Exit(2)
	}
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func find(name string) (program, bool) {
	for _, p := range programs {
		if p.name == name {
			return p, true
		}
	}
	return program{}, false
}

// redis serves an address, <host>:<port>, until it is told to end.
func redis() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: redis ADDRESS")
	}
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(os.Args[1]); err != nil {
		return fmt.Errorf("serve redis on %s: %w", os.Args[1], err)
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	return nil
}
