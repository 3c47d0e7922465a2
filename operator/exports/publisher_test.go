// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

var _ = Describe("a publisher", Ordered, func() {
	var (
		client    kubernetes.Interface
		publisher *Publisher
	)
	const redis = `{apiVersion: v1, kind: Service, metadata: {name: r}, spec: {ports: [{port: 6379}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: r}, stringData: {redis-password: one}}`
	shop := addon(kubenestv1.AddonSpec{Type: kubenestv1.AddonRedis})

	BeforeAll(func(ctx context.Context) {
		environment := &envtest.Environment{}
		config, err := environment.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(environment.Stop)
		client = kubernetes.NewForConfigOrDie(config)
		_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.RbacV1().Roles("shop").Create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: "all"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services", "secrets"}, Verbs: []string{"*"}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.RbacV1().RoleBindings("shop").Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "all"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: kubenestv1.ProjectServiceAccount, Namespace: "shop"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, o := range typed(parsed(Default, redis)) {
			switch o := o.(type) {
			case *corev1.Service:
				_, err = client.CoreV1().Services("shop").Create(ctx, o, metav1.CreateOptions{})
			case *corev1.Secret:
				o.StringData = nil
				_, err = client.CoreV1().Secrets("shop").Create(ctx, o, metav1.CreateOptions{})
			}
			Expect(err).NotTo(HaveOccurred())
		}
		publisher = New(config)
	})
	secret := func(ctx context.Context) *corev1.Secret {
		GinkgoHelper()
		s, err := client.CoreV1().Secrets("shop").Get(ctx, "shop-db-exports", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		return s
	}

	It("writes once, and again when something changes", func(ctx SpecContext) {
		keys, revision, err := publisher.Ensure(ctx, shop, parsed(Default, redis))
		Expect(err).NotTo(HaveOccurred())
		Expect(keys).To(Equal([]string{"dsn", "host", "password", "port"}))
		Expect(revision).To(MatchRegexp("^[0-9a-f]{16}$"))
		s := secret(ctx)
		Expect(string(s.Data["dsn"])).To(Equal("redis://:one@r.shop.svc:6379/0"))
		Expect(s.Labels).To(HaveKeyWithValue(kubenestv1.ExportsLabel, "true"))
		Expect(s.Annotations).To(HaveKeyWithValue(kubenestv1.ExportsRevisionAnnotation, revision))
		Expect(s.Annotations).To(HaveKeyWithValue(kubenestv1.OwnerAnnotation, shop.Target.Owner))

		_, again, err := publisher.Ensure(ctx, shop, parsed(Default, redis))
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(Equal(revision))
		Expect(secret(ctx).ResourceVersion).To(Equal(s.ResourceVersion), "nothing was written")

		source, err := client.CoreV1().Secrets("shop").Get(ctx, "r", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		source.Data["redis-password"] = []byte("two")
		_, err = client.CoreV1().Secrets("shop").Update(ctx, source, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, again, err = publisher.Ensure(ctx, shop, parsed(Default, redis))
		Expect(err).NotTo(HaveOccurred())
		Expect(again).NotTo(Equal(revision))
		Expect(string(secret(ctx).Data["password"])).To(Equal("two"))
		Expect(secret(ctx).Annotations[SaltAnnotation]).To(Equal(s.Annotations[SaltAnnotation]))
	})

	It("removes its own", func(ctx SpecContext) {
		Expect(publisher.Remove(ctx, shop)).To(Succeed())
		_, err := client.CoreV1().Secrets("shop").Get(ctx, "shop-db-exports", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
		Expect(publisher.Remove(ctx, shop)).To(Succeed())
	})

	It("leaves another's alone", func(ctx SpecContext) {
		_, err := client.CoreV1().Secrets("shop").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "shop-db-exports"}, Data: map[string][]byte{"a": []byte("b")},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, _, err = publisher.Ensure(ctx, shop, parsed(Default, redis))
		var problem *stack.Problem
		Expect(err).To(BeAssignableToTypeOf(problem))
		Expect(err).To(MatchError(ContainSubstring("Secret shop-db-exports exists")))
		Expect(publisher.Remove(ctx, shop)).To(Succeed())
		Expect(secret(ctx).Data).To(Equal(map[string][]byte{"a": []byte("b")}))
	})
})
