// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
	"github.com/kubenest/kubenest/operator/election"
	"github.com/kubenest/kubenest/operator/setup"
)

func TestOperator(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(40 * time.Second)
	RunSpecs(t, "Operator")
}

const namespace = "kubenest-system"

// process is an operator as main runs it.
type process struct {
	options *setup.Options
	away    atomic.Bool // the API server, for this one
	noCRDs  atomic.Bool // the API server does not answer about CRDs
	stop    func()      // and wait

	mu  sync.Mutex
	log bytes.Buffer
}

func start(config *rest.Config, directory, pod string, change ...func(*process)) *process {
	GinkgoHelper()
	p := &process{options: setup.NewOptions()}
	for _, c := range change {
		c(p)
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if p.away.Load() || p.noCRDs.Load() && strings.Contains(r.URL.Path, "/customresourcedefinitions") {
				return nil, errors.New("the API server is away")
			}
			return next.RoundTrip(r)
		})
	})
	p.options.Cluster.Config, p.options.Cluster.Namespace, p.options.Cluster.PodName = config, namespace, pod
	p.options.Hub.ConnectionDirectory = directory
	p.options.Probes.HealthAddress, p.options.Probes.MetricsAddress = freeAddress(), freeAddress()
	log := funcr.New(func(_, args string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.log.WriteString(args + "\n")
	}, funcr.Options{Verbosity: 1})
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), log))
	done := make(chan error, 1)
	go func() { done <- setup.Run(ctx, p.options) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		Expect(<-done).To(Succeed())
	})
	DeferCleanup(func() {
		p.stop()
		AddReportEntry("log of "+pod, p.logged(), ReportEntryVisibilityFailureOrVerbose)
	})
	return p
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) get(address, path string) func() string {
	return func() string {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d %s", response.StatusCode, body)
	}
}

func (p *process) probe(path string) func() string {
	return p.get(p.options.Probes.HealthAddress, path)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// operatorConfig is for a user who has the rights that config/rbac/operator gives.
func operatorConfig(environment *envtest.Environment) *rest.Config {
	GinkgoHelper()
	user, err := environment.AddUser(envtest.User{
		Name:   "system:serviceaccount:" + namespace + ":kubenest-operator",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}, nil)
	Expect(err).NotTo(HaveOccurred())
	return user.Config()
}

// install applies the operator's manifests, as an administrator does.
func install(environment *envtest.Environment) {
	GinkgoHelper()
	user, err := environment.AddUser(envtest.User{Name: "root", Groups: []string{"system:masters"}}, nil)
	Expect(err).NotTo(HaveOccurred())
	kubectl, err := user.Kubectl()
	Expect(err).NotTo(HaveOccurred())
	_, failed, err := kubectl.Run("apply", "--server-side", "-k", filepath.Join("..", "..", "config", "rbac", "operator"))
	text, _ := io.ReadAll(failed)
	Expect(err).NotTo(HaveOccurred(), string(text))
}

func freeAddress() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	Expect(listener.Close()).To(Succeed())
	return listener.Addr().String()
}

func message[T any](s *agenttest.Session, of wire.Type) func() (T, error) {
	return func() (m T, err error) {
		for {
			select {
			case e := <-s.Messages:
				if e.Type == of {
					err = e.Read(&m)
					return m, err
				}
			default:
				return m, fmt.Errorf("no %s yet", of)
			}
		}
	}
}

