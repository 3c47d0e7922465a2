// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
	"github.com/kubenest/kubenest/hub/token"
)

const someID = "6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11"

var _ = Describe("Registration", func() {
	var h *hub
	BeforeEach(func() { h = startHub(clock.RealClock{}) })

	verify := func(raw []byte) token.Claims {
		claims, expired, err := h.keys.Keyset().Verify(string(raw), time.Now())
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		ExpectWithOffset(1, expired).To(BeFalse())
		return claims
	}
	registered := func(name string) {
		EventuallyWithOffset(1, h.condition(name, kubenestv1.ConditionRegistered)).Should(Equal("True/TokenIssued"))
	}

	It("gives a record its id and a token that works, and lets it wait for its operator", func() {
		record := h.create("shop")
		registered("shop")
		status := h.get("shop").Status
		Expect(status.ClusterID).To(Equal(string(record.UID)))
		Expect(status.Token.Generation).To(BeEquivalentTo(1))
		Expect(status.Token.Floor).To(BeZero())
		Expect(status.Token.ConnectionSecret).To(Equal("shop-connection"))

		data := h.secret("shop")()
		claims := verify(data["token"])
		Expect(claims.ClusterID).To(Equal(string(record.UID)))
		Expect(claims.Generation).To(BeEquivalentTo(1))
		Expect(status.Token.ExpiresAt.Time).To(BeTemporally("~", claims.ExpiresAt, time.Second))
		Expect(claims.ExpiresAt.Sub(claims.IssuedAt)).To(Equal(DefaultTokenLifetime))
		Expect(string(data["cluster-id"])).To(Equal(string(record.UID)))
		Expect(string(data["hub-url"])).To(Equal("https://hub.example.com"))
		Expect(string(data["ca.crt"])).To(Equal("the CA"))

		Eventually(h.status("shop")).Should(And(
			HaveField("Phase", kubenestv1.PhasePending),
			HaveField("Reason", kubenestv1.ReasonNeverConnected),
			HaveField("Message", ContainSubstring("Secret shop-connection")),
			HaveField("ObservedGeneration", record.Generation),
		))
		Expect(h.condition("shop", kubenestv1.ConditionReconciling)()).To(Equal("True/AwaitingOperator"))
		Expect(h.condition("shop", kubenestv1.ConditionReady)()).To(Equal("False/AwaitingOperator"))
	})

	It("writes a values.yaml with the user's own values merged in", func() {
		h.create("shop", func(r *kubenestv1.ManagedCluster) {
			r.Spec.Operator = &kubenestv1.OperatorSettings{Values: &runtime.RawExtension{
				Raw: []byte(`{"resources":{"limits":{"memory":"256Mi"}},"tolerations":null,
					"hub":{"url":"https://thief.example.com","retries":3},"cluster":"nonsense"}`),
			}}
		})
		registered("shop")
		var values map[string]any
		Expect(yaml.Unmarshal(h.secret("shop")()["values.yaml"], &values)).To(Succeed())
		Expect(values).To(HaveKeyWithValue("resources", HaveKeyWithValue("limits", HaveKeyWithValue("memory", "256Mi"))))
		Expect(values).To(HaveKeyWithValue("tolerations", BeNil()), "null unsets a chart's default")
		Expect(values).To(HaveKeyWithValue("hub", And(
			HaveKeyWithValue("url", "https://hub.example.com"), HaveKeyWithValue("caBundle", "the CA"), HaveKeyWithValue("retries", BeEquivalentTo(3)))),
			"what the hub knows wins")
		Expect(values).To(HaveKeyWithValue("cluster", HaveKeyWithValue("token", string(h.secret("shop")()["token"]))))
	})

	It("revokes when the floor rises, and never lowers it", func() {
		h.create("shop")
		registered("shop")
		old := h.secret("shop")()["token"]
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Spec.Token = &kubenestv1.TokenSettings{Floor: 5} })
		Eventually(h.status("shop")).Should(HaveField("Token", HaveValue(And(
			HaveField("Floor", BeEquivalentTo(5)), HaveField("Generation", BeEquivalentTo(5))))))
		Eventually(h.secret("shop")).ShouldNot(HaveKeyWithValue("token", old))
		Expect(verify(h.secret("shop")()["token"]).Generation).To(BeEquivalentTo(5))
		Eventually(h.reasons("shop")).Should(ContainElement(kubenestv1.EventTokenRevoked))

		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Spec.Token.Floor = 1 })
		Eventually(h.status("shop")).Should(HaveField("ObservedGeneration", BeEquivalentTo(3)))
		Expect(h.get("shop").Status.Token.Floor).To(BeEquivalentTo(5))
		_, err := h.authority.Authenticate(h.ctx, string(old))
		Expect(err).To(MatchError(ContainSubstring("was revoked")))
	})

	It("mends a Secret that was deleted or edited", func() {
		h.create("shop")
		registered("shop")
		before := h.secret("shop")()
		Expect(api.Delete(h.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "shop-connection"}})).To(Succeed())
		Eventually(h.secret("shop")).Should(HaveKey("token"))
		Expect(verify(h.secret("shop")()["token"]).Generation).To(BeEquivalentTo(2))
		verify(before["token"]) // the old one was not revoked

		Eventually(func() error { // the controller may write in between
			var secret corev1.Secret
			if err := api.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: "shop-connection"}, &secret); err != nil {
				return err
			}
			secret.Data["token"] = []byte("nonsense")
			return api.Update(h.ctx, &secret)
		}).Should(Succeed())
		Eventually(h.secret("shop")).ShouldNot(HaveKeyWithValue("token", []byte("nonsense")))
		verify(h.secret("shop")()["token"])
	})

	It("leaves a Secret alone that is somebody else's, and says so", func() {
		foreign := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "shop-connection"},
			Data:       map[string][]byte{"theirs": []byte("untouched")},
		}
		Expect(api.Create(h.ctx, foreign)).To(Succeed())
		h.create("shop")
		Eventually(h.condition("shop", kubenestv1.ConditionRegistered)).Should(Equal("False/TokenIssueFailed"))
		Expect(h.secret("shop")()).To(Equal(map[string][]byte{"theirs": []byte("untouched")}))

		By("writing nothing while it tries again")
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/NeverConnected"), "the other controller has had its say")
		at := h.get("shop").ResourceVersion
		Consistently(func() string { return h.get("shop").ResourceVersion }).Should(Equal(at))
		Expect(h.get("shop").Status.Token.Generation).To(BeEquivalentTo(1), "the token that was never stored counts once")

		By("issuing the token once the Secret is out of the way")
		Expect(api.Delete(h.ctx, foreign)).To(Succeed())
		h.changed()
		registered("shop")
		Expect(verify(h.secret("shop")()["token"]).Generation).To(BeEquivalentTo(1))
	})

	It("issues new tokens when the signing keys no longer verify the old ones", func() {
		h.create("shop")
		registered("shop")
		old := h.secret("shop")()["token"]
		h.keys.replace()
		h.changed()
		Eventually(h.secret("shop")).ShouldNot(HaveKeyWithValue("token", old))
		verify(h.secret("shop")()["token"])
	})

	It("issues new tokens when another key signs, so that the old one can go", func() {
		h.create("shop")
		registered("shop")
		old := h.secret("shop")()["token"]
		h.keys.add()
		h.changed()
		Eventually(h.secret("shop")).ShouldNot(HaveKeyWithValue("token", old))
		Expect(verify(h.secret("shop")()["token"]).KeyID).To(Equal(h.keys.Keyset().SigningKeyID()))
		verify(old) // it works until its key is removed
	})

	It("acts in organizations only", func() {
		var ns corev1.Namespace
		Expect(api.Get(h.ctx, client.ObjectKey{Name: h.namespace}, &ns)).To(Succeed())
		delete(ns.Labels, kubenestv1.OrganizationLabel)
		Expect(api.Update(h.ctx, &ns)).To(Succeed())
		Eventually(func() bool {
			org, _ := clusters.IsOrganization(h.ctx, h.authority.Client, h.namespace)
			return org
		}).Should(BeFalse())

		h.create("shop")
		Eventually(h.condition("shop", kubenestv1.ConditionRegistered)).Should(Equal("False/NotAnOrganization"))
		Eventually(h.status("shop")).Should(And(HaveField("Phase", kubenestv1.PhaseError), HaveField("Message", ContainSubstring("kubectl label namespace"))))
		Expect(h.secret("shop")()).To(BeEmpty())

		ns.Labels[kubenestv1.OrganizationLabel] = "true"
		Expect(api.Update(h.ctx, &ns)).To(Succeed())
		registered("shop")
		Eventually(h.status("shop")).Should(HaveField("Phase", kubenestv1.PhasePending))
	})

	It("lets the older of two records with one id win, until it is deleted", func() {
		withID := func(r *kubenestv1.ManagedCluster) { r.Spec.ClusterID = someID }
		h.create("older", withID)
		registered("older")
		Expect(h.get("older").Status.ClusterID).To(Equal(someID))
		// Creation times have seconds only; a younger record must be younger.
		Eventually(func() time.Time { return time.Now().Truncate(time.Second) }).Should(BeTemporally(">", h.get("older").CreationTimestamp.Time))
		h.create("younger", withID)
		Eventually(h.condition("younger", kubenestv1.ConditionRegistered)).Should(Equal("False/ClusterIDTaken"))
		Eventually(h.status("younger")).Should(HaveField("Phase", kubenestv1.PhaseError))
		Expect(h.secret("younger")()).To(BeEmpty())
		registered("older")

		Expect(api.Delete(h.ctx, h.get("older"))).To(Succeed())
		registered("younger")
	})

	It("gives an abandoned cluster up, and takes it back", func() {
		h.create("shop")
		registered("shop")
		old := h.secret("shop")()["token"]
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Spec.Abandoned = true })
		Eventually(h.condition("shop", kubenestv1.ConditionRegistered)).Should(Equal("False/Abandoned"))
		Eventually(h.secret("shop")).Should(BeEmpty())
		Expect(h.get("shop").Status.Token.Floor).To(BeEquivalentTo(2))
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/Abandoned"))
		_, err := h.authority.Authenticate(h.ctx, string(old))
		Expect(err).To(MatchError(ContainSubstring("given up")))

		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Spec.Abandoned = false })
		registered("shop")
		Expect(verify(h.secret("shop")()["token"]).Generation).To(BeEquivalentTo(2))
		Eventually(h.condition("shop", kubenestv1.ConditionConnected)).Should(Equal("False/NeverConnected"))
	})

	It("has a record that lost its id to an older one say so", func() {
		h.create("older")
		registered("older")
		Eventually(func() time.Time { return time.Now().Truncate(time.Second) }).Should(BeTemporally(">", h.get("older").CreationTimestamp.Time))
		h.create("younger", func(r *kubenestv1.ManagedCluster) { r.Spec.ClusterID = someID })
		registered("younger")
		claims := verify(h.secret("younger")()["token"])
		Eventually(h.condition("younger", kubenestv1.ConditionConnected)).Should(Equal("False/NeverConnected"))
		elsewhere := NewAuthority(h.authority.AuthorityOptions)
		elsewhere.Replica = "hub-1/boot7"
		Eventually(func() error {
			_, err := elsewhere.Claim(h.ctx, claimOf(identityOf(claims, false), "s1", sessiontest.Hello()))
			return err
		}).Should(Succeed())
		Eventually(h.status("younger")).Should(HaveField("Phase", kubenestv1.PhaseConnected))

		h.edit("older", func(r *kubenestv1.ManagedCluster) { r.Spec.ClusterID = someID })
		Eventually(h.condition("younger", kubenestv1.ConditionRegistered)).Should(Equal("False/ClusterIDTaken"))
		Eventually(h.condition("younger", kubenestv1.ConditionConnected)).Should(HavePrefix("False/"))
		Expect(h.get("younger").Status.Phase).To(Equal(kubenestv1.PhaseError))
	})

	It("revokes in a namespace that is no organization any more, too", func() {
		h.create("shop")
		registered("shop")
		var ns corev1.Namespace
		Expect(api.Get(h.ctx, client.ObjectKey{Name: h.namespace}, &ns)).To(Succeed())
		delete(ns.Labels, kubenestv1.OrganizationLabel)
		Expect(api.Update(h.ctx, &ns)).To(Succeed())
		Eventually(h.condition("shop", kubenestv1.ConditionRegistered)).Should(Equal("False/NotAnOrganization"))
		h.edit("shop", func(r *kubenestv1.ManagedCluster) { r.Spec.Token = &kubenestv1.TokenSettings{Floor: 5} })
		Eventually(h.status("shop")).Should(HaveField("Token", HaveValue(HaveField("Floor", BeEquivalentTo(5)))))
	})

	It("writes nothing when there is nothing to change", func() {
		h.create("shop")
		registered("shop")
		Eventually(h.status("shop")).Should(HaveField("Phase", kubenestv1.PhasePending))
		at := h.get("shop").ResourceVersion
		h.changed()
		Consistently(func() string { return h.get("shop").ResourceVersion }).Should(Equal(at))
	})
})
