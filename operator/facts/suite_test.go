// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package facts_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/facts"
)

func TestFacts(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, "Facts")
}

const mebibyte = 1 << 20

var _ = Describe("the facts of a cluster", Ordered, func() {
	var (
		environment *envtest.Environment
		config      *rest.Config
		admin       kubernetes.Interface
		operator    *rest.Config // may nothing, until it is granted
		away        atomic.Bool  // the API server, for collectors
	)
	// collect starts a collector as somebody.
	collect := func(config *rest.Config) func(context.Context) wire.Facts {
		config = rest.CopyConfig(config)
		config.QPS = -1
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if away.Load() {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				}
				return next.RoundTrip(r)
			})
		})
		c, err := facts.NewCollector(kubernetes.NewForConfigOrDie(config), metricsclient.NewForConfigOrDie(config), GinkgoLogr)
		Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		DeferCleanup(func() {
			cancel()
			Expect(<-done).To(Succeed())
		})
		return c.Collect
	}

	BeforeAll(func(ctx context.Context) {
		environment = &envtest.Environment{}
		var err error
		config, err = environment.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(environment.Stop)
		admin = kubernetes.NewForConfigOrDie(config)
		user, err := environment.AddUser(envtest.User{Name: "operator"}, nil)
		Expect(err).NotTo(HaveOccurred())
		operator = user.Config()
		makeNode(ctx, admin, "node-a", "4", "8Gi")
		makeNode(ctx, admin, "node-b", "2", "4Gi")
		makePods(ctx, admin)
	})

	It("says the sum of requests where nothing is measured", func(ctx SpecContext) {
		f := collect(config)(ctx)
		Expect(f.Source).To(Equal(wire.SourceRequests), "the first hello says all of it")
		Expect(f.Nodes).To(HaveValue(BeEquivalentTo(2)))
		Expect(f.KubernetesVersion).To(HavePrefix("v1."))
		Expect(*f.CPUTotal).To(BeEquivalentTo(6000))
		Expect(*f.MemTotal).To(BeEquivalentTo(12 << 30))
		// web: 250m + 100m of its sidecar, and 50m overhead; its init container wants less.
		// batch: its init container wants more, 700m, than its container.
		Expect(*f.CPUUsed).To(BeEquivalentTo(400 + 700))
		Expect(*f.MemUsed).To(BeEquivalentTo((64 + 32 + 128) * mebibyte))
		Expect(f.Error).To(BeEmpty())
		Expect(f.Unreachable).To(BeEmpty())
		Expect(f.Validate()).To(Succeed())
	})

	It("follows nodes that come and go", func(ctx SpecContext) {
		get := collect(config)
		makeNode(ctx, admin, "node-c", "1", "1Gi")
		Eventually(get).WithContext(ctx).Should(HaveField("CPUTotal", HaveValue(BeEquivalentTo(7000))))
		Expect(admin.CoreV1().Nodes().Delete(ctx, "node-c", metav1.DeleteOptions{})).To(Succeed())
		Eventually(get).WithContext(ctx).Should(HaveField("Nodes", HaveValue(BeEquivalentTo(2))))
	})

	It("says what is measured, for as long as it is", func(ctx SpecContext) {
		get := collect(config)
		Eventually(get).WithContext(ctx).Should(HaveField("Source", wire.SourceRequests))
		crds, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{nodeMetricsCRD()}})
		Expect(err).NotTo(HaveOccurred())
		Consistently(get).WithContext(ctx).WithTimeout(300*time.Millisecond).
			Should(HaveField("Source", wire.SourceRequests), "no figures are not the figure zero")
		metrics := metricsclient.NewForConfigOrDie(config)
		_, err = metrics.RESTClient().Post().Resource("nodes").Body(&metricsv1beta1.NodeMetrics{
			TypeMeta:   metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetrics"},
			ObjectMeta: metav1.ObjectMeta{Name: "node-a"},
			Usage: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1234567890n"), corev1.ResourceMemory: resource.MustParse("1048999Ki"),
			},
		}).DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(get).WithContext(ctx).Should(HaveField("Source", wire.SourceMetrics))
		f := get(ctx)
		Expect(*f.CPUUsed).To(BeEquivalentTo(1240), "in steps of 10")
		Expect(*f.MemUsed).To(BeEquivalentTo(1024*mebibyte), "in steps of a mebibyte")

		Expect(envtest.UninstallCRDs(config, envtest.CRDInstallOptions{CRDs: crds})).To(Succeed())
		Eventually(get).WithContext(ctx).Should(HaveField("Source", wire.SourceRequests))
	})

	It("says since when the API server is away, in the same words each time", func(ctx SpecContext) {
		get := collect(config)
		Eventually(get).WithContext(ctx).Should(HaveField("Nodes", Not(BeNil())))
		away.Store(true)
		DeferCleanup(away.Store, false)
		first := get(ctx)
		Expect(first.Unreachable).To(And(ContainSubstring("can not reach the API server of its cluster since 20"), ContainSubstring("connection refused")))
		Expect(first.Nodes).To(BeNil())
		Expect(first.CPUTotal).To(BeNil())
		Expect(first.CPUUsed).To(BeNil())
		Expect(first.Source).To(BeEmpty())
		second := get(ctx)
		Expect(first.Equal(&second)).To(BeTrue(), "an outage is told once, not with each heartbeat")
		away.Store(false)
		Expect(get(ctx)).To(And(HaveField("Unreachable", BeEmpty()), HaveField("Nodes", HaveValue(BeEquivalentTo(2)))))
	})

	It("says which right is missing, and mends itself when it is given", func(ctx SpecContext) {
		get := collect(operator)
		Eventually(get).WithContext(ctx).Should(HaveField("Error", And(
			ContainSubstring("may not list and watch nodes"), ContainSubstring("may not list and watch pods"),
			ContainSubstring("helm upgrade"),
		)))
		f := get(ctx)
		Expect(f.Nodes).To(BeNil())
		Expect(f.CPUUsed).To(BeNil())
		Expect(f.KubernetesVersion).NotTo(BeEmpty())

		_, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "operator"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list", "watch"}},
				{APIGroups: []string{"metrics.k8s.io"}, Resources: []string{"nodes"}, Verbs: []string{"list"}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "operator"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "operator"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "operator"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(get).WithContext(ctx).WithTimeout(2 * time.Minute).WithPolling(250 * time.Millisecond).Should(And(
			HaveField("Error", BeEmpty()), HaveField("Nodes", HaveValue(BeEquivalentTo(2))), HaveField("Source", wire.SourceRequests),
		))
	})

	It("reads the cluster's UID, however long that takes", func(ctx SpecContext) {
		away.Store(true)
		DeferCleanup(away.Store, false)
		config := rest.CopyConfig(config)
		tried := make(chan struct{}, 100)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				tried <- struct{}{}
				if away.Load() {
					return nil, errors.New("away")
				}
				return next.RoundTrip(r)
			})
		})
		type answer struct {
			uid string
			err error
		}
		answers := make(chan answer, 1)
		go func() {
			uid, err := facts.ClusterUID(ctx, kubernetes.NewForConfigOrDie(config).CoreV1(), GinkgoLogr)
			answers <- answer{uid, err}
		}()
		Eventually(tried).Should(Receive())
		away.Store(false)
		namespace, err := admin.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(answers).Should(Receive(Equal(answer{uid: string(namespace.UID)})))
	})

	It("stops reading the cluster's UID when it is told to", func(ctx SpecContext) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := facts.ClusterUID(ended, admin.CoreV1(), GinkgoLogr)
		Expect(err).To(MatchError(context.Canceled))
	})
})

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func makeNode(ctx context.Context, client kubernetes.Interface, name, cpu, memory string) {
	GinkgoHelper()
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	node.Status.Capacity = resources(cpu, memory)
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// makePods makes two that count, and some that do not.
func makePods(ctx context.Context, client kubernetes.Interface) {
	GinkgoHelper()
	container := func(name, cpu, memory string) corev1.Container {
		return corev1.Container{Name: name, Image: "none", Resources: corev1.ResourceRequirements{Requests: resources(cpu, memory)}}
	}
	create := func(name, node string, phase corev1.PodPhase, change func(*corev1.PodSpec)) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{container("main", "250m", "64Mi")}},
		}
		if change != nil {
			change(&pod.Spec)
		}
		pod, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod.Status.Phase = phase
		_, err = client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	_, err := client.NodeV1().RuntimeClasses().Create(ctx, &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "none",
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	create("web", "node-a", corev1.PodRunning, func(s *corev1.PodSpec) {
		always := corev1.ContainerRestartPolicyAlways
		sidecar := container("sidecar", "100m", "32Mi")
		sidecar.RestartPolicy = &always
		s.InitContainers = []corev1.Container{sidecar, container("init", "10m", "1Mi")}
		s.RuntimeClassName = new("sandboxed")
	})
	create("batch", "node-b", corev1.PodPending, func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{container("init", "700m", "128Mi")}
	})
	create("done", "node-a", corev1.PodSucceeded, nil)
	create("failed", "node-a", corev1.PodFailed, nil)
	create("unscheduled", "", corev1.PodPending, nil)
}

// nodeMetricsCRD stands in for metrics-server.
func nodeMetricsCRD() *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "nodes.metrics.k8s.io",
			Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, for a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "metrics.k8s.io", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "nodes", Singular: "nodemetrics", Kind: "NodeMetrics"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1beta1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
}
