// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestRun(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args           []string
		code           int
		stdout, stderr []string
	}{
		"help is grouped":              {[]string{"--help"}, 0, []string{"\nHub:\n", "\nThis cluster:\n", "\nObserving:\n", "--credentials-dir"}, nil},
		"the version":                  {[]string{"--version"}, 0, []string{"\n"}, nil},
		"an unknown flag":              {[]string{"--bogus"}, 2, nil, []string{"--bogus", "--help lists the flags"}},
		"an argument":                  {[]string{"start"}, 2, nil, []string{`unexpected argument "start"`}},
		"settings that can not work":   {[]string{"--watchdog=1s", "--pod-name="}, 2, nil, []string{"--watchdog 1s", "--pod-name must be"}},
		"no cluster":                   {[]string{"--kubeconfig=/nowhere"}, 1, nil, []string{"find the API server of this cluster"}},
		"a value that is of no number": {[]string{"--kube-api-burst=many"}, 2, nil, []string{"--kube-api-burst"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// Not parallel: run sets klog's logger, which the process has one of.
			g := NewWithT(t)
			var stdout, stderr bytes.Buffer
			g.Expect(run(t.Context(), tc.args, &stdout, &stderr)).To(Equal(tc.code), stderr.String())
			for _, want := range tc.stdout {
				g.Expect(stdout.String()).To(ContainSubstring(want))
			}
			for _, want := range tc.stderr {
				g.Expect(stderr.String()).To(ContainSubstring(want))
			}
			for line := range strings.Lines(stdout.String()) {
				g.Expect(len(line)).To(BeNumerically("<=", 112), line)
			}
		})
	}
}
