// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/deploy"
	"github.com/kubenest/kubenest/operator/inputs"
	"github.com/kubenest/kubenest/operator/namespace"
	"github.com/kubenest/kubenest/operator/objects"
	"github.com/kubenest/kubenest/operator/stack"
)

const (
	system    = "kubenest-system"
	kept      = "kubenest-inputs"
	clusterID = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
	hubSide   = "platform"
)

var (
	api      client.Client // an administrator's, not cached
	operator *rest.Config  // with the operator's own rights
	scheme   = runtime.NewScheme()
)

func TestDeploy(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultConsistentlyDuration(1500 * time.Millisecond)
	RunSpecs(t, "Deploy")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	logf.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := env.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)
	config.QPS, config.Burst = 500, 1000
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(kubenestv1.AddToScheme(scheme)).To(Succeed())
	api, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	Expect(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})).To(Succeed())
	fillAdmin(ctx)
	for _, file := range []string{"service_account", "cluster_role", "role", "inputs"} {
		install(ctx, filepath.Join("..", "..", "config", "rbac", "operator", file+".yaml"))
	}
	user, err := env.AddUser(envtest.User{
		Name: "system:serviceaccount:" + system + ":kubenest-operator", Groups: []string{"system:serviceaccounts"},
	}, &rest.Config{QPS: 500, Burst: 1000})
	Expect(err).NotTo(HaveOccurred())
	operator = user.Config()
})

// fillAdmin does what the controller manager does, which is not here: it gathers the
// rules of the role admin.
func fillAdmin(ctx context.Context) {
	var roles rbacv1.ClusterRoleList
	var rules []rbacv1.PolicyRule
	Eventually(func(g Gomega) {
		rules = nil
		g.Expect(api.List(ctx, &roles)).To(Succeed())
		for _, r := range roles.Items {
			for label := range r.Labels {
				if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") {
					rules = append(rules, r.Rules...)
				}
			}
		}
		var admin rbacv1.ClusterRole
		g.Expect(api.Get(ctx, client.ObjectKey{Name: "admin"}, &admin)).To(Succeed())
		g.Expect(len(rules)).To(BeNumerically(">", 10))
		admin.Rules = rules
		g.Expect(api.Update(ctx, &admin)).To(Succeed())
	}).Should(Succeed())
}

// install applies a file of objects.
func install(ctx context.Context, file string) {
	f, err := os.Open(file)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = f.Close() }()
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); err != nil {
			return
		}
		if o.Object != nil {
			Expect(api.Create(ctx, o)).To(Succeed(), file)
		}
	}
}

// ways are the other ways of delivering, as far as these tests need them.
type ways struct {
	mu        sync.Mutex
	addons    map[string]*delivery.Release // by component
	rendered  map[string][]*unstructured.Unstructured
	exports   map[string]map[string]string // what an addon exports, and its revision under ""
	problems  map[string]*stack.Problem
	left      map[string][]string // what removals wait for
	ensured   map[string]int
	removed   []string
	forgotten []string
	released  []*delivery.Publication
	published []*delivery.Publication
	sync      delivery.Sync
}

func newWays() *ways {
	return &ways{
		addons: map[string]*delivery.Release{}, rendered: map[string][]*unstructured.Unstructured{}, exports: map[string]map[string]string{},
		problems: map[string]*stack.Problem{}, left: map[string][]string{}, ensured: map[string]int{}, sync: delivery.Sync{Synced: true, Healthy: true},
	}
}

func (w *ways) with(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *ways) Ensure(_ context.Context, a *delivery.Addon) (*delivery.Release, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ensured[a.Component.Name]++
	if p := w.problems[a.Component.Name]; p != nil {
		return nil, p
	}
	if r := w.addons[a.Component.Name]; r != nil {
		release := *r
		return &release, nil
	}
	return &delivery.Release{State: delivery.ReleaseWorking, Chart: "db-1.0.0"}, nil
}

func (w *ways) Render(_ context.Context, a *delivery.Addon) ([]*unstructured.Unstructured, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.problems[a.Component.Name]; p != nil {
		return nil, p
	}
	return w.rendered[a.Component.Name], nil
}

func (w *ways) Remove(_ context.Context, a *delivery.Addon) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := w.left[a.Component.Name]; len(left) > 0 {
		return left, nil
	}
	w.removed = append(w.removed, a.Component.Name)
	return nil, nil
}

func (w *ways) Forget(_ context.Context, a *delivery.Addon) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := w.left["helm"]; len(left) > 0 {
		return left, nil
	}
	w.forgotten = append(w.forgotten, a.Target.Namespace+"/"+a.Component.Name)
	return nil, nil
}

type exporter struct{ *ways }

func (e exporter) Ensure(_ context.Context, a *delivery.Addon, _ []*unstructured.Unstructured) ([]string, string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var keys []string
	for k := range e.exports[a.Component.Name] {
		if k != "" {
			keys = append(keys, k)
		}
	}
	return keys, e.exports[a.Component.Name][""], nil
}

