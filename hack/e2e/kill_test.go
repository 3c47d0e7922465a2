// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/environment"
	"github.com/kubenest/kubenest/hack/process"
)

var _ = Describe("A process that is killed (kill -9)", func() {
	DescribeTable("comes back without a loss of state",
		func(ctx SpecContext, victim func() *process.Process, reconnects ...string) {
			histories := map[string]*history{}
			before := map[string]string{}
			for _, c := range env.Clusters() {
				histories[c.Name()] = watch(c)
				before[c.Name()] = sessionID(record(ctx, c))
			}
			p := victim()
			starts := p.Starts()
			p.Kill()
			Eventually(p.Starts).Should(Equal(starts + 1))
			Expect(p.AwaitReady(ctx)).To(Succeed())
			Expect(env.Management().APIServer().AwaitReady(ctx)).To(Succeed())

			again := map[string]bool{}
			for _, name := range reconnects {
				again[name] = true
				Eventually(ctx, connected(env.Cluster(name), before[name])).Should(Succeed())
			}
			Consistently(ctx, allConnected).WithTimeout(deadAfter + 2*heartbeat).Should(Succeed())
			for _, c := range env.Clusters() {
				if !again[c.Name()] {
					Expect(sessionID(record(ctx, c))).To(Equal(before[c.Name()]), "%s did not have to reconnect", c.Name())
				}
				histories[c.Name()].expectSound()
			}
		},
		Entry("an operator", func() *process.Process { return env.Cluster("dev").Operator().Process }, "dev", SpecTimeout(2*time.Minute)),
		Entry("the hub", func() *process.Process { return env.Hub().Process() }, "dev", "prod", SpecTimeout(2*time.Minute)),
		Entry("a cluster's API server", func() *process.Process { return env.Cluster("dev").APIServer() }, SpecTimeout(2*time.Minute)),
		Entry("a cluster's etcd", func() *process.Process { return env.Cluster("dev").Etcd() }, SpecTimeout(2*time.Minute)),
		Entry("the management cluster's API server", func() *process.Process { return env.Management().APIServer() }, SpecTimeout(2*time.Minute)),
		Entry("the management cluster's etcd", func() *process.Process { return env.Management().Etcd() }, SpecTimeout(2*time.Minute)),
	)
})

var _ = Describe("The management cluster's API server", func() {
	It("can be away for longer than any lease, and no session ends", func(ctx SpecContext) {
		const away = 2 * time.Minute // replicas' Leases last 15 s; after 60 s the hub takes no new session
		histories := map[string]*history{}
		before := map[string]string{}
		for _, c := range env.Clusters() {
			histories[c.Name()] = watch(c)
			before[c.Name()] = sessionID(record(ctx, c))
		}
		env.Management().APIServer().Down()
		connections := func() []int {
			var open []int
			for _, c := range env.Clusters() {
				open = append(open, c.Proxy().Connections())
			}
			return open
		}
		Consistently(connections).WithTimeout(away).Should(HaveEach(BeNumerically(">=", 1)))
		Expect(env.Management().APIServer().Start(ctx)).To(Succeed())
		Consistently(ctx, allConnected).WithTimeout(20 * time.Second).Should(Succeed())
		for _, c := range env.Clusters() {
			Expect(sessionID(record(ctx, c))).To(Equal(before[c.Name()]))
			Expect(histories[c.Name()].Statuses()).To(Equal([]metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}, SpecTimeout(4*time.Minute))
})

var _ = Describe("A hub that restarts within seconds", func() {
	It("leaves no cluster falsely connected whose operator does not come back", func(ctx SpecContext) {
		for _, c := range env.Clusters() {
			Expect(c.Operator().Pause()).To(Succeed())
			DeferCleanup(c.Operator().Resume)
		}
		starts := env.Hub().Process().Starts()
		env.Hub().Process().Kill()
		Eventually(env.Hub().Process().Starts).Should(Equal(starts + 1))
		// The dead hub's leadership lapses after 15 s, and operators have 30 s to
		// connect to another replica.
		for _, c := range env.Clusters() {
			Eventually(ctx, disconnected(c, kubenestv1.ReasonReplicaLost)).WithTimeout(65 * time.Second).Should(Succeed())
		}
		for _, c := range env.Clusters() {
			Expect(c.Operator().Resume()).To(Succeed())
			Eventually(ctx, connected(c)).WithTimeout(slowEnd).Should(Succeed())
		}
	}, SpecTimeout(5*time.Minute))
})

var _ = Describe("An environment that is stopped and started again", func() {
	It("is the one it was", func(ctx SpecContext) {
		type identity struct {
			uid, clusterID, url string
			generation          int64
		}
		identify := func() []identity {
			var all []identity
			for _, c := range env.Clusters() {
				r := record(ctx, c)
				all = append(all, identity{string(r.UID), r.Status.ClusterID, env.Hub().URL(), r.Status.Token.Generation})
			}
			return all
		}
		before, dir := identify(), env.Dir()
		rememberTokens(ctx)
		env.Stop(ctx)
		Expect(processesOf(dir)).To(BeEmpty())
		var err error
		env, err = environment.Start(ctx, options(dir))
		Expect(err).NotTo(HaveOccurred())
		Expect(identify()).To(Equal(before))
	}, SpecTimeout(5*time.Minute))

	It("refuses a second one beside it", func(ctx SpecContext) {
		_, err := environment.Start(ctx, options(env.Dir()))
		Expect(err).To(MatchError(ContainSubstring("runs in %s already, as process", env.Dir())))
	}, SpecTimeout(time.Minute))
})
