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
