// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

const inUsePolicy = "kubenest-managedcluster-in-use"

// The API server learns of Projects through a watch, a moment after they are made:
// that is what each Eventually here is for.
var _ = Describe("Policy "+inUsePolicy+", with no hub there", func() {
	var cluster *kubenestv1.ManagedCluster

	project := func(ctx context.Context, change func(*kubenestv1.Project)) *kubenestv1.Project {
		GinkgoHelper()
		p := &kubenestv1.Project{
			ObjectMeta: metav1.ObjectMeta{Namespace: organization, Name: "p-" + string(uuid.NewUUID())},
			Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: cluster.Name}},
		}
		if change != nil {
			change(p)
		}
		Expect(admin.Create(ctx, p)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			p.Finalizers = nil
			_ = admin.Patch(ctx, p, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
			Expect(client.IgnoreNotFound(admin.Delete(ctx, p))).To(Succeed())
		})
		return p
	}
	// attempt asks for the record's deletion without doing it.
	attempt := func(ctx context.Context, user string) func() error {
		return func() error { return clientAs(user).Delete(ctx, cluster, client.DryRunAll) }
	}

	BeforeEach(func(ctx SpecContext) {
		cluster = record(func(*kubenestv1.ManagedCluster) {})
		Expect(admin.Create(ctx, cluster)).To(Succeed())
	})

	It("has no expression that the API server doubts", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			var policy admissionregistrationv1.ValidatingAdmissionPolicy
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: inUsePolicy}, &policy)).To(Succeed())
			g.Expect(policy.Spec.FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Fail)))
			g.Expect(policy.Annotations).To(HaveKey(kubenestv1.SchemaVersionAnnotation))
			if policy.Status.TypeChecking != nil {
				g.Expect(policy.Status.TypeChecking.ExpressionWarnings).To(BeEmpty())
			}
		}).Should(Succeed())
	})

	It("refuses to delete a cluster with a Project, and names it and what to do", func(ctx SpecContext) {
		p := project(ctx, nil)
		for _, user := range []string{"", "admin"} { // whoever asks
			Eventually(attempt(ctx, user)).Should(MatchError(And(
				ContainSubstring("Project "+p.Name+" is on this cluster"),
				ContainSubstring("kubectl -n platform delete project "+p.Name),
				ContainSubstring("spec.abandoned: true"),
			)))
			Expect(apierrors.IsForbidden(attempt(ctx, user)())).To(BeTrue())
		}
		Eventually(func() error {
			return admin.DeleteAllOf(ctx, &kubenestv1.ManagedCluster{}, client.InNamespace(organization), client.DryRunAll)
		}).Should(MatchError(ContainSubstring("is on this cluster")), "of many, too")

		By("allowing it once the Project is gone")
		Expect(admin.Delete(ctx, p)).To(Succeed())
		Eventually(attempt(ctx, "admin")).Should(Succeed())
		Expect(admin.Delete(ctx, cluster)).To(Succeed())
	})

	It("names the namespace, where the Project does", func(ctx SpecContext) {
		p := project(ctx, func(p *kubenestv1.Project) { p.Spec.ClusterRef.Namespace = organization })
		Eventually(attempt(ctx, "")).Should(MatchError(ContainSubstring(p.Name)))
	})

	It("allows it while the Project is being deleted, so that a namespace can go as a whole", func(ctx SpecContext) {
		p := project(ctx, func(p *kubenestv1.Project) { p.Finalizers = []string{"example.com/hold"} })
		Eventually(attempt(ctx, "")).Should(MatchError(ContainSubstring(p.Name)))
		Expect(admin.Delete(ctx, p)).To(Succeed())
		Eventually(attempt(ctx, "")).Should(Succeed())
	})

	It("allows it on a cluster that was given up", func(ctx SpecContext) {
		p := project(ctx, nil)
		Eventually(attempt(ctx, "")).Should(MatchError(ContainSubstring(p.Name)))
		cluster.Spec.Abandoned = true
		Expect(admin.Update(ctx, cluster)).To(Succeed())
		Expect(attempt(ctx, "")()).To(Succeed())
	})

	It("looks at the Projects of that cluster only", func(ctx SpecContext) {
		marker := project(ctx, nil) // tells when the API server knows of those made before it
		other := cluster
		cluster = record(func(*kubenestv1.ManagedCluster) {})
		Expect(admin.Create(ctx, cluster)).To(Succeed())
		project(ctx, func(p *kubenestv1.Project) {
			p.Spec.ClusterRef.Namespace = "elsewhere" // one of this name there
		})
		free := cluster
		cluster = other
		Eventually(attempt(ctx, "")).Should(MatchError(ContainSubstring(marker.Name)))
		last := project(ctx, nil)
		cluster = other
		Eventually(attempt(ctx, "")).Should(MatchError(Or(ContainSubstring(marker.Name), ContainSubstring(last.Name))))
		cluster = free
		Consistently(attempt(ctx, ""), "500ms").Should(Succeed())
	})
})
