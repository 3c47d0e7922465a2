// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
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
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/managedcluster"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
)

var (
	apiConfig *rest.Config
	api       client.Client // not cached
	scheme    = runtime.NewScheme()
)

func TestStackDeploy(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultConsistentlyDuration(2 * time.Second)
	RunSpecs(t, "StackDeploy")
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

// world is an organization with its hub replicas.
type world struct {
	ctx       context.Context
	namespace string
}

func newWorld() *world {
	w := &world{}
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(context.Background())
	DeferCleanup(cancel)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "org-", Labels: map[string]string{kubenestv1.OrganizationLabel: "true"}}}
	Expect(api.Create(w.ctx, ns)).To(Succeed())
	w.namespace = ns.Name
	return w
}

// replica is a hub replica: delivery on the real API server, restricted to one
// namespace so that specs do not meet.
type replica struct {
	*world
	name      string
	authority *sessiontest.Authority
	sessions  *session.Server
	front     *sessiontest.Hub
	mailbox   *Mailbox
	metrics   *prometheus.Registry
}

// start starts a replica, which may be the leader.
func (w *world) start(name string, leads bool) *replica {
	r := &replica{world: w, name: name, authority: &sessiontest.Authority{}, metrics: prometheus.NewRegistry()}
	r.authority.OnClaim = r.claim
	mgr, err := ctrl.NewManager(apiConfig, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(w.ctx)
	Expect(managedcluster.Index(ctx, mgr.GetFieldIndexer())).To(Succeed())
	Expect(Index(ctx, mgr.GetFieldIndexer())).To(Succeed())
	r.mailbox, err = NewMailbox(clock.RealClock{}, r.metrics)
	Expect(err).NotTo(HaveOccurred())
	r.sessions, err = session.New(session.Options{
		Authority: r.authority, Replica: name, HubVersion: "test", Logger: logr.Discard(), Deployments: r.mailbox,
	})
	Expect(err).NotTo(HaveOccurred())
	events := mgr.GetEventRecorder("kubenest-hub")
	Expect((&DeliveryReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Sessions: r.sessions.Registry(), Mailbox: r.mailbox,
		Events: events, Clock: clock.RealClock{},
	}).SetupWithManager(mgr)).To(Succeed())
	if leads {
		Expect((&AbsenceReconciler{Client: mgr.GetClient(), Events: events, Clock: clock.RealClock{}}).SetupWithManager(mgr)).To(Succeed())
	}
	stopped := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(stopped)
		Expect(mgr.Start(ctx)).To(Succeed())
	}()
	r.front = sessiontest.Serve(GinkgoTB(), r.sessions)
	DeferCleanup(func() {
		Expect(r.sessions.Close(context.Background())).To(Succeed())
		cancel()
		Eventually(stopped).Should(BeClosed())
	})
	Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	return r
}

// claim writes a session into its record, as managedcluster does.
func (r *replica) claim(ctx context.Context, c session.Claim) (epoch int64, err error) {
	record, err := r.recordOf(c.Identity.ClusterID)
	if err != nil {
		return 0, err
	}
	epoch = 1
	if s := record.Status.Session; s != nil {
		epoch = s.Epoch + 1
	}
	record.Status.Session = &kubenestv1.SessionStatus{Replica: r.name, ID: c.SessionID, Epoch: epoch, Process: c.Hello.Process}
	meta.SetStatusCondition(&record.Status.Conditions, metav1.Condition{
		Type: kubenestv1.ConditionConnected, Status: metav1.ConditionTrue, Reason: kubenestv1.ReasonSessionEstablished,
	})
	return epoch, api.Status().Update(ctx, record)
}