var _ = Describe("an operator", Ordered, func() {
	var (
		config    *rest.Config // with the operator's own rights
		client    kubernetes.Interface
		hub       *agenttest.Hub
		directory string
		token     string
	)
	write := func(key, value string) {
		Expect(os.WriteFile(filepath.Join(directory, key), []byte(value), 0o600)).To(Succeed())
	}
	events := func() ([]string, error) {
		list, err := client.EventsV1().Events(namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var out []string
		for _, e := range list.Items {
			out = append(out, e.Type+" "+e.Reason+" "+e.Regarding.Kind+"/"+e.Regarding.Name+": "+e.Note)
		}
		return out, nil
	}

	BeforeAll(func(ctx context.Context) {
		environment := &envtest.Environment{}
		admin, err := environment.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(environment.Stop)
		client = kubernetes.NewForConfigOrDie(admin)
		config = operatorConfig(environment)
		_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "operator-1"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "none"}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		install(environment)
	})
	BeforeEach(func() {
		hub = agenttest.Start(GinkgoTB(), nil, nil)
		directory = GinkgoT().TempDir()
		token = agenttest.Token(GinkgoTB(), agenttest.Claims{Generation: 1})
		write("token", token)
		write("cluster-id", agenttest.ClusterID)
		write("hub-url", hub.URL+"/")
		write("ca.crt", hub.CA)
	})

	It("connects, tells its state, and says goodbye", func(ctx SpecContext) {
		p := start(config, directory, "operator-1")
		var s *agenttest.Session
		Eventually(hub.Sessions).Should(Receive(&s))
		kubeSystem, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Hello.ClusterUID).To(BeEquivalentTo(kubeSystem.UID))
		Expect(s.Hello.Facts.KubernetesVersion).To(HavePrefix("v1."))
		Eventually(p.probe("/readyz")).Should(HavePrefix("200 ok"))
		Expect(p.probe("/healthz")()).To(HavePrefix("200 ok"))
		Eventually(p.get(p.options.Probes.MetricsAddress, "/metrics")).Should(And(
			ContainSubstring("kubenest_operator_connected 1"),
			ContainSubstring(`kubenest_operator_connection_attempts_total{result="welcomed"} 1`),
		))
		Eventually(events).Should(ContainElement(HavePrefix("Normal Connected Pod/operator-1: ")))

		By("storing what the hub hands over")
		renewed := agenttest.Token(GinkgoTB(), agenttest.Claims{Generation: 2})
		Expect(s.Send(wire.TypeCredential, wire.Credential{ID: "1", Token: renewed})).To(Succeed())
		Eventually(message[wire.Stored](s, wire.TypeStored)).Should(Equal(wire.Stored{ID: "1"}))
		secret, err := client.CoreV1().Secrets(namespace).Get(ctx, credentials.SessionSecret, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(string(secret.Data["token"])).To(Equal(renewed))

		By("keeping the session while the API server is away")
		p.away.Store(true)
		Eventually(func() (string, error) {
			beat, err := message[wire.Heartbeat](s, wire.TypeHeartbeat)()
			if err != nil || beat.Facts == nil {
				return "", nil
			}
			return beat.Facts.Unreachable, nil
		}).Should(ContainSubstring("can not reach the API server"))
		s.Cut()
		Eventually(hub.Sessions).Should(Receive(&s))
		Expect(s.Attempt.Token).To(Equal(renewed), "it is known without the API server")
		p.away.Store(false)

		p.stop()
		Eventually(s.Done).Should(BeClosed())
		Expect(s.Ended.Ending).To(Equal(wire.EndGoodbye))
		lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, election.LeaseName, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(lease.Spec.HolderIdentity).To(HaveValue(BeEmpty()))
		for _, t := range []string{token, renewed} {
			Expect(p.logged()).NotTo(ContainSubstring(t[:12]))
			Expect(events()).NotTo(ContainElement(ContainSubstring(t[:12])))
		}
	})

	It("connects before it can deploy, and deploys once it can", func(ctx SpecContext) {
		p := start(config, directory, "operator-1", func(p *process) { p.noCRDs.Store(true) })
		var s *agenttest.Session
		Eventually(hub.Sessions).Should(Receive(&s))
		Eventually(p.probe("/readyz")).Should(HavePrefix("200 ok"))
		Eventually(p.logged).Should(ContainSubstring("The CRD can not be applied yet, trying again"))
		Expect(message[wire.Inventory](s, wire.TypeInventory)()).Error().To(HaveOccurred(), "it does not know yet what it has")

		p.noCRDs.Store(false)
		Eventually(message[wire.Inventory](s, wire.TypeInventory)).Should(Equal(wire.Inventory{Stacks: []wire.Held{}}))
		spec := []byte(`{"clusterID":"` + agenttest.ClusterID + `","namespace":"shop","project":{"namespace":"acme","name":"shop"},"namespaceSettings":{}}`)
		stack := wire.Stack{Namespace: "acme", Name: "shop"}
		delivery := wire.Delivery{UID: "7d1f5bb4-0000-4000-8000-000000000001", Generation: 1, Digest: wire.Digest(spec)}
		Expect(s.Send(wire.TypeDeliver, wire.Deliver{Stack: stack, Delivery: delivery, Schema: 1, Spec: spec})).To(Succeed())
		Eventually(message[wire.Delivered](s, wire.TypeDelivered)).Should(Equal(wire.Delivered{Stack: stack, Delivery: delivery}))
		Eventually(message[wire.Report](s, wire.TypeReport)).Should(And(
			HaveField("Stack", stack), HaveField("Delivery", delivery),
			HaveField("Status", WithTransform(func(status json.RawMessage) string { return string(status) }, ContainSubstring(kubenestv1.ReasonNamespaceReady))),
		))
		_, err := client.CoreV1().ServiceAccounts("shop").Get(ctx, kubenestv1.ProjectServiceAccount, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())

		By("telling the next hub what it has, and that it did not begin anew")
		s.Cut()
		var next *agenttest.Session
		Eventually(hub.Sessions).Should(Receive(&next))
		Expect(next.Hello.Process).To(Equal(s.Hello.Process))
		Eventually(message[wire.Inventory](next, wire.TypeInventory)).Should(Equal(wire.Inventory{Stacks: []wire.Held{{Stack: stack, Delivery: delivery}}}))
		Expect(next.Send(wire.TypeRemove, wire.Remove{Stack: stack})).To(Succeed())
		Eventually(func() (*metav1.Time, error) {
			shop, err := client.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return shop.DeletionTimestamp, nil
		}).ShouldNot(BeNil(), "nothing ends it here, since there is no controller manager")
		p.stop()
	})

	It("says in an Event why the hub refuses it", func() {
		hub.Answer(wire.Refuse(wire.ClassUnknownCluster, "no record has this cluster's id: apply it, or uninstall the operator"))
		p := start(config, directory, "no-such-pod")
		Eventually(events).Should(ContainElement(And(
			HavePrefix("Warning RefusedUnknownCluster Namespace/"+namespace), ContainSubstring("uninstall the operator"),
		)))
		Expect(p.probe("/healthz")()).To(HavePrefix("200"))
		p.stop()
	})

	It("stands by while another one is connected, and takes over", func() {
		first := start(config, directory, "operator-1")
		var s *agenttest.Session
		Eventually(hub.Sessions).Should(Receive(&s))
		second := start(config, directory, "operator-2")
		Eventually(second.probe("/readyz")).Should(HavePrefix("200"), "a rollout waits for that")
		Consistently(hub.Sessions, "500ms").ShouldNot(Receive())
		first.stop()
		var next *agenttest.Session
		Eventually(hub.Sessions).Should(Receive(&next))
		Expect(next.Hello.Process).NotTo(Equal(s.Hello.Process))
		second.stop()
	})

	It("fails when an address is taken", func(ctx SpecContext) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		o := setup.NewOptions()
		o.Cluster.Config, o.Hub.ConnectionDirectory = config, directory
		o.Probes.HealthAddress, o.Probes.MetricsAddress = listener.Addr().String(), "0"
		Expect(setup.Run(ctx, o)).To(MatchError(ContainSubstring(listener.Addr().String())))
	})
})
