// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/hack/environment"
)

const (
	// The environment's session timing, short so that tests are.
	heartbeat = time.Second
	deadAfter = 4 * time.Second

	// soon is for what happens at once, on a machine that is busy.
	soon = 15 * time.Second
	// slowEnd is for an operator at the slow end of its backoff: 60 s at most.
	slowEnd = 90 * time.Second
)

var (
	env *environment.Environment
	// suite ends with the suite.
	suite context.Context
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(200 * time.Millisecond)
	config, reporter := GinkgoConfiguration()
	config.Timeout = 25 * time.Minute
	RunSpecs(t, "end to end", config, reporter)
}

func options(dir string) environment.Options {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	Expect(err).NotTo(HaveOccurred())
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(root, "bin", "k8s")
	}
	return environment.Options{
		Dir:      dir,
		Programs: filepath.Join(root, "bin"),
		Assets:   assets,
		Config:   filepath.Join(root, "config"),
		Clusters: environment.DefaultClusters(2),
		HubArgs:  []string{fmt.Sprintf("--heartbeat-interval=%v", heartbeat), fmt.Sprintf("--dead-after=%v", deadAfter)},
		Proxied:  true,
		Out:      GinkgoWriter,
	}
}

var _ = BeforeSuite(func() {
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	suite = ctx //nolint:fatcontext // it is the only one
	dir, err := os.MkdirTemp("", "kubenest-e2e-")
	Expect(err).NotTo(HaveOccurred())
	starting, started := context.WithTimeout(ctx, 5*time.Minute)
	defer started()
	env, err = environment.Start(starting, options(dir))
	Expect(err).NotTo(HaveOccurred())
})

var _ = AfterSuite(func() {
	if env == nil {
		return
	}
	dir := env.Dir()
	leaks := leakedTokens()
	stopping, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	env.Stop(stopping)
	Expect(leaks).To(BeEmpty(), "tokens in logs, Events or statuses")
	Expect(processesOf(dir)).To(BeEmpty(), "processes that outlive their environment")
	if CurrentSpecReport().Failed() || anyFailed {
		GinkgoWriter.Printf("state and logs are kept in %s\n", dir)
		return
	}
	Expect(os.RemoveAll(dir)).To(Succeed())
})

// anyFailed has the logs of a failed run kept.
var anyFailed bool

var _ = ReportAfterEach(func(report SpecReport) {
	if !report.Failed() || env == nil {
		return
	}
	anyFailed = true
	for _, p := range append(append(hubs(), env.Cluster("dev").Operator().Process), env.Cluster("prod").Operator().Process) {
		AddReportEntry(p.Name()+" (process "+strconv.Itoa(p.PID())+")", p.Tail(25), ReportEntryVisibilityFailureOrVerbose)
	}
})

// Each spec begins with everything up and connected, whatever the one before
// left behind.
var _ = BeforeEach(func(ctx SpecContext) {
	Expect(env).NotTo(BeNil(), "the environment could not be started again")
	Expect(env.Management().Start(ctx)).To(Succeed())
	Expect(env.Hub().Start(ctx)).To(Succeed())
	for _, c := range env.Clusters() {
		c.Proxy().Resume()
		Expect(c.Start(ctx)).To(Succeed())
		Expect(c.Operator().Start(ctx)).To(Succeed())
		Eventually(ctx, connected(c)).WithTimeout(slowEnd).Should(Succeed())
	}
}, NodeTimeout(3*time.Minute))

// processesOf finds processes that work on a folder, in whichever state.
func processesOf(dir string) []string {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, file := range files {
		command, err := os.ReadFile(file)
		if err == nil && bytes.Contains(command, []byte(dir)) {
			found = append(found, filepath.Base(filepath.Dir(file))+" "+string(bytes.ReplaceAll(command, []byte{0}, []byte(" "))))
		}
	}
	return found
}
