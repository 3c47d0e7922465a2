// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Golangci-lint is golangci-lint with kube-api-linter compiled in, the program that
// "golangci-lint custom" would generate: written out, so that go.mod pins both of them and a
// build needs no clone of a repository.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"
	_ "sigs.k8s.io/kube-api-linter" // registers the linter "kubeapilinter"
)

const linter = "github.com/golangci/golangci-lint/v2"

func main() {
	if err := commands.Execute(buildInfo()); err != nil {
		fmt.Fprintln(os.Stderr, "golangci-lint:", err)
		os.Exit(exitcodes.Failure)
	}
}

// buildInfo is what "golangci-lint version" prints. The version is that of the module golangci-lint
// comes from, as go.mod pins it; editors read it to know what the configuration may hold.
func buildInfo() commands.BuildInfo {
	info := commands.BuildInfo{Version: "unknown", Commit: "(unknown)", Date: "(unknown)"}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	info.GoVersion = build.GoVersion
	for _, dep := range build.Deps {
		if dep.Path == linter {
			info.Version = strings.TrimPrefix(dep.Version, "v")
			info.Commit = fmt.Sprintf("(module %s, sum %s)", dep.Path, dep.Sum)
		}
	}
	return info
}
