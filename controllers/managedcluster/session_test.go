// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/kubenest/kubenest/api/socket"
	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

var _ = Describe("A session held here", func() {
	var (
		h     *hub
		front *sessiontest.Hub
	)
	BeforeEach(func() {
		h = startHub(clock.RealClock{})
		front = sessiontest.Serve(GinkgoTB(), h.sessions)
		h.create("shop")
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/NeverConnected"))
	})

	hello := func(process string) wire.Hello {
		hello := sessiontest.Hello()
		hello.Process = process
		hello.Facts = wire.Facts{
			KubernetesVersion: "v1.37.2", Nodes: ptr.To[int32](3), CPUTotal: ptr.To[int64](24_000), CPUUsed: ptr.To[int64](3_000),
			MemTotal: ptr.To[int64](96 << 30), MemUsed: ptr.To[int64](11 << 30), Source: wire.SourceMetrics,
		}
		return hello
	}
	connect := func(process string) *sessiontest.Operator {
		var operator *sessiontest.Operator
		EventuallyWithOffset(1, func() error {
			var err error
			operator, err = front.Connect(h.ctx, string(h.secret("shop")()["token"]), hello(process))
			return err
		}).Should(Succeed())
		return operator
	}
	connected := func() {
		EventuallyWithOffset(1, h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("True/SessionEstablished"))
	}

	It("makes a cluster Connected, and costs no write while nothing moves", func() {
		operator := connect("A")
		connected()
		// The watch has brought all that connecting wrote when the status is at rest.
		var at string
		Eventually(func() bool {
			before := at
			at = h.get("shop").ResourceVersion
			return before == at
		}, 10*time.Second, time.Second).Should(BeTrue())
		for range 20 {
			facts := hello("A").Facts
			facts.CPUUsed = new(*facts.CPUUsed + 10) // far below a step
			Expect(operator.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &facts})).To(Succeed())
		}
		Eventually(func() int64 {
			info, _ := h.sessions.Registry().Lookup(h.get("shop").Status.ClusterID)
			return ptr.Deref(info.Facts.CPUUsed, 0)
		}).Should(BeEquivalentTo(3_010), "the facts arrived")
		Consistently(func() string { return h.get("shop").ResourceVersion }).Should(Equal(at))
	})

	It("shows what the operator cannot mend, and that it could", func() {
		operator := connect("A")
		connected()
		broken := wire.Facts{Error: "The operator may not list nodes: upgrade its chart."}
		Expect(operator.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &broken})).To(Succeed())
		Eventually(h.status("shop")).Should(And(
			HaveField("Phase", kubenestv1.PhaseError), HaveField("Reason", kubenestv1.ReasonOperatorError), HaveField("Message", broken.Error)))
		Expect(h.condition("shop", kubenestv1.ConditionConnected)()).To(Equal("True/SessionEstablished"))
		Expect(h.condition("shop", kubenestv1.ConditionStalled)()).To(Equal("True/OperatorError"))

		facts := hello("A").Facts
		Expect(operator.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &facts})).To(Succeed())
		Eventually(h.status("shop")).Should(HaveField("Phase", kubenestv1.PhaseConnected))
		Eventually(h.condition("shop", kubenestv1.ConditionStalled)).Should(Equal("absent"))
	})

	It("keeps the last figures, and shows none, while the cluster's own API server is away", func() {
		operator := connect("A")
		connected()
		away := wire.Facts{Unreachable: "The operator cannot reach its API server: connection refused."}
		Expect(operator.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &away})).To(Succeed())
		Eventually(h.condition("shop", kubenestv1.ConditionReady)).Should(Equal("Unknown/KubernetesUnreachable"))
		status := h.get("shop").Status
		Expect(status.Phase).To(Equal(kubenestv1.PhaseConnected))
		Expect(status.Message).To(Equal(away.Unreachable))
		Expect(status.NodeCount).To(HaveValue(BeEquivalentTo(3)))
		Expect(status.Resources).NotTo(BeNil())
		Expect(status.Columns).To(BeNil())
	})

	It("says when it was lost, and when the operator was last heard", func() {
		operator := connect("A")
		connected()
		operator.Close(wire.EndGoodbye, "")
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(HavePrefix("False/"))
		status := h.get("shop").Status
		Expect(status.Phase).To(Equal(kubenestv1.PhaseDisconnected))
		Expect(status.Session.Replica).To(BeEmpty())
		Expect(status.Session.LastHeardAt.Time).To(BeTemporally("~", time.Now(), time.Minute))
		Expect(status.Columns).To(BeNil())
		Expect(h.condition("shop", kubenestv1.ConditionReady)()).To(Equal("Unknown/ClusterDisconnected"))

		connect("A")
		connected()
		Expect(h.get("shop").Status.Session.Epoch).To(BeEquivalentTo(2))
	})

	It("turns False when the operator falls silent", func() {
		ws, _, refusal := front.Open(h.ctx, string(h.secret("shop")()["token"]))
		Expect(refusal).NotTo(HaveOccurred())
		// It says hello, and then neither beats nor reads, so that pings have no answer.
		mute := socket.New(ws, socket.Options{})
		Expect(mute.Send(wire.TypeHello, hello("A"))).To(Succeed())
		connected()
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/HeartbeatTimeout"))
	})

	It("is handed over to a newer session without a flap", func() {
		connect("A")
		connected()
		since := h.get("shop").Status.Since
		connect("B")
		Eventually(h.status("shop")).Should(HaveField("Session", HaveValue(And(
			HaveField("Epoch", BeEquivalentTo(2)), HaveField("Process", "B"), HaveField("PreviousProcess", "A")))))
		Consistently(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("True/SessionEstablished"))
		Expect(h.get("shop").Status.Since).To(Equal(since))
		Expect(h.sessions.Registry().Len()).To(Equal(1))
	})

	It("stays, and the other is refused, when two operators of one identity alternate", func() {
		token := string(h.secret("shop")()["token"])
		connect("A")
		connect("B")
		Eventually(func() error { _, err := front.Connect(h.ctx, token, hello("A")); return err }).
			Should(MatchError(ContainSubstring("duplicate")))
		Eventually(h.reasons("shop")).Should(ContainElement(kubenestv1.EventDuplicateOperator))
		Expect(h.get("shop").Status.Session.Process).To(Equal("B"))
	})

	It("goes on while the guard holds its record, so that what is on the cluster can be removed", func() {
		record := h.get("shop")
		record.Finalizers = []string{kubenestv1.InUseFinalizer}
		Expect(api.Update(h.ctx, record)).To(Succeed())
		operator := connect("A")
		connected()
		Expect(api.Delete(h.ctx, h.get("shop"))).To(Succeed())
		Consistently(func() bool {
			_, held := h.sessions.Registry().Lookup(string(record.UID))
			return held
		}).Should(BeTrue())

		By("being told when it is away, and letting it come back")
		operator.Close(wire.EndGoodbye, "")
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(HavePrefix("False/"))
		operator = connect("B")
		connected()

		By("ending with the record")
		Eventually(func() error {
			held := h.get("shop")
			held.Finalizers = nil
			return api.Update(h.ctx, held)
		}).Should(Succeed())
		Expect(operator.End().Ending).To(Equal(wire.EndUnknownCluster))
	})

	It("ends when its record is deleted", func() {
		operator := connect("A")
		connected()
		Expect(api.Delete(h.ctx, h.get("shop"))).To(Succeed())
		Expect(operator.End().Ending).To(Equal(wire.EndUnknownCluster))
	})

	It("ends when its record gets another id, whose token brings it back", func() {
		operator := connect("A")
		connected()
		old := h.secret("shop")()["token"]
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Spec.ClusterID = someID })
		Expect(operator.End().Ending).To(Equal(wire.EndUnknownCluster))
		Eventually(h.condition("shop", kubenestv1.ConditionConnected), 2*settleTime).Should(HavePrefix("False/"))
		Eventually(h.secret("shop")).ShouldNot(HaveKeyWithValue("token", old))
		_, err := h.authority.Authenticate(h.ctx, string(old))
		Expect(err).To(MatchError(ContainSubstring("unknown_cluster")))
		connect("A")
		connected()
		Expect(h.get("shop").Status.ClusterID).To(Equal(someID))
	})

	It("ends when its token is revoked, and comes back with the new one", func() {
		operator := connect("A")
		connected()
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Spec.Token = &kubenestv1.TokenSettings{Floor: 2} })
		Expect(operator.End().Ending).To(Equal(wire.EndRevoked))
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/TokenRevoked"))
		connect("A")
		connected()
	})

	It("gives way to a session of a higher epoch elsewhere", func() {
		operator := connect("A")
		connected()
		elsewhere := NewAuthority(h.authority.AuthorityOptions)
		elsewhere.Replica = "hub-1/boot7"
		Eventually(func() error {
			_, err := elsewhere.Claim(h.ctx, claimOf(identify(h, "shop"), "s9", hello("A")))
			return err
		}).Should(Succeed())
		Expect(operator.End().Ending).To(Equal(wire.EndReplaced))
		Consistently(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("True/SessionEstablished"))
		Expect(h.get("shop").Status.Session.Replica).To(Equal("hub-1/boot7"))
	})

	It("is claimed again when a restored API server has forgotten it", func() {
		connect("A")
		connected()
		id := h.get("shop").Status.ClusterID
		info, _ := h.sessions.Registry().Lookup(id)
		// What a backup from before the connection holds.
		forgotten := h.get("shop")
		forgotten.Status.Session, forgotten.Status.ClusterUID = nil, ""
		Expect(api.Status().Update(h.ctx, forgotten)).To(Succeed())
		Eventually(h.status("shop"), 2*settleTime).Should(HaveField("Session", HaveValue(And(
			HaveField("ID", info.SessionID), HaveField("Epoch", info.Epoch)))))
		Expect(h.get("shop").Status.ClusterUID).To(Equal("kube-system-uid"))
	})

	It("ends when a restored API server knows its record as another cluster's", func() {
		operator := connect("A")
		connected()
		restored := h.get("shop")
		restored.Status.Session, restored.Status.ClusterUID = nil, "another-uid"
		Expect(api.Status().Update(h.ctx, restored)).To(Succeed())
		Eventually(operator.Done(), 2*settleTime).Should(BeClosed())
		Expect(operator.End().Ending).To(Equal(wire.EndRefused))
	})

	It("is claimed again when the leader took its replica for lost", func() {
		connect("A")
		connected()
		info, _ := h.sessions.Registry().Lookup(h.get("shop").Status.ClusterID)
		record := h.get("shop")
		setDisconnected(record, &record.Status, kubenestv1.ReasonReplicaLost, "Gone.", nil, metav1.Now().Rfc3339Copy())
		Expect(api.Status().Update(h.ctx, record)).To(Succeed())
		Eventually(h.status("shop"), 2*settleTime).Should(HaveField("Session", HaveValue(And(
			HaveField("ID", info.SessionID), HaveField("Epoch", info.Epoch)))))
		connected()
	})

	It("ends in words that fit into a status, whatever the operator sent", func() {
		operator := connect("A")
		connected()
		nodes := json.RawMessage(`{"facts":{"nodes":1` + strings.Repeat("0", 30<<10) + `}}`)
		Expect(operator.Send(wire.TypeHeartbeat, nodes)).To(Succeed())
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/ProtocolError"))
		Expect(len(h.get("shop").Status.Message)).To(BeNumerically("<", 2*wire.MaxText))
		Eventually(h.reasons("shop")).Should(ContainElement(kubenestv1.ReasonProtocolError), "an Event's note has a limit of its own")
	})

	It("keeps the last figures when an operator connects that has none yet", func() {
		operator := connect("A")
		connected()
		operator.Close(wire.EndGoodbye, "")
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(HavePrefix("False/"))
		_, err := front.Connect(h.ctx, string(h.secret("shop")()["token"]), sessiontest.Hello())
		Expect(err).NotTo(HaveOccurred())
		connected()
		Expect(h.get("shop").Status.NodeCount).To(HaveValue(BeEquivalentTo(3)))
	})

	It("bounds the writes of an operator whose complaint changes all the time", func() {
		operator := connect("A")
		connected()
		const complaints = 2 * complaintsAtOnce
		shown := map[string]bool{}
		for i := range complaints {
			facts := wire.Facts{Error: fmt.Sprintf("It failed in attempt %d.", i)}
			Expect(operator.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &facts})).To(Succeed())
			for since := time.Now(); time.Since(since) < 300*time.Millisecond; {
				shown[h.get("shop").Status.Message] = true
			}
		}
		Expect(shown).NotTo(HaveKey(HaveSuffix("%d.", complaints-1)), "the last one waits its turn")
		Eventually(h.status("shop"), 3*complaintsEvery).Should(HaveField("Message", HaveSuffix("%d.", complaints-1)))
	})
})