func (e exporter) Remove(context.Context, *delivery.Addon) error { return nil }

type repository struct{ *ways }

func (r repository) Publish(_ context.Context, p *delivery.Publication) (*delivery.Sync, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = append(r.published, p)
	s := r.sync
	return &s, nil
}

func (r repository) Remove(context.Context, *delivery.Publication) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left["argocd"], nil
}

func (r repository) Release(_ context.Context, p *delivery.Publication) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = append(r.released, p)
	return r.left["argocd"], nil
}

// process is an operator as far as it deploys.
type process struct {
	*ways
	reconciler *deploy.Reconciler
	recorder   *events.FakeRecorder
	store      inputs.Store
	stop       func()
}

// start runs a controller with the operator's rights until stop, or the test's end.
func start(w *ways) *process {
	GinkgoHelper()
	mgr, err := ctrl.NewManager(operator, ctrl.Options{
		Scheme: scheme, Cache: deploy.CacheOptions(system), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	direct, err := client.New(operator, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	rules, err := stack.NewRules(mgr.GetRESTMapper())
	Expect(err).NotTo(HaveOccurred())
	p := &process{ways: w, recorder: events.NewFakeRecorder(1000), store: inputs.Store{Client: direct, Namespace: kept}}
	p.reconciler = deploy.NewReconciler(deploy.Options{
		Client: mgr.GetClient(), Namespace: system,
		Objects: objects.NewApplier(objects.Options{
			Config: operator, Cache: mgr.GetCache(), Scheme: scheme, Mapper: mgr.GetRESTMapper(), Rules: rules,
		}),
		Namespaces: &namespace.Keeper{Client: direct, Cache: mgr.GetCache(), Own: system},
		Addons:     w, Exports: exporter{w}, GitOps: repository{w}, Inputs: p.store, Events: p.recorder,
	})
	ctx, cancel := context.WithCancel(context.Background())
	Expect(p.reconciler.SetupWithManager(ctx, mgr)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		Eventually(done, "30s").Should(Receive(BeNil()))
	})
	DeferCleanup(p.stop)
	return p
}

func (p *process) events() []string {
	var list []string
	for {
		select {
		case e := <-p.recorder.Events:
			list = append(list, e)
		default:
			return list
		}
	}
}

// project delivers a Project's namespace.
func project(ctx context.Context, name string, mutate ...func(*kubenestv1.StackDeploySpec)) *kubenestv1.StackDeploy {
	GinkgoHelper()
	s := delivered(kubenestv1.StackName("project", name, clusterID), name, mutate...)
	if s.Spec.NamespaceSettings == nil {
		s.Spec.NamespaceSettings = &kubenestv1.NamespaceSettings{Labels: map[string]string{"team": "store"}}
	}
	Expect(api.Create(ctx, s)).To(Succeed())
	return s
}

// application delivers an App of the Project of the same name as the namespace.
func application(ctx context.Context, project string, components []kubenestv1.Component, mutate ...func(*kubenestv1.StackDeploySpec)) *kubenestv1.StackDeploy {
	GinkgoHelper()
	s := delivered(kubenestv1.StackName("app", "shop-"+project, clusterID), project, mutate...)
	s.Spec.App, s.Spec.Components = "shop", components
	Expect(api.Create(ctx, s)).To(Succeed())
	return s
}

func delivered(name, project string, mutate ...func(*kubenestv1.StackDeploySpec)) *kubenestv1.StackDeploy {
	source := &kubenestv1.StackSource{Namespace: hubSide, Name: name, UID: "u", Generation: 1, Digest: "d1"}
	s := &kubenestv1.StackDeploy{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: kubenestv1.LocalName(source)},
		Spec: kubenestv1.StackDeploySpec{
			ClusterID: clusterID, Namespace: project, Project: kubenestv1.ProjectKey{Namespace: hubSide, Name: project},
			Source: source, Delivery: kubenestv1.DeliveryDirect,
		},
	}
	for _, m := range mutate {
		m(&s.Spec)
	}
	return s
}

// edit delivers a new spec.
func edit(ctx context.Context, s *kubenestv1.StackDeploy, change func(*kubenestv1.StackDeploySpec)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		s.Spec.Source.Generation++
		change(&s.Spec)
		return api.Update(ctx, s)
	}).Should(Succeed())
}

// status of a StackDeploy, in a line: "phase; component=phase/reason …; message".
func status(ctx context.Context, s *kubenestv1.StackDeploy) func() (string, error) {
	return func() (string, error) {
		var live kubenestv1.StackDeploy
		if err := api.Get(ctx, client.ObjectKeyFromObject(s), &live); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		if live.Status.ObservedGeneration != live.Generation {
			return "not taken up yet", nil
		}
		line := string(live.Status.Phase) + ";"
		for _, c := range live.Status.Components {
			line += " " + c.Name + "=" + string(c.Phase) + "/" + c.Reason
		}
		return line + "; " + live.Status.Message, nil
	}
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
