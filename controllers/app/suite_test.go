// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/clusters"
)

var (
	apiConfig *rest.Config
	api       client.Client // not cached
	scheme    = runtime.NewScheme()
)

func TestApp(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not say where a kube-apiserver is")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultConsistentlyDuration(time.Second)
	RunSpecs(t, "App")
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
	api, err = client.New(apiConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})

// hub is an organization with Project shop on cluster a, beside which there is
// cluster b, and the controller of its Apps.
type hub struct {
	ctx       context.Context
	namespace string
	stop      func()
	later     time.Duration // by which the hub's clock is ahead
}

// ahead is a clock that is ahead of the real one.
type ahead struct{ by time.Duration }

func (a ahead) Now() time.Time                  { return time.Now().Add(a.by) }
func (a ahead) Since(t time.Time) time.Duration { return a.Now().Sub(t) }

func startHub() *hub {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "org-", Labels: map[string]string{kubenestv1.OrganizationLabel: "true"}}}
	Expect(api.Create(context.Background(), ns)).To(Succeed())
	h := &hub{ctx: context.Background(), namespace: ns.Name}
	h.cluster("a")
	h.cluster("b")
	Expect(api.Create(h.ctx, &kubenestv1.Project{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "shop"},
		Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: "a"}},
	})).To(Succeed())
	h.start()
	DeferCleanup(func() { h.stop() })
	return h
}

// start has the controller run.
func (h *hub) start() {
	ctx, cancel := context.WithCancel(context.Background())
	here := map[string]cache.Config{h.namespace: {}}
	mgr, err := ctrl.NewManager(apiConfig, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&kubenestv1.ManagedCluster{}: {}, // those of other organizations, too
			&kubenestv1.Project{}:        {Namespaces: here},
			&kubenestv1.App{}:            {Namespaces: here},
			&kubenestv1.StackDeploy{}:    {Namespaces: here},
		}},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(Index(ctx, mgr.GetFieldIndexer())).To(Succeed())
	Expect(mgr.GetFieldIndexer().IndexField(ctx, &kubenestv1.ManagedCluster{}, clusters.IndexID, func(o client.Object) []string {
		return []string{o.(*kubenestv1.ManagedCluster).ID()}
	})).To(Succeed())
	Expect((&Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("kubenest-hub"), Clock: ahead{h.later},
	}).SetupWithManager(mgr)).To(Succeed())
	stopped := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(stopped)
		Expect(mgr.Start(ctx)).To(Succeed())
	}()
	h.stop = func() {
		cancel()
		Eventually(stopped).Should(BeClosed())
	}
	Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
}

// cluster registers a cluster that is connected.
func (h *hub) cluster(name string) *kubenestv1.ManagedCluster {
	record := &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}
	Expect(api.Create(h.ctx, record)).To(Succeed())
	h.connected(name, metav1.ConditionTrue, time.Now())
	return record
}

// connected says whether a cluster has a session, and since when.
func (h *hub) connected(name string, connected metav1.ConditionStatus, since time.Time) {
	GinkgoHelper()
	Eventually(func() error {
		record := h.record(name)
		record.Status.ClusterUID = "pinned-" + name
		connect(record, connected, since)
		return api.Status().Update(h.ctx, record)
	}).Should(Succeed())
}

func (h *hub) record(name string) *kubenestv1.ManagedCluster {
	GinkgoHelper()
	var record kubenestv1.ManagedCluster
	Expect(api.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, &record)).To(Succeed())
	return &record
}

func (h *hub) editCluster(name string, change func(*kubenestv1.ManagedCluster)) {
	GinkgoHelper()
	Eventually(func() error {
		record := h.record(name)
		change(record)
		return api.Update(h.ctx, record)
	}).Should(Succeed())
}

// create applies App web of Project shop, as a user would.
func (h *hub) create(components ...kubenestv1.Component) {
	GinkgoHelper()
	Expect(api.Create(h.ctx, h.newApp(components...))).To(Succeed())
}

func (h *hub) newApp(components ...kubenestv1.Component) *kubenestv1.App {
	return &kubenestv1.App{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "app"},
		Spec:       kubenestv1.AppSpec{ProjectRef: kubenestv1.LocalReference{Name: "shop"}, Components: components},
	}
}

// edit changes the App as a user would.
func (h *hub) edit(change func(*kubenestv1.App)) {
	GinkgoHelper()
	Eventually(func() error {
		app := h.app()
		change(app)
		return api.Update(h.ctx, app)
	}).Should(Succeed())
}