func (w *world) recordOf(id string) (*kubenestv1.ManagedCluster, error) {
	var list kubenestv1.ManagedClusterList
	if err := api.List(w.ctx, &list, client.InNamespace(w.namespace)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].ID() == id {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("no cluster %s", id)
}

// cluster makes a record, and returns its id.
func (w *world) cluster(name string) string {
	record := &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	Expect(api.Create(w.ctx, record)).To(Succeed())
	return record.ID()
}

// lose writes down that a cluster's session ended some time ago.
func (w *world) lose(id string, ago time.Duration) time.Time {
	at := time.Now().Add(-ago).Truncate(time.Second)
	EventuallyWithOffset(1, func() error {
		record, err := w.recordOf(id)
		if err != nil {
			return err
		}
		heard := metav1.NewMicroTime(at)
		record.Status.Session = &kubenestv1.SessionStatus{Epoch: record.Status.Session.Epoch, LastHeardAt: &heard}
		meta.RemoveStatusCondition(&record.Status.Conditions, kubenestv1.ConditionConnected)
		meta.SetStatusCondition(&record.Status.Conditions, metav1.Condition{
			Type: kubenestv1.ConditionConnected, Status: metav1.ConditionFalse, Reason: kubenestv1.ReasonSessionClosed, LastTransitionTime: metav1.NewTime(at),
		})
		return api.Status().Update(w.ctx, record)
	}).Should(Succeed())
	return at
}

// stack makes the StackDeploy of an App with one addon and one workload.
func (w *world) stack(app, clusterID string, change ...func(*kubenestv1.StackDeploy)) *kubenestv1.StackDeploy {
	s := &kubenestv1.StackDeploy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: kubenestv1.StackName("app", app, clusterID), Finalizers: []string{kubenestv1.RemovalFinalizer},
		},
		Spec: kubenestv1.StackDeploySpec{
			ClusterID: clusterID, Namespace: "shop", Project: kubenestv1.ProjectKey{Namespace: w.namespace, Name: "shop"}, App: app,
			Components: []kubenestv1.Component{
				{Name: "db", Type: kubenestv1.ComponentAddon, AddonSpec: &kubenestv1.AddonSpec{Chart: kubenestv1.Chart{OCI: "oci://example.com/db", Version: "1.0.0"}}},
				{Name: "web", Type: kubenestv1.ComponentWorkload, WorkloadSpec: &kubenestv1.WorkloadSpec{Image: "web:1"}},
			},
		},
	}
	for _, f := range change {
		f(s)
	}
	ExpectWithOffset(1, api.Create(w.ctx, s)).To(Succeed())
	return s
}

func (w *world) get(s *kubenestv1.StackDeploy) *kubenestv1.StackDeploy {
	var now kubenestv1.StackDeploy
	ExpectWithOffset(1, api.Get(w.ctx, client.ObjectKeyFromObject(s), &now)).To(Succeed())
	return &now
}

// edit changes a spec as its controller would.
func (w *world) edit(s *kubenestv1.StackDeploy, change func(*kubenestv1.StackDeploy)) {
	EventuallyWithOffset(1, func() error {
		now := w.get(s)
		change(now)
		return api.Update(w.ctx, now)
	}).Should(Succeed())
}

// condition is a condition's status and reason, such as "False/Delivering".
func (w *world) condition(s *kubenestv1.StackDeploy, conditionType string) func() string {
	return func() string {
		c := meta.FindStatusCondition(w.get(s).Status.Conditions, conditionType)
		if c == nil {
			return "absent"
		}
		return string(c.Status) + "/" + c.Reason
	}
}

func (w *world) delivered(s *kubenestv1.StackDeploy) func() string {
	return w.condition(s, kubenestv1.ConditionDelivered)
}

func (w *world) ready(s *kubenestv1.StackDeploy) func() string {
	return w.condition(s, kubenestv1.ConditionReady)
}

func (w *world) gone(s *kubenestv1.StackDeploy) func() bool {
	return func() bool {
		return apierrors.IsNotFound(api.Get(w.ctx, client.ObjectKeyFromObject(s), &kubenestv1.StackDeploy{}))
	}
}

