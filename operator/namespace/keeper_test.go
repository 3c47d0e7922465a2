// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/namespace"
	"github.com/kubenest/kubenest/operator/stack"
)

func TestNamespace(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	RunSpecs(t, "Namespace")
}

const system = "kubenest-system"

var (
	api    client.Client
	keeper *namespace.Keeper // with the operator's own rights
)

var _ = BeforeSuite(func(ctx SpecContext) {
	env := &envtest.Environment{}
	config, err := env.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)
	api, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	var role rbacv1.ClusterRole
	load(filepath.Join("..", "..", "config", "rbac", "operator", "cluster_role.yaml"), &role)
	Expect(api.Create(ctx, &role)).To(Succeed())
	Expect(api.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "operator"}},
	})).To(Succeed())
	own := rest.CopyConfig(config)
	own.Impersonate.UserName = "operator"
	c, err := client.New(own, client.Options{Scheme: clientgoscheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	keeper = &namespace.Keeper{Client: c, Cache: c, Own: system}
	Eventually(func() error { return c.List(ctx, &corev1.NamespaceList{}) }).Should(Succeed(), "the role is known")
})

// load the first object of a file.
func load(file string, into client.Object) {
	data, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.Unmarshal(data, into)).To(Succeed())
}

func target(name string) *stack.Target {
	return &stack.Target{
		Owner: "c1/platform/" + name, Namespace: name, Project: kubenestv1.ProjectKey{Namespace: "platform", Name: name},
		Grants: kubenestv1.Grants{PodSecurity: kubenestv1.PodSecurityBaseline},
	}
}

func problem(err error) *stack.Problem {
	GinkgoHelper()
	var p *stack.Problem
	Expect(errors.As(err, &p)).To(BeTrue(), "%v", err)
	return p
}

