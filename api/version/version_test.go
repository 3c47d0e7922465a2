// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime/debug"
	"testing"

	"github.com/kubenest/kubenest/api/wire"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}}
	cases := map[string]struct {
		release string
		info    *debug.BuildInfo
		want    string
	}{
		"a linked release wins": {
			release: "v1.2.3", info: &debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}}, want: "v1.2.3",
		},
		"a program installed as a module": {
			info: &debug.BuildInfo{Main: debug.Module{Version: "v1.4.0"}}, want: "v1.4.0",
		},
		"a build from a checkout": {
			info: &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: commit}, want: "dev-0123456789ab",
		},
		"a build from a checkout with changes": {
			info: &debug.BuildInfo{Settings: append(commit[:1:1], debug.BuildSetting{Key: "vcs.modified", Value: "true"})},
			want: "dev-0123456789ab-dirty",
		},
		"a build that notes nothing": {info: &debug.BuildInfo{}, want: "dev"},
		"a build without modules":    {want: "dev"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := describe(tc.release, func() (*debug.BuildInfo, bool) { return tc.info, tc.info != nil })
			if got != tc.want {
				t.Errorf("describe() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestStringFitsIntoAHello(t *testing.T) {
	t.Parallel()
	if v := String(); v == "" || len(v) > wire.MaxName {
		t.Errorf("String() = %q", v)
	}
}
