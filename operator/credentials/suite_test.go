// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

func TestSessionSecret(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Session Secret")
}

var _ = Describe("the session Secret", Ordered, func() {
	var (
		admin    kubernetes.Interface
		operator *rest.Config
		files    *mount
		m        *credentials.Mounted
	)
	token := func(c agenttest.Claims) agent.Token {
		parsed, err := agent.ParseToken(agenttest.Token(GinkgoTB(), c))
		Expect(err).NotTo(HaveOccurred())
		return parsed
	}
	load := func(ctx context.Context, m *credentials.Mounted) (generations []int64, authorities agent.Authorities) {
		identity, err := m.Load(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, t := range identity.Tokens {
			generations = append(generations, t.Generation)
		}
		return generations, identity.Authorities
	}
	again := func(directory string) *credentials.Mounted {
		return credentials.NewMounted(directory, kubernetes.NewForConfigOrDie(operator).CoreV1(), namespace, GinkgoLogr)
	}

	BeforeAll(func(ctx context.Context) {
		environment := &envtest.Environment{}
		config, err := environment.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(environment.Stop)
		admin = kubernetes.NewForConfigOrDie(config)
		_, err = admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		user, err := environment.AddUser(envtest.User{Name: "operator"}, nil)
		Expect(err).NotTo(HaveOccurred())
		operator = user.Config()
		grant(ctx, admin)
	})
	BeforeEach(func(ctx context.Context) {
		Expect(admin.CoreV1().Secrets(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
		files = newMount(GinkgoTB(), connection(GinkgoTB(), agenttest.Claims{Generation: 2}))
		m = again(files.directory)
	})

	It("keeps a token through a restart, with rights to this one Secret only", func(ctx SpecContext) {
		Expect(m.StoreToken(ctx, token(agenttest.Claims{Generation: 3}))).To(Succeed())
		generations, authorities := load(ctx, again(files.directory))
		Expect(generations).To(Equal([]int64{3, 2}))
		Expect(authorities).To(HaveLen(1))
	})

	It("keeps the token when a CA bundle is stored, and the other way round", func(ctx SpecContext) {
		first, second := bundle(), bundle()
		Expect(m.StoreCA(ctx, first)).To(Succeed())
		Expect(m.StoreToken(ctx, token(agenttest.Claims{Generation: 3}))).To(Succeed())
		Expect(again(files.directory).StoreCA(ctx, second)).To(Succeed())
		generations, authorities := load(ctx, m)
		Expect(generations).To(Equal([]int64{3, 2}))
		Expect(authorities).To(Equal(agent.Authorities{"", second}), "the chart's and the hub's together")
	})

	It("writes nothing that is known already", func(ctx SpecContext) {
		keys := connection(GinkgoTB(), agenttest.Claims{Generation: 2})
		keys["ca.crt"] = bundle()
		files.swap(GinkgoTB(), keys)
		Expect(m.StoreCA(ctx, keys["ca.crt"]+"\n")).To(Succeed())
		secrets, err := admin.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(secrets.Items).To(BeEmpty())
	})

	It("remembers that the hub has moved to public authorities", func(ctx SpecContext) {
		keys := connection(GinkgoTB(), agenttest.Claims{Generation: 2})
		keys["ca.crt"] = bundle()
		files.swap(GinkgoTB(), keys)
		Expect(m.StoreCA(ctx, "")).To(Succeed())
		_, authorities := load(ctx, again(files.directory))
		Expect(authorities).To(HaveLen(2))
		Expect(authorities[1]).To(BeEmpty())
	})

	It("does not store what is no CA bundle", func(ctx SpecContext) {
		Expect(m.StoreCA(ctx, "not PEM")).To(MatchError(ContainSubstring("not PEM")))
	})

	It("prefers a newer token of the chart", func(ctx SpecContext) {
		Expect(m.StoreToken(ctx, token(agenttest.Claims{Generation: 3}))).To(Succeed())
		files.swap(GinkgoTB(), connection(GinkgoTB(), agenttest.Claims{Generation: 4}))
		generations, _ := load(ctx, m)
		Expect(generations).To(Equal([]int64{4, 3}))
	})

	It("ignores what was stored for another record", func(ctx SpecContext) {
		Expect(m.StoreToken(ctx, token(agenttest.Claims{Generation: 9}))).To(Succeed())
		Expect(m.StoreCA(ctx, bundle())).To(Succeed())
		other := map[string]string{
			"token": agenttest.Token(GinkgoTB(), agenttest.Claims{ClusterID: "reinstalled", Generation: 1}), "cluster-id": "reinstalled",
			"hub-url": "https://other.test",
		}
		files.swap(GinkgoTB(), other)
		generations, authorities := load(ctx, m)
		Expect(generations).To(Equal([]int64{1}))
		Expect(authorities).To(HaveLen(1))

		By("and replaces it when it stores again")
		Expect(m.StoreToken(ctx, token(agenttest.Claims{ClusterID: "reinstalled", Generation: 2}))).To(Succeed())
		generations, authorities = load(ctx, again(files.directory))
		Expect(generations).To(Equal([]int64{2, 1}))
		Expect(authorities).To(HaveLen(1), "the old hub's CA is gone")
	})

	It("goes on with what it knows while the Secret can not be read", func(ctx SpecContext) {
		Expect(m.StoreToken(ctx, token(agenttest.Claims{Generation: 3}))).To(Succeed())
		Expect(admin.RbacV1().RoleBindings(namespace).Delete(ctx, "operator", metav1.DeleteOptions{})).To(Succeed())
		DeferCleanup(func(ctx context.Context) { grant(ctx, admin) })
		Eventually(func(ctx context.Context) error { return m.StoreToken(ctx, token(agenttest.Claims{Generation: 4})) }).
			WithContext(ctx).WithTimeout(patience).Should(MatchError(ContainSubstring("helm upgrade")))
		generations, _ := load(ctx, m)
		Expect(generations).To(Equal([]int64{3, 2}))
		generations, _ = load(ctx, again(files.directory))
		Expect(generations).To(Equal([]int64{2}), "after a restart that is what the chart gave")
	})
})

// grant gives the operator what its chart gives: one Secret, by name.
func grant(ctx context.Context, admin kubernetes.Interface) {
	GinkgoHelper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "operator", Namespace: namespace},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{credentials.SessionSecret},
			Verbs: []string{"get", "create", "patch"},
		}},
	}
	if _, err := admin.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		Expect(err).To(MatchError(ContainSubstring("already exists")))
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator", Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "operator"}},
	}
	_, err := admin.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	// Rights take a moment to be seen by the authorizer.
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "operator",
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "get", Resource: "secrets", Name: credentials.SessionSecret,
		},
	}}
	Eventually(func(ctx context.Context) (bool, error) {
		answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}).WithContext(ctx).WithTimeout(patience).Should(BeTrue())
}

// bundle is a CA certificate.
func bundle() string {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	Expect(err).NotTo(HaveOccurred())
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
