// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/inbox"
	"github.com/kubenest/kubenest/operator/inputs"
	"github.com/kubenest/kubenest/operator/stack"
)

const (
	clusterID = "6f1c2f0e-0000-4000-8000-000000000017"
	// password is in every input and export, and may be nowhere else.
	password = "hunter2-is-the-password"
)

var (
	apiConfig *rest.Config
	api       client.WithWatch // not cached
	scheme    = runtime.NewScheme()
)

func TestInbox(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultConsistentlyDuration(time.Second)
	RunSpecs(t, "Inbox")
}

var _ = BeforeSuite(func() {
	logf.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	var err error
	apiConfig, err = env.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)
	apiConfig.QPS, apiConfig.Burst = 500, 1000
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(kubenestv1.AddToScheme(scheme)).To(Succeed())
	api, err = client.NewWithWatch(apiConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})

// operator is an inbox in a namespace of its own.
type operator struct {
	*inbox.Inbox
	namespace string
	inputs    inputs.Store
	logged    func() string
}

// newOperator makes one. Its writes go through what intercepts.
func newOperator(intercept interceptor.Funcs) *operator {
	GinkgoHelper()
	o := &operator{namespace: newNamespace("system-")}
	o.inputs = inputs.Store{Client: api, Namespace: o.namespace}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	DeferCleanup(func() {
		cancel()
		running.Wait()
	})
	followed, err := cache.New(apiConfig, cache.Options{Scheme: scheme, ByObject: map[client.Object]cache.ByObject{
		&kubenestv1.StackDeploy{}: {Namespaces: map[string]cache.Config{o.namespace: {}}},
	}})
	Expect(err).NotTo(HaveOccurred())
	running.Go(func() {
		defer GinkgoRecover()
		Expect(followed.Start(ctx)).To(Succeed())
	})
	var (
		mu  sync.Mutex
		log bytes.Buffer
	)
	o.logged = func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	o.Inbox, err = inbox.New(inbox.Options{
		Cache: followed, Client: interceptor.NewClient(api, intercept), Projects: asProject, Inputs: o.inputs, Namespace: o.namespace,
		Log: funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			log.WriteString(args + "\n")
		}, funcr.Options{Verbosity: 9}),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(o.logged()).NotTo(ContainSubstring("hunter2")) })
	return o
}

func newNamespace(prefix string) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	Expect(api.Create(context.Background(), ns)).To(Succeed())
	return ns.Name
}

// asProject acts with the rights of the Project in a namespace, and no others.
func asProject(namespace string) (client.Client, error) {
	return client.New(stack.As(apiConfig, namespace), client.Options{Scheme: scheme})
}

// newProject makes a namespace in which the Project may read Secrets.
func newProject() string {
	GinkgoHelper()
	namespace := newNamespace("shop-")
	Expect(api.Create(context.Background(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: kubenestv1.ProjectServiceAccount},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}},
	})).To(Succeed())
	Expect(api.Create(context.Background(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: kubenestv1.ProjectServiceAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: kubenestv1.ProjectServiceAccount},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: kubenestv1.ProjectServiceAccount}},
	})).To(Succeed())
	return namespace
}

// exportsSecret is what whoever deploys keeps of the exports of acme/shop's addon db.
func exportsSecret(namespace, revision, dsn string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: kubenestv1.ExportsSecretName("shop", "db"),
			Labels: map[string]string{kubenestv1.ExportsLabel: "true", kubenestv1.ComponentLabel: "db"},
			Annotations: map[string]string{
				kubenestv1.OwnerAnnotation: clusterID + "/acme/shop", kubenestv1.ExportsRevisionAnnotation: revision,
			},
		},
		Data: map[string][]byte{"dsn": []byte(dsn)},
	}
}

// appSpec of an App with a workload and an addon.
func appSpec(namespace string, change ...func(*kubenestv1.StackDeploySpec)) kubenestv1.StackDeploySpec {
	const port = 8080
	spec := kubenestv1.StackDeploySpec{
		ClusterID: clusterID, Namespace: namespace, App: "shop",
		Project: kubenestv1.ProjectKey{Namespace: "acme", Name: "shop"}, Revision: 1,
		Components: []kubenestv1.Component{
			{
				Name: "web", Type: kubenestv1.ComponentWorkload,
				WorkloadSpec: &kubenestv1.WorkloadSpec{Image: "registry.example.com/web:1", Port: port},
			},
			{
				Name: "db", Type: kubenestv1.ComponentAddon,
				AddonSpec: &kubenestv1.AddonSpec{Type: "other", Chart: kubenestv1.Chart{OCI: "oci://registry.example.com/charts/db", Version: "1.0.0"}},
			},
		},
		Delivery: kubenestv1.DeliveryDirect,
	}
	for _, c := range change {
		c(&spec)
	}
	return spec
}

