// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

var _ = Describe("Claiming a session", func() {
	var (
		h  *hub
		id session.Identity
	)
	BeforeEach(func() {
		h = startHub(clock.RealClock{})
		h.create("shop")
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/NeverConnected"))
		id = identify(h, "shop")
	})

	claim := func(sessionID, process, uid string) (int64, error) {
		return h.authority.Claim(h.ctx, session.Claim{
			Identity: id, SessionID: sessionID, ReceivedAt: time.Now(),
			Hello: wire.Hello{
				Protocol: 1, OperatorVersion: "0.1.0", ClusterUID: uid, Process: process, Time: time.Now().Add(3 * time.Second),
				Facts: wire.Facts{
					KubernetesVersion: "v1.37.2", Nodes: ptr.To[int32](3),
					CPUTotal: ptr.To[int64](24_000), CPUUsed: ptr.To[int64](3_250),
					MemTotal: ptr.To[int64](96 << 30), MemUsed: ptr.To[int64](11 << 30), Source: wire.SourceMetrics,
				},
			},
		})
	}

	It("writes all that is known in one write", func() {
		before := h.get("shop")
		epoch, err := claim("s1", "A", "U1")
		Expect(err).NotTo(HaveOccurred())
		Expect(epoch).To(BeEquivalentTo(1))
		status := h.get("shop").Status
		Expect(status.Phase).To(Equal(kubenestv1.PhaseConnected))
		Expect(status.Reason).To(Equal(kubenestv1.ReasonSessionEstablished))
		Expect(status.ClusterUID).To(Equal("U1"))
		Expect(status.OperatorVersion).To(Equal("0.1.0"))
		Expect(status.KubernetesVersion).To(Equal("v1.37.2"))
		Expect(status.NodeCount).To(HaveValue(BeEquivalentTo(3)))
		Expect(status.Resources.CPUUsed.String()).To(Equal("3250m"))
		Expect(status.Resources.MemTotal.String()).To(Equal("96Gi"))
		Expect(status.Resources.Source).To(Equal("metrics.k8s.io"))
		Expect(status.Columns).To(HaveValue(Equal(kubenestv1.Columns{CPU: "3.2/24", Memory: "11/96 Gi"})))
		Expect(status.Session).To(HaveValue(And(
			HaveField("Replica", replicaName), HaveField("ID", "s1"), HaveField("Epoch", BeEquivalentTo(1)),
			HaveField("Process", "A"), HaveField("TokenGeneration", BeEquivalentTo(1)), HaveField("ClockOffset", "3s"),
		)))
		Expect(h.condition("shop", kubenestv1.ConditionReady)()).To(Equal("True/ClusterReady"))
		Expect(h.condition("shop", kubenestv1.ConditionReconciling)()).To(Equal("absent"))
		Expect(h.condition("shop", kubenestv1.ConditionRegistered)()).To(Equal("True/TokenIssued"), "another writer's condition stays")
		Expect(status.Token).To(Equal(before.Status.Token))
		Eventually(h.reasons("shop")).Should(ConsistOf(kubenestv1.ReasonSessionEstablished, kubenestv1.EventClusterPinned))
	})

	It("counts epochs, also when many claim at once", func() {
		var wg sync.WaitGroup
		epochs := make([]int64, 4)
		for i := range epochs {
			wg.Go(func() {
				defer GinkgoRecover()
				Eventually(func() error {
					var err error
					epochs[i], err = claim("s"+string(rune('a'+i)), "A", "U1")
					return err
				}).Should(Succeed())
			})
		}
		wg.Wait()
		Expect(epochs).To(ConsistOf(BeEquivalentTo(1), BeEquivalentTo(2), BeEquivalentTo(3), BeEquivalentTo(4)))
		Expect(h.get("shop").Status.Session.Epoch).To(BeEquivalentTo(4))
		Consistently(h.reasons("shop"), time.Second).Should(ContainElements(kubenestv1.ReasonSessionEstablished))
	})

	It("refuses another cluster, says so once, and binds it when told to", func() {
		_, err := claim("s1", "A", "U1")
		Expect(err).NotTo(HaveOccurred())
		for range 3 {
			_, err = claim("s2", "X", "U2")
			Expect(err).To(MatchError(And(ContainSubstring("U1"), ContainSubstring("U2"), ContainSubstring("rebind"))))
		}
		Eventually(h.reasons("shop")).Should(ContainElement(kubenestv1.EventIdentityConflict))
		Consistently(h.reasons("shop"), time.Second).Should(HaveExactElements(
			Not(BeNil()), Not(BeNil()), Not(BeNil())), "established, pinned and one conflict")
		Expect(h.get("shop").Status.ClusterUID).To(Equal("U1"))

		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Spec.Rebind = "U2" })
		Eventually(func() error { _, err := claim("s2", "X", "U2"); return err }).Should(Succeed())
		Expect(h.get("shop").Status.ClusterUID).To(Equal("U2"))
		Eventually(h.reasons("shop")).Should(ContainElement(kubenestv1.EventClusterRebound))
		Eventually(func() error { _, err := claim("s1", "A", "U1"); return err }).Should(MatchError(ContainSubstring("conflict")))
	})

	It("refuses a deleted record's operator", func() {
		Expect(api.Delete(h.ctx, h.get("shop"))).To(Succeed())
		Eventually(func() error { _, err := claim("s1", "A", "U1"); return err }).Should(MatchError(ContainSubstring("no record")))
	})

	It("raises the generation to the highest that an operator has shown, as after a rebuild", func() {
		id.Generation = 7
		_, err := claim("s1", "A", "U1")
		Expect(err).NotTo(HaveOccurred())
		Eventually(h.status("shop")).Should(HaveField("Token", HaveValue(HaveField("Generation", BeEquivalentTo(7)))))
	})
})

// claimOf is the claim that the session server would make.
func claimOf(id session.Identity, sessionID string, hello wire.Hello) session.Claim {
	return session.Claim{Identity: id, SessionID: sessionID, Hello: hello, ReceivedAt: time.Now()}
}

// identify is the identity that a record's token proves.
func identify(h *hub, name string) session.Identity {
	var id session.Identity
	EventuallyWithOffset(1, func() error {
		var err error
		id, err = h.authority.Authenticate(h.ctx, string(h.secret(name)()["token"]))
		return err
	}).Should(Succeed())
	return id
}
