// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// kubectl runs it as a cluster administrator and returns what a person reads.
func kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"),
		append([]string{"--kubeconfig", kubeconfig}, args...)...)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

var _ = Describe("kubectl", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "org-"}}
		Expect(admin.Create(ctx, created)).To(Succeed())
		namespace = created.Name
	})

	It("shows a cluster in one line", func(ctx SpecContext) {
		c := &kubenestv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-017"},
			Spec:       kubenestv1.ManagedClusterSpec{Region: "eu-north"},
		}
		Expect(admin.Create(ctx, c)).To(Succeed())
		c.Status.Phase, c.Status.Reason, c.Status.Message = kubenestv1.PhaseConnected, kubenestv1.ReasonSessionEstablished, "All is well."
		c.Status.Since = new(metav1.NewTime(time.Now().Add(-41*time.Minute - 30*time.Second)))
		c.Status.NodeCount = ptr.To[int32](3)
		c.Status.Columns = &kubenestv1.Columns{CPU: "3.2/24", Memory: "11/96 Gi"}
		c.Status.KubernetesVersion, c.Status.OperatorVersion = "v1.37.2", "0.1.0"
		c.Status.Session = &kubenestv1.SessionStatus{Replica: "hub-0/3f0a"}
		Expect(admin.Status().Update(ctx, c)).To(Succeed())

		rows := func(args ...string) []string {
			GinkgoHelper()
			out, err := kubectl(ctx, append([]string{"get", "mc", "-n", namespace}, args...)...)
			Expect(err).NotTo(HaveOccurred(), out)
			return strings.Split(regexp.MustCompile(` {2,}`).ReplaceAllString(out, "  "), "\n")
		}
		Expect(rows()).To(HaveExactElements(
			MatchRegexp(`^NAME  PHASE  REASON  SINCE  REGION  NODES  CPU  MEMORY  VERSION  AGE$`),
			MatchRegexp(`^shop-017  Connected  SessionEstablished  41m  eu-north  3  3\.2/24  11/96 Gi  v1\.37\.2  \d+m?s?$`),
		))
		Expect(rows("-o", "wide")).To(HaveExactElements(
			HaveSuffix("AGE  OPERATOR  REPLICA  MESSAGE"),
			HaveSuffix("0.1.0  hub-0/3f0a  All is well."),
		))
		out, err := kubectl(ctx, "get", "kubenest", "-n", namespace, "-o", "name")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(Equal("managedcluster.kubenest.io/shop-017"))
	})

	// lines of a table, with two blanks between columns.
	lines := func(ctx context.Context, args ...string) []string {
		GinkgoHelper()
		out, err := kubectl(ctx, append([]string{"get", "-n", namespace}, args...)...)
		Expect(err).NotTo(HaveOccurred(), out)
		return strings.Split(regexp.MustCompile(` {2,}`).ReplaceAllString(out, "  "), "\n")
	}
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}
	}

	It("shows a Project in one line", func(ctx SpecContext) {
		p := &kubenestv1.Project{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
			Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: "dev"}, Namespace: "shop-prod"},
		}
		Expect(admin.Create(ctx, p)).To(Succeed())
		p.Status.Conditions = []metav1.Condition{condition(kubenestv1.ConditionReady, metav1.ConditionTrue, kubenestv1.ReasonNamespaceReady)}
		p.Status.Namespace, p.Status.Reason, p.Status.Message = "shop-prod", kubenestv1.ReasonNamespaceReady, "All is well."
		Expect(admin.Status().Update(ctx, p)).To(Succeed())
		Expect(lines(ctx, "projects")).To(HaveExactElements(
			Equal("NAME  CLUSTER  NAMESPACE  READY  REASON  AGE"),
			MatchRegexp(`^shop  dev  shop-prod  True  NamespaceReady  \d+m?s?$`),
		))
		Expect(lines(ctx, "projects", "-o", "wide")).To(HaveExactElements(HaveSuffix("AGE  MESSAGE"), HaveSuffix("s  All is well.")))
	})

	It("shows an App in one line", func(ctx SpecContext) {
		a := &kubenestv1.App{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec: kubenestv1.AppSpec{
				ProjectRef: kubenestv1.LocalReference{Name: "shop"},
				Components: []kubenestv1.Component{{Name: "web", Type: kubenestv1.ComponentWorkload, WorkloadSpec: &kubenestv1.WorkloadSpec{Image: "web:1"}}},
			},
		}
		Expect(admin.Create(ctx, a)).To(Succeed())
		a.Status.Phase, a.Status.Ready, a.Status.Clusters, a.Status.Revision = kubenestv1.AppDegraded, "1/2", "dev,prod", 3
		a.Status.Message = "worker: OOMKilled"
		Expect(admin.Status().Update(ctx, a)).To(Succeed())
		Expect(lines(ctx, "apps.kubenest.io")).To(HaveExactElements(
			Equal("NAME  PHASE  READY  CLUSTERS  REVISION  MESSAGE  AGE"),
			MatchRegexp(`^web  Degraded  1/2  dev,prod  3  worker: OOMKilled  \d+m?s?$`),
		))
		Expect(lines(ctx, "apps.kubenest.io", "-o", "wide")).To(HaveExactElements(HaveSuffix("AGE  PROJECT"), HaveSuffix("s  shop")))
	})

	It("shows a StackDeploy in one line", func(ctx SpecContext) {
		s := &kubenestv1.StackDeploy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-1"},
			Spec: kubenestv1.StackDeploySpec{
				ClusterID: "6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11", Namespace: "shop-prod", App: "web",
				Project:    kubenestv1.ProjectKey{Namespace: namespace, Name: "shop"},
				Components: []kubenestv1.Component{{Name: "web", Type: kubenestv1.ComponentWorkload, WorkloadSpec: &kubenestv1.WorkloadSpec{Image: "web:1"}}},
			},
		}
		Expect(admin.Create(ctx, s)).To(Succeed())
		s.Status.Conditions = []metav1.Condition{condition(kubenestv1.ConditionDelivered, metav1.ConditionFalse, kubenestv1.ReasonClusterDisconnected)}
		s.Status.Phase, s.Status.Message = kubenestv1.AppUnknown, "dev is away."
		Expect(admin.Status().Update(ctx, s)).To(Succeed())
		Expect(lines(ctx, "stackdeploys")).To(HaveExactElements(
			Equal("NAME  APP  NAMESPACE  DELIVERED  PHASE  MESSAGE  AGE"),
			MatchRegexp(`^web-1  web  shop-prod  False  Unknown  dev is away\.  \d+m?s?$`),
		))
		Expect(lines(ctx, "stackdeploys", "-o", "wide")).To(HaveExactElements(HaveSuffix("AGE  CLUSTER"), HaveSuffix("s  "+s.Spec.ClusterID)))
	})

	It("explains the fields in the words of their users", func(ctx SpecContext) {
		out, err := kubectl(ctx, "explain", "mc.spec", "--recursive")
		Expect(err).NotTo(HaveOccurred(), out)
		for _, field := range []string{"clusterID", "gitops", "repoURL", "-required-", "allowedProjects", "lifetime", "nodeCount", "enum: direct, argocd"} {
			Expect(out).To(ContainSubstring(field))
		}
		out, err = kubectl(ctx, "explain", "mc.spec.token.floor")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("Raising it revokes"))
		Expect(out).NotTo(ContainSubstring("kubebuilder"))
	})

	It("scales what can be scaled, and says why the rest cannot", func(ctx SpecContext) {
		Expect(admin.Create(ctx, &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "byo"}})).To(Succeed())
		out, err := kubectl(ctx, "scale", "mc/byo", "-n", namespace, "--replicas=3")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring(`has nodes that kubenest does not manage (so it cannot be scaled from here)`))
		Expect(out).NotTo(ContainSubstring("no such key"))

		provisioned := sketch(namespace, aws+"}")
		provisioned.SetName("cloud")
		Expect(admin.Create(ctx, provisioned)).To(Succeed())
		out, err = kubectl(ctx, "scale", "mc/cloud", "-n", namespace, "--replicas=3")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("scaled"))
	})
})