// delivery of a spec, as a hub sends it.
func delivery(name string, generation int64, spec any, in ...wire.Input) *wire.Deliver {
	GinkgoHelper()
	data, err := json.Marshal(spec)
	Expect(err).NotTo(HaveOccurred())
	d := &wire.Deliver{
		Stack:    wire.Stack{Namespace: "acme", Name: name},
		Delivery: wire.Delivery{UID: "7d1f5bb4-0000-4000-8000-000000000001", Generation: generation, Digest: wire.Digest(data)},
		Schema:   kubenestv1.StackDeploySchema, Spec: data, Inputs: in,
	}
	Expect(d.Validate()).To(Succeed())
	return d
}

// exportsInput is an input, and how a spec lists it.
func exportsInput(revision string) (wire.Input, kubenestv1.StackInput) {
	listed := kubenestv1.StackInput{Name: "other-db-exports", Kind: kubenestv1.InputExports, Revision: revision}
	return wire.Input{
		Name: listed.Name, Kind: string(listed.Kind), Revision: revision, Data: map[string][]byte{"dsn": []byte(password + revision)},
	}, listed
}

func listing(in ...kubenestv1.StackInput) func(*kubenestv1.StackDeploySpec) {
	return func(s *kubenestv1.StackDeploySpec) { s.Inputs = in }
}

func (o *operator) local(name string) string {
	return kubenestv1.LocalName(&kubenestv1.StackSource{Namespace: "acme", Name: name})
}

// copy reads the operator's copy.
func (o *operator) copy(ctx context.Context, name string) *kubenestv1.StackDeploy {
	GinkgoHelper()
	var s kubenestv1.StackDeploy
	Expect(api.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: o.local(name)}, &s)).To(Succeed())
	return &s
}

// kept are the revisions of the inputs that are kept.
func (o *operator) kept(ctx context.Context) []string {
	GinkgoHelper()
	var list corev1.SecretList
	Expect(api.List(ctx, &list, client.InNamespace(o.namespace), client.HasLabels{inputs.StackLabel})).To(Succeed())
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Annotations[inputs.RevisionAnnotation])
	}
	slices.Sort(out)
	return out
}

// taken is what whoever deploys says of a copy.
func (o *operator) taken(ctx context.Context, name string, phase kubenestv1.AppPhase) {
	GinkgoHelper()
	s := o.copy(ctx, name)
	s.Status.Source, s.Status.Phase = s.Spec.Source, phase
	Expect(api.Status().Update(ctx, s)).To(Succeed())
}

// exported is what whoever deploys says of db's exports. None are of an empty revision.
func (o *operator) exported(ctx context.Context, name, revision string) {
	GinkgoHelper()
	s := o.copy(ctx, name)
	s.Status.Components = []kubenestv1.ComponentStatus{
		{Name: "web", Type: kubenestv1.ComponentWorkload},
		{Name: "db", Type: kubenestv1.ComponentAddon, ExportsRevision: revision},
	}
	Expect(api.Status().Update(ctx, s)).To(Succeed())
}

// notes are topics that were noted.
type notes struct {
	mu   sync.Mutex
	seen []string
}

func (n *notes) note(t agent.Topic) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, strings.TrimSuffix(string(t.Type)+" "+t.Stack.Name+" "+t.Component, " "))
}

// take returns what was noted since the last call.
func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen
	n.seen = nil
	return seen
}

// gathered returns what was noted since the first call.
func (n *notes) gathered() func() []string {
	var seen []string
	return func() []string {
		seen = append(seen, n.take()...)
		return seen
	}
}

// follow has the operator followed until the test ends.
func (o *operator) follow() *notes {
	n := &notes{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer GinkgoRecover()
		if err := o.Follow(ctx, n.note); ctx.Err() == nil {
			Expect(err).NotTo(HaveOccurred())
		}
	}()
	DeferCleanup(func() {
		cancel()
		Eventually(done).Should(BeClosed())
	})
	return n
}
