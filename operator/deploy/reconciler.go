// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/namespace"
	"github.com/kubenest/kubenest/operator/objects"
	"github.com/kubenest/kubenest/operator/stack"
)

const (
	// DefaultTimeout of a component, as the API's documentation says.
	DefaultTimeout = 15 * time.Minute

	// resync looks at what no watch tells: Secrets of the Project, and namespaces.
	resync = 10 * time.Minute
	// unwell looks again at a component that is not well: Events are not watched.
	unwell = 30 * time.Second
	// refused tries again what somebody has to mend, perhaps without a change that is
	// watched.
	refused = 2 * time.Minute
	// removing looks again at what a removal waits for.
	removing = 5 * time.Second
)

// Options of a Reconciler. Those without a word are required.
type Options struct {
	// Client is the manager's: it reads from the cache that CacheOptions makes.
	Client client.Client
	// Namespace is the operator's own. StackDeploys elsewhere are not its business.
	Namespace string
	// Objects applies what workloads consist of.
	Objects *objects.Applier
	// Namespaces makes those of Projects.
	Namespaces *namespace.Keeper
	// Addons, Exports, GitOps and Inputs are the other ways of delivering.
	Addons  Addons
	Exports Exports
	GitOps  GitOps
	Inputs  Inputs
	// Sources bring on a look at StackDeploys besides; none are needed.
	Sources []source.Source
	// Events are about StackDeploys.
	Events events.EventRecorder
	// Clock is the real one when unset.
	Clock clock.PassiveClock
	// Workers is how many StackDeploys are looked at at once, 8 when unset.
	Workers int
}

// Reconciler makes StackDeploys true.
type Reconciler struct {
	o Options

	queue    atomic.Pointer[requests] // set while the controller runs
	charts   *lru.Cache               // local name, name and revision → []byte
	copied   *lru.Cache               // local name and input → copied
	secrets  *lru.Cache               // local name → names of the Secrets beside what is published
	warnings *lru.Cache               // namespace → warnings
}

// requests wait for a worker.
type requests struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Bounds of what is kept in memory. A chart is at most 1 MiB, as its ConfigMap is.
const (
	maxCharts   = 32
	maxCopied   = 4096
	maxSecrets  = 4096
	maxWarnings = 64
)

// NewReconciler makes a Reconciler.
func NewReconciler(o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Workers == 0 {
		o.Workers = 8
	}
	return &Reconciler{
		o: o, charts: lru.New(maxCharts), copied: lru.New(maxCopied), secrets: lru.New(maxSecrets), warnings: lru.New(maxWarnings),
	}
}

// Changed has a StackDeploy looked at again: something that was on its way in the
// background has ended. It never blocks.
func (r *Reconciler) Changed(name types.NamespacedName) {
	if q := r.queue.Load(); q != nil {
		q.Add(reconcile.Request{NamespacedName: name})
	}
}

// Reconcile looks at one StackDeploy.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var s kubenestv1.StackDeploy
	if err := r.o.Client.Get(ctx, req.NamespacedName, &s); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if s.Namespace != r.o.Namespace || s.Spec.Source == nil || !s.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	p := r.newPass(&s)
	var err error
	switch {
	case s.Spec.Removed:
		err = p.remove(ctx)
	case s.Spec.NamespaceSettings != nil:
		err = p.project(ctx)
	default:
		err = p.app(ctx)
	}
	if p.gone {
		return reconcile.Result{}, err
	}
	if writeErr := r.write(ctx, p); writeErr != nil {
		if apierrors.IsConflict(writeErr) || apierrors.IsNotFound(writeErr) { // another object of that name by now, or none
			return reconcile.Result{RequeueAfter: time.Second}, err
		}
		return reconcile.Result{}, errors.Join(err, writeErr)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: p.after}, nil
}

// pass is one look at one StackDeploy.
type pass struct {
	r      *Reconciler
	stack  *kubenestv1.StackDeploy
	target stack.Target
	now    time.Time
	status kubenestv1.StackDeployStatus // to be
	drift  []string
	after  time.Duration // until the next pass
	gone   bool          // the StackDeploy was deleted
}

func (r *Reconciler) newPass(s *kubenestv1.StackDeploy) *pass {
	p := &pass{r: r, stack: s, target: stack.Of(s), now: r.o.Clock.Now(), after: resync}
	p.status.ObservedGeneration = s.Generation
	p.status.Source = s.Spec.Source
	p.status.DriftedAt, p.status.Drift = s.Status.DriftedAt, s.Status.Drift
	return p
}

// again looks again after d at the latest.
func (p *pass) again(d time.Duration) { p.after = min(p.after, max(d, time.Second)) }

// name of the StackDeploy on this cluster.
func (p *pass) name() types.NamespacedName {
	return types.NamespacedName{Namespace: p.stack.Namespace, Name: p.stack.Name}
}

// timeout of a component.
func (p *pass) timeout() time.Duration {
	if t := p.stack.Spec.Timeout; t != nil && t.Duration > 0 {
		return t.Duration
	}
	return DefaultTimeout
}

// projectOwner is OwnerAnnotation's value on the namespace of the Project.
func (p *pass) projectOwner() string {
	id, project := p.stack.Spec.ClusterID, p.stack.Spec.Project
	return kubenestv1.Owner(id, &kubenestv1.StackSource{
		Namespace: project.Namespace, Name: kubenestv1.StackName("project", project.Name, id),
	})
}

// project makes and keeps the namespace of a Project.
func (p *pass) project(ctx context.Context) error {
	err := p.r.o.Namespaces.Ensure(ctx, &p.target, p.stack.Spec.NamespaceSettings)
	var problem *stack.Problem
	switch {
	case err == nil:
		p.conclude(summary{phase: kubenestv1.AppRunning, reason: kubenestv1.ReasonNamespaceReady})
	case errors.As(err, &problem) && problem.Waiting:
		p.again(removing)
		p.conclude(summary{phase: kubenestv1.AppPending, reason: problem.Reason, message: problem.Message})
	case errors.As(err, &problem):
		p.again(refused)
		p.conclude(summary{phase: kubenestv1.AppFailed, reason: problem.Reason, message: problem.Message})
	default:
		p.keep()
		return fmt.Errorf("set up the namespace of %s: %w", p.stack.Name, err)
	}
	return nil
}

// conclude sets phase and conditions.
func (p *pass) conclude(s summary) {
	p.status.Phase, p.status.Message = s.phase, s.message
	setConditions(&p.status, p.stack.Status.Conditions, s, p.now)
}

// keep leaves the status as it is: nothing was found out.
func (p *pass) keep() { p.status = p.stack.Status }

// drifted remembers what was put right, and says it in an Event.
func (p *pass) drifted(what ...string) { p.drift = append(p.drift, what...) }

var _ reconcile.Reconciler = (*Reconciler)(nil)
