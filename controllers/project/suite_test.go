// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
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
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/controllers/managedcluster"
)

var (
	apiConfig *rest.Config
	api       client.Client // not cached
	scheme    = runtime.NewScheme()
)

func TestProject(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultConsistentlyDuration(time.Second)
	RunSpecs(t, "Project")
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
	startHub()
})

// startHub runs the controllers on all organizations.
func startHub() {
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := ctrl.NewManager(apiConfig, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache:      cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(managedcluster.Index(ctx, mgr.GetFieldIndexer())).To(Succeed())
	Expect(managedcluster.IndexUsers(ctx, mgr.GetFieldIndexer())).To(Succeed())
	Expect(Index(ctx, mgr.GetFieldIndexer())).To(Succeed())
	events := mgr.GetEventRecorder("kubenest-hub")
	Expect((&Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events, Clock: clock.RealClock{},
	}).SetupWithManager(mgr)).To(Succeed())
	Expect((&managedcluster.GuardReconciler{
		Client: mgr.GetClient(), Events: events, Clock: clock.RealClock{},
	}).SetupWithManager(mgr)).To(Succeed())
	stopped := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(stopped)
		Expect(mgr.Start(ctx)).To(Succeed())
	}()
	DeferCleanup(func() {
		cancel()
		Eventually(stopped).Should(BeClosed())
	})
	Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
}

// organization makes a namespace that is one.
func organization(labels ...string) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "org-", Labels: map[string]string{kubenestv1.OrganizationLabel: "true"},
	}}
	for _, label := range labels {
		ns.Labels[label] = "true"
	}
	Expect(api.Create(context.Background(), ns)).To(Succeed())
	return ns.Name
}

// register makes a record, as a user does.
func register(namespace, name string, change ...func(*kubenestv1.ManagedCluster)) *kubenestv1.ManagedCluster {
	GinkgoHelper()
	record := &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, f := range change {
		f(record)
	}
	Expect(api.Create(context.Background(), record)).To(Succeed())
	return record
}

// connect says of a record's operator that it is connected, or left long ago.
func connect(record *kubenestv1.ManagedCluster, connected bool) {
	GinkgoHelper()
	now := metav1.NewTime(time.Now().Add(-time.Hour))
	c := metav1.Condition{
		Type: kubenestv1.ConditionConnected, Status: metav1.ConditionTrue, Reason: kubenestv1.ReasonSessionEstablished,
		LastTransitionTime: now, ObservedGeneration: 1,
	}
	if !connected {
		c.Status, c.Reason = metav1.ConditionFalse, kubenestv1.ReasonSessionClosed
	}
	Eventually(func() error {
		current := &kubenestv1.ManagedCluster{}
		if err := api.Get(context.Background(), client.ObjectKeyFromObject(record), current); err != nil {
			return err
		}
		meta.SetStatusCondition(&current.Status.Conditions, c)
		return api.Status().Update(context.Background(), current)
	}).Should(Succeed())
}

// create makes a Project, as a user does.
func create(namespace, name, cluster string, change ...func(*kubenestv1.Project)) *kubenestv1.Project {
	GinkgoHelper()
	p := &kubenestv1.Project{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: cluster}},
	}
	for _, f := range change {
		f(p)
	}
	Expect(api.Create(context.Background(), p)).To(Succeed())
	return p
}

func allowAll(c *kubenestv1.ManagedCluster) {
	c.Spec.AllowedProjects = &kubenestv1.AllowedProjects{}
}

// get reads an object again.
func get[T client.Object](o T) T {
	GinkgoHelper()
	fresh := o.DeepCopyObject().(T)
	Expect(api.Get(context.Background(), client.ObjectKeyFromObject(o), fresh)).To(Succeed())
	return fresh
}

func gone(o client.Object) func() bool {
	return func() bool {
		return apierrors.IsNotFound(api.Get(context.Background(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)))
	}
}

func deleting(o client.Object) func() bool {
	return func() bool { return !get(o).GetDeletionTimestamp().IsZero() }
}

// condition of a Project, such as "False/NamespacePending".
func conditionOf(p *kubenestv1.Project, kind string) func() string {
	return func() string {
		c := meta.FindStatusCondition(get(p).Status.Conditions, kind)
		if c == nil {
			return "absent"
		}
		return string(c.Status) + "/" + c.Reason
	}
}

func messageOf(p *kubenestv1.Project) func() string {
	return func() string { return get(p).Status.Message }
}

