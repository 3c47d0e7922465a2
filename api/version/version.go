// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version tells the release that a program was built from. The hub and
// the operator show it to each other, in logs and under --version.
package version

import (
	"runtime/debug"

	"github.com/kubenest/kubenest/api/wire"
)

// version is set when a release is linked:
//
//	go build -ldflags "-X github.com/kubenest/kubenest/api/version.version=v1.2.3"
var version string

// String is the release, such as "v1.2.3". Without one it is what the Go
// toolchain noted: the module's version, else the commit, else "dev". It always
// fits into wire.MaxName bytes, since the hello carries it.
func String() string {
	return wire.Shorten(describe(version, debug.ReadBuildInfo), wire.MaxName)
}

func describe(release string, read func() (*debug.BuildInfo, bool)) string {
	if release != "" {
		return release
	}
	info, ok := read()
	if !ok {
		return "dev"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return "dev"
	}
	const short = 12
	suffix := ""
	if settings["vcs.modified"] == "true" {
		suffix = "-dirty"
	}
	return "dev-" + commit[:min(short, len(commit))] + suffix
}
