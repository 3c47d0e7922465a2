// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
)

func revision(version int, status common.Status, digest string, rollback int) *helmrelease.Release {
	return &helmrelease.Release{
		Version: version, Labels: map[string]string{digestLabel: digest},
		Info: &helmrelease.Info{Status: status, RollbackRevision: rollback, LastDeployed: time.Unix(1000, 0)},
	}
}

func TestFailures(t *testing.T) {
	const failed, deployed, superseded = common.StatusFailed, common.StatusDeployed, common.StatusSuperseded
	for name, test := range map[string]struct {
		history history
		want    int
		good    int
	}{
		"nothing yet":          {},
		"a first install":      {history: history{revision(1, failed, "d", 0)}, want: 1},
		"twice":                {history: history{revision(2, failed, "d", 0), revision(1, failed, "d", 0)}, want: 2},
		"rolled back":          {history: history{revision(3, deployed, "c", 1), revision(2, failed, "d", 0), revision(1, superseded, "c", 0)}, want: 1, good: 3},
		"something else since": {history: history{revision(3, deployed, "c", 0), revision(2, failed, "d", 0)}, good: 3},
		"interrupted":          {history: history{revision(2, failed, interrupted, 0), revision(1, deployed, "c", 0)}, good: 1},
		"the rollback failed":  {history: history{revision(3, failed, "c", 1), revision(2, failed, "d", 0), revision(1, deployed, "c", 0)}, want: 1, good: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(test.history.failures("d")).To(HaveLen(test.want))
			if good := test.history.good(); test.good > 0 {
				g.Expect(good.Version).To(Equal(test.good))
			} else {
				g.Expect(good).To(BeNil())
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	g := NewWithT(t)
	b := backoff{first: time.Minute, last: 5 * time.Minute}
	for failures, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 3: 4 * time.Minute, 4: 5 * time.Minute, 1000: 5 * time.Minute} {
		g.Expect(b.after(failures)).To(Equal(want), "%d", failures)
	}
	h := history{revision(1, common.StatusFailed, "d", 0)}
	g.Expect(h.due(time.Unix(1059, 0), b)).To(BeFalse())
	g.Expect(h.due(time.Unix(1060, 0), b)).To(BeTrue())
}

func TestHelmLogsNoValues(t *testing.T) {
	g := NewWithT(t)
	var lines string
	log := slog.New(&helmLog{log: funcr.New(func(_, args string) { lines += args + "\n" }, funcr.Options{Verbosity: 1}).V(1)})
	log.Warn("Rollback failed: hunter2", "name", "shop-db", "error", errors.New("hunter2"), "manifest", "hunter2")
	log.With("value", "hunter2").WithGroup("hunter2").Debug("created")
	g.Expect(lines).To(And(ContainSubstring("Rollback failed"), ContainSubstring("shop-db"), ContainSubstring("created")))
	g.Expect(lines).NotTo(ContainSubstring("hunter2"))
}