// stackOf is the StackDeploy of a Project's namespace, yet to be read.
func stackOf(p *kubenestv1.Project, cluster *kubenestv1.ManagedCluster) *kubenestv1.StackDeploy {
	return &kubenestv1.StackDeploy{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: kubenestv1.StackName("project", p.Name, cluster.ID()),
	}}
}

// awaitStack waits until the Project's namespace has a StackDeploy.
func awaitStack(p *kubenestv1.Project, cluster *kubenestv1.ManagedCluster) *kubenestv1.StackDeploy {
	GinkgoHelper()
	s := stackOf(p, cluster)
	Eventually(func() error { return api.Get(context.Background(), client.ObjectKeyFromObject(s), s) }).Should(Succeed())
	return s
}

// target has an App on a cluster, as the app controller does.
func deploy(p *kubenestv1.Project, app string, cluster *kubenestv1.ManagedCluster) *kubenestv1.StackDeploy {
	GinkgoHelper()
	s := &kubenestv1.StackDeploy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: kubenestv1.StackName("app", app, cluster.ID()),
			Finalizers: []string{kubenestv1.RemovalFinalizer},
			Labels:     map[string]string{kubenestv1.ProjectLabel: p.Name, kubenestv1.AppLabel: app, kubenestv1.ClusterLabel: cluster.ID()},
		},
		Spec: kubenestv1.StackDeploySpec{
			ClusterID: cluster.ID(), Namespace: p.TargetNamespace(), App: app,
			Project: kubenestv1.ProjectKey{Namespace: p.Namespace, Name: p.Name},
			Components: []kubenestv1.Component{{
				Name: "web", Type: kubenestv1.ComponentWorkload, WorkloadSpec: &kubenestv1.WorkloadSpec{Image: "registry.example.com/web:1"},
			}},
		},
	}
	Expect(api.Create(context.Background(), s)).To(Succeed())
	return s
}

// newApp makes an App, as a user does, held as the app controller holds it.
func newApp(p *kubenestv1.Project, name string) *kubenestv1.App {
	GinkgoHelper()
	app := &kubenestv1.App{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Finalizers: []string{kubenestv1.RemovalFinalizer}},
		Spec: kubenestv1.AppSpec{
			ProjectRef: kubenestv1.LocalReference{Name: p.Name},
			Components: []kubenestv1.Component{{
				Name: "web", Type: kubenestv1.ComponentWorkload, WorkloadSpec: &kubenestv1.WorkloadSpec{Image: "registry.example.com/web:1"},
			}},
		},
	}
	Expect(api.Create(context.Background(), app)).To(Succeed())
	return app
}

// report writes a StackDeploy's status, as the delivery does.
func report(s *kubenestv1.StackDeploy, change func(*kubenestv1.StackDeployStatus), conditions ...metav1.Condition) {
	GinkgoHelper()
	Eventually(func() error {
		current := get(s)
		current.Status.ObservedGeneration = current.Generation
		for _, c := range conditions {
			c.ObservedGeneration = current.Generation
			meta.SetStatusCondition(&current.Status.Conditions, c)
		}
		if change != nil {
			change(&current.Status)
		}
		return api.Status().Update(context.Background(), current)
	}).Should(Succeed())
}

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// reportReady reports a namespace that is as it should be.
func reportReady(s *kubenestv1.StackDeploy) {
	GinkgoHelper()
	report(s, nil,
		is(kubenestv1.ConditionDelivered, metav1.ConditionTrue, kubenestv1.ReasonDelivered, ""),
		is(kubenestv1.ConditionReady, metav1.ConditionTrue, kubenestv1.ReasonRunning, "There."))
}

// letGo takes a finalizer off, as other controllers do when they are done.
func letGo(o client.Object) {
	GinkgoHelper()
	Eventually(func() error {
		current := o.DeepCopyObject().(client.Object)
		if err := api.Get(context.Background(), client.ObjectKeyFromObject(o), current); err != nil {
			return client.IgnoreNotFound(err)
		}
		current.SetFinalizers(nil)
		return client.IgnoreNotFound(api.Update(context.Background(), current))
	}).Should(Succeed())
}

// reasons of the events about an object.
func reasons(o client.Object) func() []string {
	return func() []string {
		var list corev1.EventList
		Expect(api.List(context.Background(), &list, client.InNamespace(o.GetNamespace()))).To(Succeed())
		var found []string
		for i := range list.Items {
			if list.Items[i].InvolvedObject.Name == o.GetName() && list.Items[i].InvolvedObject.UID == o.GetUID() {
				found = append(found, list.Items[i].Reason)
			}
		}
		return found
	}
}