func key(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// finish a namespace's deletion as its controller would.
func finish(ctx context.Context, name string) {
	GinkgoHelper()
	var n corev1.Namespace
	Expect(api.Get(ctx, key("", name), &n)).To(Succeed())
	n.Spec.Finalizers = nil
	Expect(api.SubResource("finalize").Update(ctx, &n)).To(Succeed())
}

var _ = Describe("a Project's namespace", func() {
	settings := func() *kubenestv1.NamespaceSettings {
		return &kubenestv1.NamespaceSettings{
			Labels: map[string]string{"team": "store", "pod-security.kubernetes.io/enforce": "privileged"},
			Quota:  corev1.ResourceList{"requests.cpu": resource.MustParse("8")},
			Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
		}
	}

	It("is made with its bounds and rights, kept, changed and removed", func(ctx SpecContext) {
		t := target("shop")
		Expect(keeper.Ready(ctx, t, t.Owner)).To(MatchError(ContainSubstring("not there yet")))
		Expect(keeper.Ensure(ctx, t, settings())).To(Succeed())
		Expect(keeper.Ready(ctx, t, t.Owner)).To(Succeed())
		var n corev1.Namespace
		Expect(api.Get(ctx, key("", "shop"), &n)).To(Succeed())
		Expect(n.Labels).To(And(HaveKeyWithValue("team", "store"), HaveKeyWithValue("pod-security.kubernetes.io/enforce", "baseline"),
			HaveKeyWithValue("pod-security.kubernetes.io/warn", "baseline"), HaveKeyWithValue(kubenestv1.ProjectLabel, "shop")))
		var account corev1.ServiceAccount
		Expect(api.Get(ctx, key("shop", kubenestv1.ProjectServiceAccount), &account)).To(Succeed())
		Expect(account.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		var binding rbacv1.RoleBinding
		Expect(api.Get(ctx, key("shop", kubenestv1.ProjectServiceAccount), &binding)).To(Succeed())
		Expect(binding.RoleRef.Name).To(Equal("admin"))
		var quota corev1.ResourceQuota
		Expect(api.Get(ctx, key("shop", namespace.BoundsName), &quota)).To(Succeed())
		Expect(quota.Spec.Hard).To(HaveLen(1))

		By("writing nothing when nothing differs")
		Expect(keeper.Ensure(ctx, t, settings())).To(Succeed())
		version := n.ResourceVersion
		Expect(api.Get(ctx, key("", "shop"), &n)).To(Succeed())
		// The first pass has created and then applied it; from here on it stays.
		Expect(n.ResourceVersion).To(Equal(version))

		By("taking away what is wanted no more")
		t.Grants.PodSecurity = kubenestv1.PodSecurityRestricted
		Expect(keeper.Ensure(ctx, t, &kubenestv1.NamespaceSettings{})).To(Succeed())
		Expect(api.Get(ctx, key("", "shop"), &n)).To(Succeed())
		Expect(n.Labels).To(And(Not(HaveKey("team")), HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted")))
		Expect(apierrors.IsNotFound(api.Get(ctx, key("shop", namespace.BoundsName), &quota))).To(BeTrue())
		Expect(apierrors.IsNotFound(api.Get(ctx, key("shop", namespace.BoundsName), &corev1.LimitRange{}))).To(BeTrue())

		By("being refused to another Project")
		other := target("other")
		other.Namespace = "shop"
		p := problem(keeper.Ensure(ctx, other, settings()))
		Expect(p.Reason).To(Equal(kubenestv1.ReasonNamespaceTaken))
		Expect(p.Message).To(And(ContainSubstring("namespace shop"), ContainSubstring("c1/platform/shop")))
		Expect(problem(keeper.Ready(ctx, other, other.Owner)).Reason).To(Equal(kubenestv1.ReasonNamespaceTaken))
		Expect(keeper.Remove(ctx, other)).To(BeEmpty())

		By("saying what its deletion waits for")
		Expect(keeper.Remove(ctx, t)).To(HaveExactElements("namespace shop is being deleted"))
		Expect(api.Get(ctx, key("", "shop"), &n)).To(Succeed())
		n.Status.Conditions = []corev1.NamespaceCondition{
			{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Message: "all resources discovered"},
			{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Message: "example.com/held in 1 resource instances"},
		}
		Expect(api.Status().Update(ctx, &n)).To(Succeed())
		Expect(keeper.Remove(ctx, t)).To(HaveExactElements("namespace shop: example.com/held in 1 resource instances"))
		Expect(problem(keeper.Ensure(ctx, t, settings())).Waiting).To(BeTrue(), "it is made anew")
		Expect(problem(keeper.Ready(ctx, t, t.Owner)).Waiting).To(BeTrue())
		finish(ctx, "shop")
		Expect(keeper.Remove(ctx, t)).To(BeEmpty())
	})

	It("is not taken from somebody", func(ctx SpecContext) {
		theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
		Expect(api.Create(ctx, theirs)).To(Succeed())
		p := problem(keeper.Ensure(ctx, target("theirs"), settings()))
		Expect(p.Reason).To(Equal(kubenestv1.ReasonNamespaceTaken))
		Expect(p.Message).To(ContainSubstring("namespace theirs exists"))
		Expect(keeper.Remove(ctx, target("theirs"))).To(BeEmpty())
		version := theirs.ResourceVersion
		Expect(api.Get(ctx, key("", "theirs"), theirs)).To(Succeed())
		Expect(theirs.ResourceVersion).To(Equal(version))
		var accounts corev1.ServiceAccountList
		Expect(api.List(ctx, &accounts, client.InNamespace("theirs"))).To(Succeed())
		Expect(accounts.Items).To(BeEmpty())

		By("being handed over, and given back")
		t := target("theirs")
		theirs.Annotations = map[string]string{kubenestv1.OwnerAnnotation: t.Owner}
		Expect(api.Update(ctx, theirs)).To(Succeed())
		Expect(keeper.Ensure(ctx, t, settings())).To(Succeed())
		Expect(keeper.Remove(ctx, t)).To(BeEmpty())
		Expect(api.Get(ctx, key("", "theirs"), theirs)).To(Succeed())
		Expect(theirs.DeletionTimestamp).To(BeNil())
		Expect(theirs.Annotations).NotTo(HaveKey(kubenestv1.OwnerAnnotation))
		Expect(theirs.Labels).NotTo(HaveKey(kubenestv1.ProjectLabel))
		Expect(apierrors.IsNotFound(api.Get(ctx, key("theirs", kubenestv1.ProjectServiceAccount), &rbacv1.RoleBinding{}))).To(BeTrue())
	})

	DescribeTable("is none of the system's", func(ctx SpecContext, name string) {
		t := target(name)
		Expect(problem(keeper.Ensure(ctx, t, settings())).Reason).To(Equal(kubenestv1.ReasonNamespaceReserved))
		Expect(problem(keeper.Ready(ctx, t, t.Owner)).Reason).To(Equal(kubenestv1.ReasonNamespaceReserved))
		Expect(keeper.Remove(ctx, t)).To(BeEmpty())
		Expect(keeper.Has(ctx, t, t.Owner)).To(BeFalse())
	},
		Entry(nil, "kube-system"), Entry(nil, "kube-public"), Entry(nil, "kube-anything"), Entry(nil, "default"), Entry(nil, system), Entry(nil, "argocd"),
	)

	It("leaves objects in it that are not its own", func(ctx SpecContext) {
		t := target("mixed")
		Expect(keeper.Ensure(ctx, t, &kubenestv1.NamespaceSettings{})).To(Succeed())
		theirs := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "mixed", Name: namespace.BoundsName}}
		Expect(api.Create(ctx, theirs)).To(Succeed())
		Expect(keeper.Ensure(ctx, t, &kubenestv1.NamespaceSettings{})).To(Succeed(), "it wants none")
		p := problem(keeper.Ensure(ctx, t, settings()))
		Expect(p.Reason).To(Equal(kubenestv1.ReasonObjectNotOurs))
		Expect(p.Message).To(ContainSubstring("ResourceQuota mixed/kubenest"))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
		Expect(theirs.Spec.Hard).To(BeEmpty())
	})

	It("gets cluster-scoped rights only if the operator has them to give", func(ctx SpecContext) {
		t := target("wide")
		t.Grants.ClusterScoped = true
		p := problem(keeper.Ensure(ctx, t, settings()))
		Expect(p.Reason).To(Equal(kubenestv1.ReasonForbidden))
		Expect(p.Message).To(ContainSubstring("kubectl create clusterrolebinding"))
		Expect(keeper.Ready(ctx, t, t.Owner)).To(Succeed(), "the rest is there")

		mighty := &namespace.Keeper{Client: api, Cache: api, Own: system}
		Expect(mighty.Ensure(ctx, t, settings())).To(Succeed())
		var binding rbacv1.ClusterRoleBinding
		Expect(api.Get(ctx, key("", namespace.BindingName("wide")), &binding)).To(Succeed())
		Expect(binding.RoleRef.Name).To(Equal("cluster-admin"))
		Expect(binding.Subjects).To(ConsistOf(HaveField("Namespace", "wide")))
		t.Grants.ClusterScoped = false
		Expect(mighty.Ensure(ctx, t, settings())).To(Succeed())
		Expect(apierrors.IsNotFound(api.Get(ctx, key("", namespace.BindingName("wide")), &binding))).To(BeTrue())
		Expect(keeper.Ensure(ctx, t, settings())).To(Succeed(), "which it may not even ask for")
	})

	It("says what is not valid", func(ctx SpecContext) {
		s := settings()
		s.Quota = corev1.ResourceList{"requests.cpu": resource.MustParse("-1")}
		p := problem(keeper.Ensure(ctx, target("wrong"), s))
		Expect(p.Reason).To(Equal(kubenestv1.ReasonInvalid))
		Expect(p.Message).To(ContainSubstring("requests.cpu"))
	})
})