// events about an object, as reasons.
func (w *world) events(name string) func() []string {
	return func() []string {
		var list corev1.EventList
		Expect(api.List(w.ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
		var reasons []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name == name {
				reasons = append(reasons, e.Reason)
			}
		}
		return reasons
	}
}

// operator is a workload cluster's. It stores what it is sent, unless it is told
// otherwise, and answers.
type operator struct {
	*sessiontest.Operator

	mu sync.Mutex
	// answer decides on a delivery; nil stores it, and false is no answer.
	answer func(*wire.Deliver) (*wire.Delivered, bool)
	// clings keeps it from removing.
	clings     bool
	stacks     map[wire.Stack]*wire.Deliver
	deliveries int
	removals   []wire.Stack
	unanswered []*wire.Deliver
	most       int
	done       chan struct{}
}

// connect opens a session of an operator that has what another had.
func (r *replica) connect(clusterID string, before *operator, change ...func(*operator, *wire.Hello)) *operator {
	o := &operator{stacks: map[wire.Stack]*wire.Deliver{}, done: make(chan struct{})}
	if before != nil {
		before.mu.Lock()
		maps.Copy(o.stacks, before.stacks)
		before.mu.Unlock()
	}
	hello := sessiontest.Hello()
	hello.Schema = kubenestv1.StackDeploySchema
	for _, f := range change {
		f(o, &hello)
	}
	var err error
	o.Operator, err = r.front.Connect(r.ctx, r.authority.Issue(session.Identity{ClusterID: clusterID, Generation: 1}), hello)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	go o.serve()
	DeferCleanup(func() {
		o.Close(wire.EndGoodbye, "")
		Eventually(o.done).Should(BeClosed())
	})
	ExpectWithOffset(1, o.Send(wire.TypeInventory, o.inventory())).To(Succeed())
	return o
}

func (o *operator) inventory() wire.Inventory {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := wire.Inventory{Stacks: []wire.Held{}}
	for s, d := range o.stacks {
		i.Stacks = append(i.Stacks, wire.Held{Stack: s, Delivery: d.Delivery})
	}
	return i
}

func (o *operator) serve() {
	defer GinkgoRecover()
	defer close(o.done)
	for e := range o.Received {
		switch e.Type {
		case wire.TypeDeliver:
			var d wire.Deliver
			Expect(e.Read(&d)).To(Succeed())
			o.deliver(&d)
		case wire.TypeRemove:
			var r wire.Remove
			Expect(e.Read(&r)).To(Succeed())
			o.remove(&r)
		default:
		}
	}
}

func (o *operator) deliver(d *wire.Deliver) {
	o.mu.Lock()
	o.deliveries++
	answer := &wire.Delivered{Stack: d.Stack, Delivery: d.Delivery}
	answers := true
	if o.answer != nil {
		answer, answers = o.answer(d)
	}
	if !answers {
		o.unanswered = append(o.unanswered, d)
		o.most = max(o.most, len(o.unanswered))
		o.mu.Unlock()
		return
	}
	if answer.Failure == "" {
		o.stacks[d.Stack] = d
	}
	o.mu.Unlock()
	_ = o.Send(wire.TypeDelivered, answer)
}

// answerAll stores and answers what was not answered.
func (o *operator) answerAll() int {
	o.mu.Lock()
	waiting := o.unanswered
	o.unanswered = nil
	for _, d := range waiting {
		o.stacks[d.Stack] = d
	}
	o.mu.Unlock()
	for _, d := range waiting {
		_ = o.Send(wire.TypeDelivered, wire.Delivered{Stack: d.Stack, Delivery: d.Delivery})
	}
	return len(waiting)
}

func (o *operator) remove(r *wire.Remove) {
	o.mu.Lock()
	o.removals = append(o.removals, r.Stack)
	clings := o.clings
	if !clings {
		delete(o.stacks, r.Stack)
	}
	o.mu.Unlock()
	if !clings {
		_ = o.Send(wire.TypeRemoved, wire.Removed{Stack: r.Stack})
	}
}

// has is what the operator has of a StackDeploy, nil if nothing.
func (o *operator) has(s *kubenestv1.StackDeploy) func() *wire.Deliver {
	return func() *wire.Deliver {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.stacks[stackOf(s)]
	}
}

func (o *operator) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.deliveries
}

func (o *operator) asked(s *kubenestv1.StackDeploy) func() bool {
	return func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return slices.Contains(o.removals, stackOf(s))
	}
}

// report tells the state of a delivery.
func (o *operator) report(s *kubenestv1.StackDeploy, d wire.Delivery, status kubenestv1.StackDeployStatus) {
	data, err := json.Marshal(status)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, o.Send(wire.TypeReport, wire.Report{Stack: stackOf(s), Delivery: d, Status: data})).To(Succeed())
}

// running is what an operator says of what runs.
func running(images ...string) kubenestv1.StackDeployStatus {
	s := kubenestv1.StackDeployStatus{
		Phase: kubenestv1.AppRunning,
		Conditions: []metav1.Condition{{
			Type: kubenestv1.ConditionReady, Status: metav1.ConditionTrue, Reason: kubenestv1.ReasonRunning, Message: "All components run.",
		}},
		Components: []kubenestv1.ComponentStatus{{Name: "db", Type: kubenestv1.ComponentAddon, Phase: kubenestv1.AppRunning, Exports: []string{"dsn"}}},
	}
	for _, image := range images {
		s.Components = append(s.Components, kubenestv1.ComponentStatus{Name: "web", Type: kubenestv1.ComponentWorkload, Phase: kubenestv1.AppRunning, Image: image})
	}
	return s
}

func identityOf(clusterID string) session.Identity {
	return session.Identity{ClusterID: clusterID, Generation: 1}
}

func helloOf(schema int) wire.Hello {
	hello := sessiontest.Hello()
	hello.Schema = schema
	return hello
}

// dropped is how many messages were dropped for a reason.
func (r *replica) dropped(reason string) float64 {
	families, err := r.metrics.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "kubenest_hub_deployment_messages_dropped_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
