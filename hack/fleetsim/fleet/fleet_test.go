// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hack/fleetsim/fleet"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

// patience of tests, on a busy machine.
const patience = 30 * time.Second

// members are clusters of a hub.
func members(t *testing.T, hub *agenttest.Hub, n int) []fleet.Member {
	t.Helper()
	all := make([]fleet.Member, n)
	for i := range all {
		id := fmt.Sprintf("6f1c2f0e-0000-4000-8000-%012d", i)
		all[i] = fleet.Member{
			Name:  fmt.Sprintf("sim-%05d", i+1),
			Given: credentials.Given{HubURL: hub.URL, CA: hub.CA, Token: agenttest.Token(t, agenttest.Claims{ClusterID: id, Generation: 1})},
		}
	}
	return all
}

// run runs a fleet until the test ends.
func run(t *testing.T, o fleet.Options) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return f
}

func TestConnectsAllAndCounts(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hub := agenttest.Start(t, nil, nil)
	before := time.Now()
	f := run(t, fleet.Options{Members: members(t, hub, 20), Ramp: 50 * time.Millisecond})

	last, err := f.Await(ctx, before)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(last).To(BeTemporally(">", before))
	stats, err := f.Stats()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stats.Connected).To(Equal(20))
	g.Expect(stats.Attempts).To(HaveKeyWithValue("welcomed", 20))
	g.Expect(stats.AllConnected).To(BeNumerically(">", 0))
	g.Expect(stats.String()).To(HavePrefix("20 of 20 connected; attempts: welcomed 20"))

	uids, processes := map[string]bool{}, map[string]bool{}
	for range 20 {
		s := <-hub.Sessions
		uids[s.Hello.ClusterUID], processes[s.Hello.Process] = true, true
		g.Expect(s.Hello.Facts.Validate()).To(Succeed())
		g.Expect(s.Hello.Facts.Nodes).NotTo(BeNil())
	}
	g.Expect(uids).To(HaveLen(20), "each cluster has its own kube-system namespace")
	g.Expect(processes).To(HaveLen(20))
}

func TestAwaitsNewSessionsAfterALoss(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hub := agenttest.Start(t, nil, nil)
	f := run(t, fleet.Options{Members: members(t, hub, 3)})
	_, err := f.Await(ctx, time.Time{})
	g.Expect(err).NotTo(HaveOccurred())
	uid := map[string]bool{}
	lost := time.Now()
	for range 3 {
		s := <-hub.Sessions
		uid[s.Hello.ClusterUID] = true
		s.Cut()
	}
	last, err := f.Await(ctx, lost)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(last).To(BeTemporally(">", lost))
	for range 3 {
		g.Expect(uid).To(HaveKey((<-hub.Sessions).Hello.ClusterUID), "they come back as the same clusters")
	}
	stats, err := f.Stats()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stats.Endings).To(HaveKeyWithValue("lost", 3))
}

func TestSaysWhatKeepsAClusterAway(t *testing.T) {
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	hub.Answer(wire.Refuse(wire.ClassUnknownCluster, "no such record"))
	f := run(t, fleet.Options{Members: members(t, hub, 2)})
	<-hub.Attempts
	<-hub.Attempts
	g.Eventually(func() (string, error) {
		stats, err := f.Stats()
		return stats.Trouble, err
	}).WithTimeout(patience).Should(ContainSubstring("no such record"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := f.Await(ctx, time.Time{})
	g.Expect(err).To(MatchError(SatisfyAll(ContainSubstring("2 of 2 clusters"), ContainSubstring("enough"))))
}

func TestRefusesMoreClustersThanDescriptors(t *testing.T) {
	g := NewWithT(t)
	var limit syscall.Rlimit
	g.Expect(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)).To(Succeed())
	if limit.Cur > 1<<24 {
		t.Skip("this system has no limit worth the name")
	}
	g.Expect(fleet.CheckDescriptors(int(limit.Cur))).To(MatchError(ContainSubstring("ulimit -n")))
	g.Expect(fleet.CheckDescriptors(10)).To(Succeed())
}
