// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

var _ = Describe("A cluster that no living replica holds", func() {
	var (
		h     *hub
		clock *clocktesting.FakeClock
	)
	const other = "hub-1/boot7"

	// heldElsewhere lets another replica claim the cluster's session.
	heldElsewhere := func(name string) {
		id := identify(h, name)
		elsewhere := NewAuthority(h.authority.AuthorityOptions)
		elsewhere.Replica = other
		_, err := elsewhere.Claim(h.ctx, session.Claim{
			Identity: id, SessionID: "s1", ReceivedAt: time.Now(),
			Hello: wire.Hello{ClusterUID: "U1", Process: "A", Facts: wire.Facts{Nodes: ptr.To[int32](2), CPUTotal: ptr.To[int64](8000)}},
		})
		Expect(err).NotTo(HaveOccurred())
	}

	BeforeEach(func() {
		clock = clocktesting.NewFakeClock(time.Now())
		h = startHub(clock)
		h.create("shop")
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/NeverConnected"))
		heldElsewhere("shop")
		Eventually(clock.HasWaiters).Should(BeTrue(), "the leader looks out for lost replicas")
	})

	It("is left alone while its replica lives", func() {
		clock.Step(time.Hour)
		Consistently(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("True/SessionEstablished"))
	})

	It("may connect elsewhere when its replica is lost, before it is called disconnected", func() {
		h.replicas.kill(other)
		clock.Step(lookEvery)
		Consistently(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("True/SessionEstablished"))
		clock.Step(lostGrace)
		// The look-out has told of the loss; the reconcile that waits out the grace
		// runs on the workqueue's clock, so a change of the record brings it on.
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Labels = map[string]string{"touched": "yes"} })
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/ReplicaLost"))
		status := h.get("shop").Status
		Expect(status.Phase).To(Equal(kubenestv1.PhaseDisconnected))
		Expect(status.Session).To(HaveValue(And(
			HaveField("Replica", ""), HaveField("ID", ""), HaveField("Epoch", BeEquivalentTo(1)), HaveField("Process", "A"))))
		Expect(status.NodeCount).To(HaveValue(BeEquivalentTo(2)), "the last known figures stay")
		Expect(status.Columns).To(BeNil(), "but are not shown as fresh")
		Expect(h.condition("shop", kubenestv1.ConditionReady)()).To(Equal("Unknown/ClusterDisconnected"))
		Eventually(h.reasons("shop")).Should(ContainElement(kubenestv1.ReasonReplicaLost))
	})

	It("keeps its reason while its spec changes", func() {
		h.replicas.kill(other)
		clock.Step(lookEvery)
		Eventually(func() bool { return clock.HasWaiters() }).Should(BeTrue())
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Labels = map[string]string{"touched": "once"} })
		clock.Step(lostGrace + lookEvery)
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Labels = map[string]string{"touched": "twice"} })
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/ReplicaLost"))
		since := h.get("shop").Status.Since
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Spec.Region = "eu-north" })
		Eventually(h.status("shop")).Should(HaveField("ObservedGeneration", BeEquivalentTo(2)))
		Expect(h.get("shop").Status.Since).To(Equal(since))
		Expect(h.condition("shop", kubenestv1.ConditionConnected)()).To(Equal("False/ReplicaLost"))
	})

	It("ignores a status that a stale replica tries to write", func() {
		stale := h.get("shop")
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Labels = map[string]string{"touched": "yes"} })
		desired := stale.Status.DeepCopy()
		setDisconnected(stale, desired, kubenestv1.ReasonSessionClosed, "A late word.", nil, metav1.Now().Rfc3339Copy())
		Expect(h.authority.writer.write(h.ctx, stale, desired)).To(MatchError(ContainSubstring("the object has been modified")))
		Expect(h.condition("shop", kubenestv1.ConditionConnected)()).To(Equal("True/SessionEstablished"))
	})
})