var _ = Describe("kstatus", func() {
	It("waits for a record that nobody has looked at yet", func(ctx SpecContext) {
		created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "org-"}}
		Expect(admin.Create(ctx, created)).To(Succeed())
		record := sketch(created.Name, "")
		Expect(admin.Create(ctx, record)).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
		result, err := kstatus.Compute(record)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Status).To(Equal(kstatus.InProgressStatus))
	})

	DescribeTable("agrees with the summary", func(name string, want kstatus.Status) {
		tt, ok := rows[name]
		Expect(ok).To(BeTrue())
		c := &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 2}, Spec: *tt.spec}
		c.Status.ObservedGeneration = 2
		c.Status.Conditions = append(append([]metav1.Condition{}, tt.known...), kubenestv1.Summarize(tt.spec, tt.known, tt.failure, tt.cutOff)...)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
		Expect(err).NotTo(HaveOccurred())
		object := &unstructured.Unstructured{Object: content}
		object.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("ManagedCluster"))
		result, err := kstatus.Compute(object)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Status).To(Equal(want), result.Message)

		c.Generation++
		content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(c)
		Expect(err).NotTo(HaveOccurred())
		object.Object = content
		object.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("ManagedCluster"))
		result, err = kstatus.Compute(object)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Status).To(Equal(kstatus.InProgressStatus), "an edit that was not looked at yet")
	},
		Entry("waits", "BYO, waits for its operator", kstatus.InProgressStatus),
		Entry("creates", "machines are being created", kstatus.InProgressStatus),
		Entry("connected", "connected", kstatus.CurrentStatus),
		Entry("complaint", "connected, operator complains", kstatus.FailedStatus),
		Entry("silent", "silent", kstatus.InProgressStatus),
		Entry("failed", "provisioning failed", kstatus.FailedStatus),
		Entry("taken", "id taken", kstatus.FailedStatus),
	)
})
