// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/config"
)

const crdName = "managedclusters.kubenest.io"

// Serial: these specs take the CRD away from under the others.
var _ = Describe("ApplyCRDs", Serial, Ordered, func() {
	stored := func(ctx context.Context) *apiextensionsv1.CustomResourceDefinition {
		GinkgoHelper()
		var crd apiextensionsv1.CustomResourceDefinition
		Expect(admin.Get(ctx, client.ObjectKey{Name: crdName}, &crd)).To(Succeed())
		return &crd
	}
	remove := func(ctx context.Context) {
		GinkgoHelper()
		Expect(admin.Delete(ctx, stored(ctx))).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKey{Name: crdName}, &apiextensionsv1.CustomResourceDefinition{}))
		}, "30s").Should(BeTrue())
	}
	// edit outlasts the API server's own writes to the CRD's status.
	edit := func(ctx context.Context, change func(*apiextensionsv1.CustomResourceDefinition)) {
		GinkgoHelper()
		Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			crd := stored(ctx)
			change(crd)
			return admin.Update(ctx, crd)
		})).To(Succeed())
	}
	// newer is what a later program would have applied.
	newer := func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations[kubenestv1.SchemaVersionAnnotation] = "10"
		crd.Spec.Names.ShortNames = []string{"newer"}
	}

	It("makes a CRD that is served when it returns, also by several replicas at once", func(ctx SpecContext) {
		remove(ctx)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				defer GinkgoRecover()
				Expect(config.ApplyCRDs(ctx, admin)).To(Succeed())
			})
		}
		wg.Wait()
		Expect(clientAs("").Create(ctx, record(func(*kubenestv1.ManagedCluster) {}))).To(Succeed())
	})

	It("changes nothing the second time", func(ctx SpecContext) {
		Expect(config.ApplyCRDs(ctx, admin, crdName)).To(Succeed())
		before := stored(ctx).ResourceVersion
		Expect(config.ApplyCRDs(ctx, admin, crdName)).To(Succeed())
		Expect(stored(ctx).ResourceVersion).To(Equal(before))
	})

	It("replaces an older schema", func(ctx SpecContext) {
		edit(ctx, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Annotations[kubenestv1.SchemaVersionAnnotation] = "0"
			crd.Spec.Names.ShortNames = []string{"older"}
		})
		Expect(config.ApplyCRDs(ctx, admin)).To(Succeed())
		Expect(stored(ctx).Spec.Names.ShortNames).To(HaveExactElements("mc"))
		Expect(stored(ctx).Annotations).To(HaveKeyWithValue(kubenestv1.SchemaVersionAnnotation, Not(Equal("0"))))
	})

	It("compares versions as numbers and leaves a newer schema alone", func(ctx SpecContext) {
		edit(ctx, newer)
		Expect(config.ApplyCRDs(ctx, admin)).To(Succeed())
		Expect(stored(ctx).Spec.Names.ShortNames).To(HaveExactElements("newer"))
		Expect(stored(ctx).Annotations).To(HaveKeyWithValue(kubenestv1.SchemaVersionAnnotation, "10"))
		remove(ctx)
	})

	It("leaves a newer schema alone that comes in between", func(ctx SpecContext) {
		By("being made when there was none")
		var once sync.Once
		racing := func(between func()) client.Client {
			once = sync.Once{}
			return interceptor.NewClient(admin, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					err := c.Get(ctx, key, o, opts...)
					once.Do(between)
					return err
				},
			})
		}
		Expect(config.ApplyCRDs(ctx, racing(func() {
			Expect(config.ApplyCRDs(ctx, admin)).To(Succeed())
			edit(ctx, newer)
		}))).To(Succeed())
		Expect(stored(ctx).Spec.Names.ShortNames).To(HaveExactElements("newer"))

		By("replacing an older one")
		edit(ctx, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Annotations[kubenestv1.SchemaVersionAnnotation] = "1"
		})
		Expect(config.ApplyCRDs(ctx, racing(func() {
			edit(ctx, newer)
		}))).To(Succeed())
		Expect(stored(ctx).Spec.Names.ShortNames).To(HaveExactElements("newer"))
		remove(ctx)
		Expect(config.ApplyCRDs(ctx, admin)).To(Succeed())
	})

	It("knows no other names", func(ctx SpecContext) {
		Expect(config.ApplyCRDs(ctx, admin, "nothings.kubenest.io")).To(MatchError(ContainSubstring(`no CRD named "nothings.kubenest.io"`)))
	})
})

var _ = Describe("ApplyPolicies", func() {
	It("applies each policy with its binding", func(ctx SpecContext) {
		Expect(config.ApplyPolicies(ctx, admin)).To(Succeed())
		for _, name := range []string{policyName, inUsePolicy} {
			var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
			Expect(admin.Get(ctx, client.ObjectKey{Name: name}, &binding)).To(Succeed())
			before := binding.ResourceVersion
			Expect(config.ApplyPolicies(ctx, admin)).To(Succeed())
			Expect(admin.Get(ctx, client.ObjectKey{Name: name}, &binding)).To(Succeed())
			Expect(binding.ResourceVersion).To(Equal(before))
			Expect(binding.Spec.ValidationActions).To(HaveExactElements(admissionregistrationv1.Deny))
		}
	})
})
