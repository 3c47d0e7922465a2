// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Controlplane is a Kubernetes control plane in one file: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl and kwok, chosen by the name it is called by.
//
// It exists so that a test or a developer needs neither Docker nor a download: the programs are
// built from their published Go modules, and one binary links their common code once.
// build.sh builds it and lays out the names; README.md has the flags that matter.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// program is one of the programs in this binary. Its run reads os.Args, as a main function does,
// and builds its command only when it is called: several of them register flags, metrics and
// signal handlers as they are constructed, and no two may do so in one process.
type program struct {
	name  string
	about string
	run   func() int
}

var programs = []program{
	{"etcd", "the API server's store", runEtcd},
	{"kube-apiserver", "the Kubernetes API", runAPIServer},
	{"kube-controller-manager", "deployments, garbage collection, namespaces, nodes …", runControllerManager},
	{"kube-scheduler", "pods to nodes", runScheduler},
	{"kubectl", "the command line", runKubectl},
	{"kwok", "fake nodes whose pods say they run", runKwok},
}

func main() {
	if p, ok := find(os.Args[0]); ok {
		os.Exit(p.run())
	}
	if len(os.Args) > 1 {
		if p, ok := find(os.Args[1]); ok {
			os.Args = os.Args[1:]
			os.Exit(p.run())
		}
	}
	usage()
	os.Exit(2)
}

func find(called string) (program, bool) {
	name := strings.TrimSuffix(filepath.Base(called), ".exe")
	for _, p := range programs {
		if p.name == name {
			return p, true
		}
	}
	return program{}, false
}

func usage() {
	self := filepath.Base(os.Args[0])
	fmt.Fprintf(os.Stderr, "%s is several programs in one file. Say which:\n\n  %s PROGRAM [flags]\n\n"+
		"or call it by a link with the program's name. PROGRAM is one of:\n\n", self, self)
	for _, p := range programs {
		fmt.Fprintf(os.Stderr, "  %-24s %s\n", p.name, p.about)
	}
}
