// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

const policyName = "kubenest-managedcluster-rights"

var _ = Describe("Policy "+policyName, func() {
	BeforeEach(func(ctx SpecContext) {
		// A user with every right on records but those of the policy's own verbs.
		for _, o := range []client.Object{
			&rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Namespace: organization, Name: "editor"},
				Rules: []rbacv1.PolicyRule{{
					APIGroups: []string{kubenestv1.GroupVersion.Group}, Resources: []string{"managedclusters"},
					Verbs: []string{"get", "create", "update", "patch"},
				}},
			},
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: organization, Name: "editor"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "editor"},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "editor"}},
			},
		} {
			Expect(client.IgnoreAlreadyExists(admin.Create(ctx, o))).To(Succeed())
		}
		// The API server takes a moment to enforce a new policy.
		Eventually(func() error {
			return clientAs("editor").Create(ctx, record(func(c *kubenestv1.ManagedCluster) { c.Spec.ClusterID = string(uuid.NewUUID()) }), client.DryRunAll)
		}).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
	})

	It("has no expression that the API server doubts", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			var policy admissionregistrationv1.ValidatingAdmissionPolicy
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: policyName}, &policy)).To(Succeed())
			g.Expect(policy.Spec.FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Fail)))
			if policy.Status.TypeChecking != nil {
				g.Expect(policy.Status.TypeChecking.ExpressionWarnings).To(BeEmpty())
			}
		}).Should(Succeed())
	})

	const (
		adopt     = `needs the verb "adopt" on managedclusters.kubenest.io in the whole management cluster`
		floor     = `changing spec.token.floor needs the verb "revoke" on managedclusters.kubenest.io in namespace platform`
		abandoned = `changing spec.abandoned needs the verb "revoke" on managedclusters.kubenest.io in namespace platform`
	)
	setID := func(c *kubenestv1.ManagedCluster) { c.Spec.ClusterID = string(uuid.NewUUID()) }
	setFloor := func(c *kubenestv1.ManagedCluster) { c.Spec.Token = &kubenestv1.TokenSettings{Floor: 3} }
	setAbandoned := func(c *kubenestv1.ManagedCluster) { c.Spec.Abandoned = true }
	nothing := func(*kubenestv1.ManagedCluster) {}

	DescribeTable("on create",
		func(ctx SpecContext, user string, set func(*kubenestv1.ManagedCluster), want string) {
			err := clientAs(user).Create(ctx, record(set))
			expectRefusal(err, user, want)
		},
		Entry("nothing special", "editor", nothing, ""),
		Entry("a clusterID", "editor", setID, adopt),
		Entry("a clusterID, by an organization's admin", "admin", setID, adopt),
		Entry("a clusterID, by a cluster administrator", "", setID, ""),
		Entry("a floor", "editor", setFloor, ""),
		Entry("abandoned", "editor", setAbandoned, ""),
	)

	DescribeTable("on update",
		func(ctx SpecContext, user string, before, change func(*kubenestv1.ManagedCluster), want string) {
			c := record(before)
			Expect(admin.Create(ctx, c)).To(Succeed())
			change(c)
			expectRefusal(clientAs(user).Update(ctx, c), user, want)

			By("leaving everything as it was when it refuses")
			var after kubenestv1.ManagedCluster
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(c), &after)).To(Succeed())
			changed := after.Generation != 1
			Expect(changed).To(Equal(want == ""))
		},
		Entry("nothing special", "editor", nothing, func(c *kubenestv1.ManagedCluster) { c.Spec.Region = "eu" }, ""),
		Entry("a clusterID where there was none", "editor", nothing, setID, adopt),
		Entry("the same, by an organization's admin", "admin", nothing, setID, adopt),
		Entry("the same, by a cluster administrator", "", nothing, setID, ""),
		Entry("something else, with a clusterID set", "editor", setID, func(c *kubenestv1.ManagedCluster) { c.Spec.Region = "eu" }, ""),
		Entry("a floor", "editor", nothing, setFloor, floor),
		Entry("a higher floor", "editor", setFloor, func(c *kubenestv1.ManagedCluster) { c.Spec.Token.Floor++ }, floor),
		Entry("a lower floor", "editor", setFloor, func(c *kubenestv1.ManagedCluster) { c.Spec.Token.Floor-- }, floor),
		Entry("no floor any more", "editor", setFloor, func(c *kubenestv1.ManagedCluster) { c.Spec.Token = nil }, floor),
		Entry("a floor, by an organization's admin", "admin", nothing, setFloor, ""),
		Entry("something else, with a floor set", "editor", setFloor, func(c *kubenestv1.ManagedCluster) { c.Spec.Region = "eu" }, ""),
		Entry("abandoned", "editor", nothing, setAbandoned, abandoned),
		Entry("abandoned, by an organization's admin", "admin", nothing, setAbandoned, ""),
		Entry("no longer abandoned", "editor", setAbandoned, func(c *kubenestv1.ManagedCluster) { c.Spec.Abandoned = false }, abandoned),
	)

	It("takes a right on one record for that record only", func(ctx SpecContext) {
		c, other := record(nothing), record(nothing)
		Expect(admin.Create(ctx, c)).To(Succeed())
		Expect(admin.Create(ctx, other)).To(Succeed())
		Expect(admin.Create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: organization, Name: "revoke-one"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{kubenestv1.GroupVersion.Group}, Resources: []string{"managedclusters"},
				ResourceNames: []string{c.Name}, Verbs: []string{"revoke", "update"},
			}, {
				APIGroups: []string{kubenestv1.GroupVersion.Group}, Resources: []string{"managedclusters"}, Verbs: []string{"update"},
			}},
		})).To(Succeed())
		Expect(admin.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: organization, Name: "revoke-one"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "revoke-one"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "careful"}},
		})).To(Succeed())
		setFloor(c)
		Eventually(func() error { return clientAs("careful").Update(ctx, c) }).Should(Succeed())
		setFloor(other)
		expectRefusal(clientAs("careful").Update(ctx, other), "careful", floor)
	})
})

// record makes a new record, not yet created.
func record(set func(*kubenestv1.ManagedCluster)) *kubenestv1.ManagedCluster {
	c := &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: organization, Name: "c-" + string(uuid.NewUUID())}}
	set(c)
	return c
}

func expectRefusal(err error, user, want string) {
	GinkgoHelper()
	if want == "" {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	Expect(err).To(MatchError(And(ContainSubstring(want), ContainSubstring("user "+user+" does not have"), ContainSubstring("cluster administrator"))))
}

var _ = Describe("Samples", func() {
	It("are all accepted", func(ctx SpecContext) {
		files, err := filepath.Glob("samples/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(len(files)).To(BeNumerically(">=", 7))
		for _, file := range files {
			out, err := kubectl(ctx, "create", "--dry-run=server", "--validate=strict", "-f", file)
			Expect(err).NotTo(HaveOccurred(), "%s: %s", file, out)
			expectDecodes(ctx, file)
		}
	})
})

// expectDecodes checks that a sample says nothing that the Go types do not know.
func expectDecodes(_ context.Context, file string) {
	GinkgoHelper()
	data, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	var kind metav1.TypeMeta
	Expect(yaml.Unmarshal(data, &kind)).To(Succeed(), file)
	Expect(kind.APIVersion).To(Equal(kubenestv1.GroupVersion.String()), file)
	object, err := scheme.New(kind.GroupVersionKind())
	Expect(err).NotTo(HaveOccurred(), file)
	Expect(yaml.UnmarshalStrict(data, object)).To(Succeed(), file)
}
