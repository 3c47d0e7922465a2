// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/hack/process"
)

const (
	soon = 10 * time.Second
	// parentOf makes this test binary start a program and wait to be killed.
	parentOf = "KUBENEST_TEST_PARENT_LOG"
)

func TestMain(m *testing.M) {
	if log := os.Getenv(parentOf); log != "" {
		group := process.NewGroup(nil)
		p := group.New(shell(log, "sleep 600"))
		if err := p.Start(context.Background()); err != nil {
			panic(err)
		}
		fmt.Println(p.PID())
		select {}
	}
	os.Exit(m.Run())
}

func shell(log, script string) process.Spec {
	return process.Spec{Name: "test", Path: "/bin/sh", Args: []string{"-c", script}, LogFile: log, Env: []string{"PATH=/usr/bin:/bin"}}
}

// start starts a script, whose readiness is a line in its log.
func start(t *testing.T, script string) (*process.Group, *process.Process) {
	t.Helper()
	group := process.NewGroup(nil)
	t.Cleanup(func() { group.Stop(context.Background()) })
	spec := shell(filepath.Join(t.TempDir(), "logs", "test.log"), script)
	spec.Grace = time.Second
	p := group.New(spec)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return group, p
}

// gone is a check that a process has ended. An orphan whose new parent does not
// look after it stays in the table, without a command line.
func gone(pid int) func() bool {
	return func() bool {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && len(command) == 0
	}
}

func TestKilledProcessIsStartedAgain(t *testing.T) {
	g := NewWithT(t)
	_, p := start(t, "exec sleep 600")
	first := p.PID()
	p.Kill()
	g.Expect(gone(first)()).To(BeTrue())
	g.Eventually(p.PID).WithTimeout(soon).ShouldNot(BeZero())
	g.Expect(p.PID()).NotTo(Equal(first))
	g.Expect(p.Starts()).To(Equal(2))
}

func TestProcessThatIsHeldDownStaysDown(t *testing.T) {
	g := NewWithT(t)
	_, p := start(t, "exec sleep 600")
	p.Down()
	g.Consistently(p.PID).WithTimeout(2 * time.Second).Should(BeZero())
	g.Expect(p.Start(t.Context())).To(Succeed())
	g.Expect(p.PID()).NotTo(BeZero())
}

func TestStopIsBoundedEvenForOneThatDoesNotListen(t *testing.T) {
	g := NewWithT(t)
	_, p := start(t, "trap '' TERM; while :; do sleep 1; done")
	g.Expect(p.Pause()).To(Succeed(), "nor one that is paused")
	began := time.Now()
	p.Stop(t.Context())
	g.Expect(p.PID()).To(BeZero())
	g.Expect(time.Since(began)).To(BeNumerically("<", soon))
}

func TestEndBeforeReadyTellsWhy(t *testing.T) {
	g := NewWithT(t)
	group := process.NewGroup(nil)
	defer group.Stop(context.Background())
	spec := shell(filepath.Join(t.TempDir(), "test.log"), "echo the disk is full; exit 3")
	spec.Ready = func(context.Context) error { return errors.New("not yet") }
	err := group.New(spec).Start(t.Context())
	g.Expect(err).To(MatchError(And(ContainSubstring("exit status 3"), ContainSubstring("the disk is full"))))
}

func TestStagesStopInOrder(t *testing.T) {
	g := NewWithT(t)
	group := process.NewGroup(nil)
	dir := t.TempDir()
	for stage, name := range []string{"store", "server", "client"} {
		spec := shell(filepath.Join(dir, name+".log"), "trap 'echo "+name+" >> "+filepath.Join(dir, "order")+"; exit' TERM; echo up; while :; do sleep 0.1; done")
		spec.Name, spec.Stage = name, stage
		spec.Ready = func(context.Context) error {
			text, err := os.ReadFile(spec.LogFile)
			if err != nil || !strings.Contains(string(text), "up") {
				return errors.New("not yet")
			}
			return nil
		}
		g.Expect(group.New(spec).Start(t.Context())).To(Succeed())
	}
	group.Stop(t.Context())
	text, err := os.ReadFile(filepath.Join(dir, "order"))
	g.Expect(err).NotTo(HaveOccurred())
	order := strings.Fields(string(text))
	g.Expect(order).To(Equal([]string{"client", "server", "store"}))
	g.Expect(group.New(shell(filepath.Join(dir, "late.log"), "true")).Start(t.Context())).To(MatchError(process.ErrClosed))
}

func TestNothingOutlivesAKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends programs with their parent")
	}
	g := NewWithT(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentOf+"="+filepath.Join(t.TempDir(), "child.log"))
	out, err := parent.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parent.Start()).To(Succeed())
	line, err := bufio.NewReader(out).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gone(pid)()).To(BeFalse())
	g.Expect(parent.Process.Kill()).To(Succeed())
	_ = parent.Wait() // it was killed
	g.Eventually(gone(pid)).WithTimeout(soon).Should(BeTrue())
}
