// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
)

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	g := NewWithT(t)
	for args, want := range map[string]string{
		"--clusters=0":      "number from 1",
		"--clusters=100000": "number from 1",
		"--moving=2":        "from 0 to 1",
		"--duration=0":      "--duration",
		"--ramp=1h":         "within --duration",
		"--prefix=":         "--prefix",
		"extra":             "unexpected argument",
	} {
		g.Expect(run(t.Context(), []string{args}, &bytes.Buffer{})).To(MatchError(ContainSubstring(want)), args)
	}
}

func TestHelpNamesAllSettings(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	g.Expect(run(t.Context(), []string{"--help"}, &out)).To(Succeed())
	for _, flag := range []string{"kubeconfig", "clusters", "register", "namespace", "prefix", "moving", "duration", "ramp"} {
		g.Expect(out.String()).To(ContainSubstring("--" + flag))
	}
}