func (h *hub) app() *kubenestv1.App {
	GinkgoHelper()
	var app kubenestv1.App
	Expect(api.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: "app"}, &app)).To(Succeed())
	return &app
}

// status is the App's once it is about the present generation.
func (h *hub) status() kubenestv1.AppStatus {
	app := h.app()
	if app.Status.ObservedGeneration != app.Generation {
		return kubenestv1.AppStatus{}
	}
	return app.Status
}

// accepted is the reason of the condition Accepted of the present generation.
func (h *hub) accepted() string {
	status := h.status()
	if c := meta.FindStatusCondition(status.Conditions, kubenestv1.ConditionAccepted); c != nil {
		return c.Reason
	}
	return ""
}

func (h *hub) phase() kubenestv1.AppPhase { return h.status().Phase }

// component is what the App says of one of its components.
func (h *hub) component(name string) kubenestv1.ComponentStatus {
	for _, c := range h.status().Components {
		if c.Name == name {
			return c
		}
	}
	return kubenestv1.ComponentStatus{}
}

// stack is the App's StackDeploy for a cluster, nil if there is none.
func (h *hub) stack(cluster string) *kubenestv1.StackDeploy {
	GinkgoHelper()
	var s kubenestv1.StackDeploy
	key := client.ObjectKey{Namespace: h.namespace, Name: kubenestv1.StackName("app", "app", h.record(cluster).ID())}
	if err := api.Get(h.ctx, key, &s); err != nil {
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		return nil
	}
	return &s
}

func (h *hub) spec(cluster string) kubenestv1.StackDeploySpec {
	GinkgoHelper()
	if s := h.stack(cluster); s != nil {
		return s.Spec
	}
	return kubenestv1.StackDeploySpec{}
}

// listed are the components that a cluster is to run.
func (h *hub) listed(cluster string) []string {
	GinkgoHelper()
	spec := h.spec(cluster)
	return names(&spec)
}

// image of a component as a cluster is to run it.
func (h *hub) image(cluster, component string) string {
	GinkgoHelper()
	if c := find(h.spec(cluster).Components, component); c != nil && c.WorkloadSpec != nil {
		return c.WorkloadSpec.Image
	}
	return ""
}

// report has a cluster say that everything it is to run is in a phase, as the
// delivery controller writes it; what is held is Pending.
func (h *hub) report(cluster string, phase kubenestv1.AppPhase) {
	GinkgoHelper()
	Eventually(func() error {
		s := h.stack(cluster)
		if s == nil {
			return apierrors.NewNotFound(kubenestv1.GroupVersion.WithResource("stackdeploys").GroupResource(), cluster)
		}
		report(s, phase)
		for i := range s.Status.Components {
			if heldIn(s, s.Status.Components[i].Name) != nil {
				s.Status.Components[i].Phase = kubenestv1.AppPending
			}
		}
		return api.Status().Update(h.ctx, s)
	}).Should(Succeed())
}

// removed has a cluster say that nothing of a StackDeploy is left.
func (h *hub) removed(cluster string) {
	GinkgoHelper()
	Eventually(func() error {
		s := h.stack(cluster)
		if s == nil {
			return nil
		}
		Expect(s.DeletionTimestamp).NotTo(BeNil())
		controllerutil.RemoveFinalizer(s, kubenestv1.RemovalFinalizer)
		return api.Update(h.ctx, s)
	}).Should(Succeed())
	Eventually(func() *kubenestv1.StackDeploy { return h.stack(cluster) }).Should(BeNil())
}

// exports has the hub keep an addon's exports, of a revision.
func (h *hub) exports(addon, revision string) {
	GinkgoHelper()
	app := h.app()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.namespace, Name: kubenestv1.ExportsSecretName("app", addon),
		Labels:          map[string]string{kubenestv1.ExportsLabel: "true"},
		Annotations:     map[string]string{kubenestv1.ExportsRevisionAnnotation: revision},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: kubenestv1.GroupVersion.String(), Kind: "App", Name: app.Name, UID: app.UID}},
	}, StringData: map[string]string{"dsn": "postgres://" + revision}}
	err := api.Create(h.ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = api.Update(h.ctx, secret)
	}
	Expect(err).NotTo(HaveOccurred())
}

// reasons of the events about the App.
func (h *hub) reasons() []string {
	var list corev1.EventList
	Expect(api.List(h.ctx, &list, client.InNamespace(h.namespace))).To(Succeed())
	var reasons []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name == "app" {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}
