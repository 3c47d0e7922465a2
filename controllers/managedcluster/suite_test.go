// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/token"
)

var (
	apiConfig *rest.Config
	api       client.Client // not cached
	scheme    = runtime.NewScheme()
)

func TestManagedCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultConsistentlyDuration(2 * time.Second)
	RunSpecs(t, "ManagedCluster")
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

// keys are signing keys that can be exchanged.
type keys struct {
	mu   sync.Mutex
	pems map[string][]byte
	set  *token.Keyset
}

func newKeys() *keys {
	kid, block, err := token.NewKey(time.Now())
	Expect(err).NotTo(HaveOccurred())
	pems := map[string][]byte{kid: block}
	set, err := token.Parse("kubenest/test", pems)
	Expect(err).NotTo(HaveOccurred())
	return &keys{pems: pems, set: set}
}

func (k *keys) Keyset() *token.Keyset {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set
}

func (k *keys) replace() {
	fresh := newKeys().set
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set = fresh
}

// add has another key sign, beside those that verify.
func (k *keys) add() {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, block, err := token.NewKey(time.Now())
	Expect(err).NotTo(HaveOccurred())
	k.pems["99991231T000000Z-later"] = block
	k.set, err = token.Parse("kubenest/test", k.pems)
	Expect(err).NotTo(HaveOccurred())
}

// replicas are alive until they are told otherwise.
type replicas struct {
	mu   sync.Mutex
	dead map[string]bool
}

func (r *replicas) Alive(name string) (bool, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.dead[name], 0
}

func (r *replicas) kill(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead == nil {
		r.dead = map[string]bool{}
	}
	r.dead[name] = true
}

// hub is a replica without its sockets: controllers and authority on the real
// API server, restricted to one namespace so that specs do not meet.
type hub struct {
	ctx       context.Context
	namespace string
	authority *Authority
	sessions  *session.Server
	keys      *keys
	replicas  *replicas
	changed   func()
}

const replicaName = "hub-0/boot1"

// startHub makes an organization, and a hub that looks after it. ready may change
// the clock that the absence controller waits by.
func startHub(absenceClock clock.WithTicker) *hub {
	h := &hub{keys: newKeys(), replicas: &replicas{}, namespace: newNamespace(map[string]string{kubenestv1.OrganizationLabel: "true"})}
	var cancel context.CancelFunc
	h.ctx, cancel = context.WithCancel(context.Background())

	mgr, err := ctrl.NewManager(apiConfig, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&kubenestv1.ManagedCluster{}: {Namespaces: map[string]cache.Config{h.namespace: {}}},
			&corev1.Secret{}: {
				Namespaces: map[string]cache.Config{h.namespace: {}},
				Label:      labels.SelectorFromSet(labels.Set{kubenestv1.ConnectionLabel: "true"}),
			},
		}},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(Index(h.ctx, mgr.GetFieldIndexer())).To(Succeed())
	h.authority = NewAuthority(AuthorityOptions{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("kubenest-hub"),
		Keys: h.keys, Replicas: h.replicas, Replica: replicaName, Clock: clock.RealClock{},
	})
	h.sessions, err = session.New(session.Options{Authority: h.authority, Replica: replicaName, HubVersion: "test", Timing: wire.Timing{Heartbeat: time.Second, DeadAfter: 3 * time.Second}, Logger: logr.Discard()})
	Expect(err).NotTo(HaveOccurred())

	var mu sync.Mutex
	h.changed = func() {}
	Expect((&SessionReconciler{Authority: h.authority, Sessions: h.sessions.Registry(), Timing: wire.DefaultTiming}).SetupWithManager(mgr)).To(Succeed())
	Expect((&AbsenceReconciler{Authority: h.authority, Clock: absenceClock}).SetupWithManager(mgr)).To(Succeed())
	Expect((&RegistrationReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("kubenest-hub"),
		Keys: h.keys, Clock: clock.RealClock{}, HubURL: "https://hub.example.com", CABundle: func() string { return "the CA" },
		Changed: func(f func()) func() {
			mu.Lock()
			defer mu.Unlock()
			h.changed = f
			return func() {}
		},
	}).SetupWithManager(mgr)).To(Succeed())

	stopped := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(stopped)
		Expect(mgr.Start(h.ctx)).To(Succeed())
	}()
	DeferCleanup(func() {
		Expect(h.sessions.Close(context.Background())).To(Succeed())
		cancel()
		Eventually(stopped).Should(BeClosed())
	})
	Expect(mgr.GetCache().WaitForCacheSync(h.ctx)).To(BeTrue())
	return h
}

func newNamespace(labels map[string]string) string {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "org-", Labels: labels}}
	Expect(api.Create(context.Background(), ns)).To(Succeed())
	return ns.Name
}

// create applies a record as a user would, changed as wanted.
func (h *hub) create(name string, change ...func(*kubenestv1.ManagedCluster)) *kubenestv1.ManagedCluster {
	record := &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}
	for _, f := range change {
		f(record)
	}
	ExpectWithOffset(1, api.Create(h.ctx, record)).To(Succeed())
	return record
}

// edit changes a record's spec as a user would.
func (h *hub) edit(name string, change func(*kubenestv1.ManagedCluster)) {
	EventuallyWithOffset(1, func() error {
		record := h.get(name)
		change(record)
		return api.Update(h.ctx, record)
	}).Should(Or(Succeed(), MatchError(apierrors.IsNotFound, "not found")))
}

func (h *hub) get(name string) *kubenestv1.ManagedCluster {
	var record kubenestv1.ManagedCluster
	ExpectWithOffset(1, api.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, &record)).To(Succeed())
	return &record
}

func (h *hub) status(name string) func() kubenestv1.ManagedClusterStatus {
	return func() kubenestv1.ManagedClusterStatus { return h.get(name).Status }
}

func (h *hub) secret(name string) func() map[string][]byte {
	return func() map[string][]byte {
		var secret corev1.Secret
		if err := api.Get(h.ctx, client.ObjectKey{Namespace: h.namespace, Name: name + kubenestv1.ConnectionSecretSuffix}, &secret); err != nil {
			return nil
		}
		return secret.Data
	}
}

// condition is a condition's status and reason, such as "False/NeverConnected".
func (h *hub) condition(name, conditionType string) func() string {
	return func() string {
		c := meta.FindStatusCondition(h.get(name).Status.Conditions, conditionType)
		if c == nil {
			return "absent"
		}
		return string(c.Status) + "/" + c.Reason
	}
}

// reasons of the events about a record, each as often as it was emitted.
func (h *hub) reasons(name string) func() []string {
	return func() []string {
		var list corev1.EventList
		Expect(api.List(h.ctx, &list, client.InNamespace(h.namespace))).To(Succeed())
		var reasons []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name == name {
				reasons = append(reasons, e.Reason)
			}
		}
		return reasons
	}
}
