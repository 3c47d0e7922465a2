// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/config"
	"github.com/kubenest/kubenest/hub/replica"
	"github.com/kubenest/kubenest/hub/serving"
	"github.com/kubenest/kubenest/hub/token"
	"github.com/kubenest/kubenest/hub/token/store"
)

const (
	system   = "kubenest-system"
	hub      = "system:serviceaccount:" + system + ":kubenest-hub"
	operator = "system:serviceaccount:" + system + ":kubenest-operator"
)

// may asks the API server what a user may do. The question is
// "verb group/resource[/subresource] [namespace[/name]]", the core group empty.
func may(ctx context.Context, user, question string) bool {
	GinkgoHelper()
	words := append(strings.Fields(question), "", "")
	what := append(strings.Split(words[1], "/"), "")
	where := append(strings.Split(words[2], "/"), "")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: words[0], Group: what[0], Resource: what[1], Subresource: what[2], Namespace: where[0], Name: where[1],
		},
	}}
	Expect(admin.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}

var _ = Describe("Roles", func() {
	It("let nobody but the hub write a status, or a StackDeploy", func(ctx SpecContext) {
		forbidden := map[string]bool{"stackdeploys": true}
		for _, kind := range []string{"managedclusters", "projects", "apps", "stackdeploys"} {
			forbidden[kind+"/status"] = true
		}
		for resource := range forbidden {
			for _, verb := range []string{"update", "patch"} {
				Expect(may(ctx, hub, verb+" kubenest.io/"+resource+" platform/x")).To(BeTrue(), resource)
				for _, user := range []string{"admin", "member", "viewer", operator} {
					Expect(may(ctx, user, verb+" kubenest.io/"+resource+" platform/x")).To(BeFalse(), "%s: %s", user, resource)
				}
			}
		}
		var roles rbacv1.ClusterRoleList
		Expect(admin.List(ctx, &roles)).To(Succeed())
		for _, role := range roles.Items {
			if !strings.HasPrefix(role.Name, "kubenest-organization-") {
				continue
			}
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					if forbidden[resource] {
						Expect(rule.Verbs).To(HaveEach(BeElementOf("get", "list", "watch")), "%s: %s", role.Name, resource)
					}
				}
			}
		}
	})

	DescribeTable("people's rights on an organization's clusters",
		func(ctx SpecContext, what string, admins, members, viewers bool) {
			for user, want := range map[string]bool{"admin": admins, "member": members, "viewer": viewers} {
				Expect(may(ctx, user, what+" platform/x")).To(Equal(want), user)
				Expect(may(ctx, user, what+" other/x")).To(BeFalse(), "elsewhere")
			}
		},
		Entry("get", "get kubenest.io/managedclusters", true, true, true),
		Entry("watch", "watch kubenest.io/managedclusters", true, true, true),
		Entry("create", "create kubenest.io/managedclusters", true, false, false),
		Entry("update", "update kubenest.io/managedclusters", true, false, false),
		Entry("delete", "delete kubenest.io/managedclusters", true, false, false),
		Entry("mint", "mint kubenest.io/managedclusters", true, false, false),
		Entry("revoke", "revoke kubenest.io/managedclusters", true, false, false),
		Entry("adopt", "adopt kubenest.io/managedclusters", false, false, false),
		Entry("scale", "patch kubenest.io/managedclusters/scale", true, true, false),
		Entry("see the status", "get kubenest.io/managedclusters/status", true, true, true),
		Entry("read Projects", "watch kubenest.io/projects", true, true, true),
		Entry("create Projects", "create kubenest.io/projects", true, false, false),
		Entry("edit Projects", "patch kubenest.io/projects", true, false, false),
		Entry("delete Projects", "delete kubenest.io/projects", true, false, false),
		Entry("read Apps", "watch kubenest.io/apps", true, true, true),
		Entry("create Apps", "create kubenest.io/apps", true, true, false),
		Entry("edit Apps", "patch kubenest.io/apps", true, true, false),
		Entry("delete Apps", "delete kubenest.io/apps", true, true, false),
		Entry("read StackDeploys", "list kubenest.io/stackdeploys", true, true, true),
		Entry("make StackDeploys", "create kubenest.io/stackdeploys", false, false, false),
		Entry("delete StackDeploys", "delete kubenest.io/stackdeploys", false, false, false),
		Entry("read an App's revisions", "list apps/controllerrevisions", true, true, true),
		Entry("forge an App's revisions", "create apps/controllerrevisions", false, false, false),
		Entry("package charts", "create /configmaps", true, true, false),
		Entry("read pods", "list /pods", false, false, false),
		Entry("read logs", "get /pods/log", false, false, false),
	)

	DescribeTable("nobody reads Secrets who need not",
		func(ctx SpecContext, user, namespace, name string, want bool) {
			Expect(may(ctx, user, "get /secrets "+namespace+"/"+name)).To(Equal(want))
		},
		Entry("an organization's admin, its connection Secrets", "admin", organization, "x-connection", true),
		Entry("a member", "member", organization, "x-connection", false),
		Entry("a member, an addon's exports", "member", organization, "shop-postgres-exports", false),
		Entry("a viewer", "viewer", organization, "x-connection", false),
		Entry("an organization's admin, the signing keys", "admin", system, store.DefaultSecret, false),
		Entry("the operator, its session", operator, system, "kubenest-operator-session", true),
		Entry("the operator, the signing keys of a hub beside it", operator, system, store.DefaultSecret, false),
		Entry("the operator, elsewhere", operator, organization, "x-connection", false),
	)

	DescribeTable("the hub's rights end where its work does",
		func(ctx SpecContext, question string) { Expect(may(ctx, hub, question)).To(BeFalse()) },
		Entry("it does not edit records", "update kubenest.io/managedclusters platform/x"),
		Entry("nor delete them", "delete kubenest.io/managedclusters platform/x"),
		Entry("nor change other CRDs", "patch apiextensions.k8s.io/customresourcedefinitions /others.example.com"),
		Entry("nor other policies", "patch admissionregistration.k8s.io/validatingadmissionpolicies /other"),
		Entry("nor take others' Leases", "update coordination.k8s.io/leases kube-system/kube-scheduler"),
		Entry("nor read pods", "list /pods platform"),
		Entry("nor make Projects", "create kubenest.io/projects platform"),
		Entry("nor delete them", "delete kubenest.io/projects platform/x"),
		Entry("nor make Apps", "create kubenest.io/apps platform"),
		Entry("nor write ConfigMaps", "patch /configmaps platform/x"),
	)

	DescribeTable("the hub's rights suffice for Projects and Apps",
		func(ctx SpecContext, question string) { Expect(may(ctx, hub, question)).To(BeTrue()) },
		Entry("hold a record", "patch kubenest.io/managedclusters platform/x"),
		Entry("hold a Project", "patch kubenest.io/projects platform/x"),
		Entry("hold an App", "patch kubenest.io/apps platform/x"),
		Entry("delete a Project's Apps", "delete kubenest.io/apps platform/x"),
		Entry("make StackDeploys", "create kubenest.io/stackdeploys platform"),
		Entry("delete StackDeploys", "delete kubenest.io/stackdeploys platform/x"),
		Entry("keep revisions", "create apps/controllerrevisions platform"),
		Entry("prune revisions", "delete apps/controllerrevisions platform/x"),
		Entry("read charts", "watch /configmaps"),
		Entry("bring the CRD of Projects", "patch apiextensions.k8s.io/customresourcedefinitions /projects.kubenest.io"),
		Entry("bring the CRD of StackDeploys", "patch apiextensions.k8s.io/customresourcedefinitions /stackdeploys.kubenest.io"),
		Entry("bring the guard", "patch admissionregistration.k8s.io/validatingadmissionpolicies /kubenest-managedcluster-in-use"),
		Entry("own what blocks a deletion", "update kubenest.io/apps/finalizers platform/x"),
	)

	DescribeTable("the operator's rights on its own cluster",
		func(ctx SpecContext, question string, want bool) {
			Expect(may(ctx, operator, question)).To(Equal(want))
		},
		Entry("nodes", "watch /nodes", true),
		Entry("pods", "list /pods", true),
		Entry("usage", "list metrics.k8s.io/nodes", true),
		Entry("its identity", "get /namespaces kube-system/kube-system", true),
		Entry("Projects' namespaces", "create /namespaces", true),
		Entry("their ServiceAccount, to act as it", "impersonate /serviceaccounts shop/kubenest-project", true),
		Entry("no other ServiceAccount", "impersonate /serviceaccounts shop/default", false),
		Entry("no groups to act as", "impersonate /groups /system:masters", false),
		Entry("the role that Projects get", "bind rbac.authorization.k8s.io/clusterroles /admin", true),
		Entry("no other role", "bind rbac.authorization.k8s.io/clusterroles /cluster-admin", false),
		Entry("how Apps are", "watch apps/deployments shop", true),
		Entry("no Deployments of its own right", "patch apps/deployments shop/web", false),
		Entry("no Projects' Secrets of its own right", "get /secrets shop/web", false),
		Entry("no logs of its own right", "get /pods/log shop/web", false),
		Entry("its inputs", "create /secrets kubenest-inputs/x", true),
		Entry("its StackDeploys", "patch kubenest.io/stackdeploys/status kubenest-system/x", true),
		Entry("no others", "list kubenest.io/stackdeploys platform", false),
		Entry("its schema, the first time", "create apiextensions.k8s.io/customresourcedefinitions ", true),
		Entry("its schema", "patch apiextensions.k8s.io/customresourcedefinitions /stackdeploys.kubenest.io", true),
		Entry("no other schema", "patch apiextensions.k8s.io/customresourcedefinitions /apps.kubenest.io", false),
		Entry("its Lease", "update coordination.k8s.io/leases kubenest-system/kubenest-operator", true),
		Entry("no other Lease", "update coordination.k8s.io/leases kubenest-system/replica-hub", false),
		Entry("Events", "create events.k8s.io/events kubenest-system", true),
		Entry("no pods to make", "create /pods kubenest-system", false),
	)

	It("suffice for what the hub does when it starts", func(ctx SpecContext) {
		c := clientAs(hub)
		Expect(config.ApplyCRDs(ctx, c)).To(Succeed())
		Expect(config.ApplyPolicies(ctx, c)).To(Succeed())

		none := func(ctx context.Context) (bool, error) {
			var list kubenestv1.ManagedClusterList
			return false, c.List(ctx, &list, client.Limit(1))
		}
		keys, err := store.Open(ctx, c, types.NamespacedName{Namespace: system, Name: store.DefaultSecret}, none)
		Expect(err).NotTo(HaveOccurred())
		source, err := serving.SelfManaged(ctx, c, types.NamespacedName{Namespace: system, Name: serving.DefaultSecret}, []string{"127.0.0.1"}, none)
		Expect(err).NotTo(HaveOccurred())
		id := replica.New("hub-0")
		keeper, watcher := replica.NewKeeper(c, system, id, GinkgoLogr), replica.NewWatcher(c, system, id, GinkgoLogr)

		running, stop := context.WithCancel(context.Background())
		done := make(chan error, 4)
		for _, run := range []func(context.Context) error{keys.Run, source.Run, keeper.Run, watcher.Run} {
			go func() { done <- run(running) }()
		}
		Eventually(keeper.CanRenew).Should(BeTrue())
		told := make(chan struct{}, 9)
		keys.OnChange(func() { told <- struct{}{} })
		held := newSecret(system, store.DefaultSecret)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(held), held)).To(Succeed())
		kid, block, err := token.NewKey(time.Now().Add(time.Hour))
		Expect(err).NotTo(HaveOccurred())
		held.Data[kid+".pem"] = block
		Expect(admin.Update(ctx, held)).To(Succeed())
		Eventually(told, "20s").Should(Receive(), "it may follow its own Secrets")
		Expect(watcher.Prune(ctx)).To(Succeed())
		stop()
		for range 4 {
			Eventually(done, "20s").Should(Receive(BeNil()))
		}
	})
})

func newSecret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

var _ = Describe("The hub", func() {
	It("may write a record's status and connection Secret", func(ctx SpecContext) {
		c := record(func(*kubenestv1.ManagedCluster) {})
		Expect(admin.Create(ctx, c)).To(Succeed())
		c.Status.Message = "written " + time.Now().String()
		Expect(clientAs(hub).Status().Update(ctx, c)).To(Succeed())
		held := newSecret(organization, c.ConnectionSecretName())
		held.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(c, kubenestv1.GroupVersion.WithKind("ManagedCluster"))}
		Expect(clientAs(hub).Create(ctx, held)).To(Succeed())
		Expect(clientAs(hub).Delete(ctx, held)).To(Succeed())
	})
})
