// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestMain plays the other processes, too: bench starts itself.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // controller-runtime's
	if len(os.Args) > 1 && (os.Args[1] == serveCommand || os.Args[1] == loadCommand) {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// The numbers of a quick run mean nothing, and are not looked at: it is about
// whether each can be measured.
func TestQuickRunPrintsTheWholeTable(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	bin, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	g.Expect(err).NotTo(HaveOccurred())
	if _, err := os.Stat(filepath.Join(bin, "kubenest-hub")); err != nil {
		t.Fatalf("%s has no kubenest-hub: run 'make build' first", bin)
	}
	args := []string{"--quick", "--programs", bin, "--profiles", t.TempDir()}
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		args = append(args, "--assets", assets)
	}
	var out, progress bytes.Buffer
	g.Expect(run(ctx, args, &out, &progress)).To(Succeed(), progress.String)
	t.Log(out.String())
	for _, measure := range []string{
		"memory a session", "sessions accepted a second", "heartbeats a second", "CPU a heartbeat",
		"App applied until its Deployment is on its cluster, p99", "Apps applied at once until each of",
		"connected again after kill -9", "reads a cluster a minute", "writes a cluster a minute",
	} {
		g.Expect(out.String()).To(ContainSubstring(measure))
	}
	g.Expect(out.String()).To(ContainSubstring("| ratio |"))
}

func TestTableIsAligned(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	write(&out, []row{
		compared("memory a session", 40<<10, 20<<10, kilobytes),
		compared("time of one", 0, 2500, micros),
		alone("reads", perCluster(0.25)),
	})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	g.Expect(lines).To(HaveLen(5))
	g.Expect(lines[2]).To(ContainSubstring("40.0 KB |  20.0 KB |  0.50 |"))
	g.Expect(lines[3]).To(ContainSubstring("2.5 µs |     – |"), "nothing is divided by zero")
	for _, line := range lines {
		g.Expect([]rune(line)).To(HaveLen(len([]rune(lines[0]))))
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	g := NewWithT(t)
	for args, want := range map[string]string{
		"--sessions=5":     "number from 10",
		"--sessions=90000": "file descriptor",
		"--clusters=0":     "--clusters",
		"--only=speed":     "choose from",
		"extra":            "unexpected argument",
	} {
		_, err := parse([]string{args}, &bytes.Buffer{})
		g.Expect(err).To(MatchError(ContainSubstring(want)), args)
	}
}
