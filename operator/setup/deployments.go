// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/config"
	"github.com/kubenest/kubenest/operator/chart"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/deploy"
	"github.com/kubenest/kubenest/operator/exports"
	"github.com/kubenest/kubenest/operator/gitops"
	"github.com/kubenest/kubenest/operator/inbox"
	"github.com/kubenest/kubenest/operator/inputs"
	"github.com/kubenest/kubenest/operator/namespace"
	"github.com/kubenest/kubenest/operator/objects"
	"github.com/kubenest/kubenest/operator/release"
	"github.com/kubenest/kubenest/operator/stack"
)

const (
	// inputsNamespace keeps what travels beside StackDeploys, apart from Secrets of others:
	// the operator may read every Secret in it.
	inputsNamespace = "kubenest-inputs"
	// argocdNamespace is where Argo CD is by its own manifests.
	argocdNamespace = "argocd"
	// stackDeployCRD is the one CRD that a workload cluster needs.
	stackDeployCRD = "stackdeploys.kubenest.io"
	// prepareRetry is between attempts to apply it while the API server does not answer.
	prepareRetry = 5 * time.Second
	// syncTimeout is how long the API server may stay away before the controllers give
	// up, and the session with them: it is for the agent to say that it is away.
	syncTimeout = 24 * time.Hour
	// stopTimeout bounds what the controllers may still do when they stop.
	stopTimeout = 10 * time.Second
)

// deployments is what deploys on this cluster: it works on the StackDeploys that are
// there, whether or not a hub is. It is made anew each time that this process becomes
// the active one.
type deployments struct {
	log     logr.Logger
	direct  client.Client // not cached
	manager ctrl.Manager
	inputs  inputs.Store
	inbox   *inbox.Inbox
}

// deployScheme knows the kinds that deploying deals with.
func deployScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(kubenestv1.AddToScheme(s))
	return s
}

// newDeployments makes the controllers. It asks the API server for nothing yet.
func (op *operator) newDeployments(ctx context.Context) (*deployments, error) {
	logger := op.log.WithName("deploy")
	manager, err := ctrl.NewManager(op.config, ctrl.Options{
		Scheme:                  deployScheme(),
		Logger:                  logger,
		Cache:                   deploy.CacheOptions(op.o.Cluster.Namespace),
		Metrics:                 metricsserver.Options{BindAddress: off}, // the operator serves its own
		HealthProbeBindAddress:  off,
		GracefulShutdownTimeout: new(stopTimeout),
		Controller:              ctrlconfig.Controller{CacheSyncTimeout: syncTimeout},
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager of the deploy controller: %w", err)
	}
	direct, err := client.New(op.config, client.Options{Scheme: manager.GetScheme(), Mapper: manager.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make a client for deployments: %w", err)
	}
	d := &deployments{
		log: logger, direct: direct, manager: manager,
		inputs: inputs.Store{Client: direct, Namespace: inputsNamespace},
	}
	return d, op.addReconciler(ctx, d)
}

// addReconciler adds the deploy controller with all its ways of delivering.
func (op *operator) addReconciler(ctx context.Context, d *deployments) error {
	mapper := d.manager.GetRESTMapper()
	rules, err := stack.NewRules(mapper)
	if err != nil {
		return err
	}
	var reconciler *deploy.Reconciler
	releases := release.New(&release.Options{
		Config: op.config, Mapper: mapper, Rules: rules, Charts: chart.NewFetcher(), Clock: clock.RealClock{},
		Log: op.log.WithName("helm"), Changed: func(n client.ObjectKey) { reconciler.Changed(n) },
	})
	if err := d.manager.Add(releases); err != nil {
		return fmt.Errorf("add Helm: %w", err)
	}
	applier := objects.NewApplier(objects.Options{
		Config: op.config, Cache: d.manager.GetCache(), Scheme: d.manager.GetScheme(), Mapper: mapper, Rules: rules,
	})
	d.inbox, err = inbox.New(inbox.Options{
		Cache: d.manager.GetCache(), Client: d.direct, Projects: applier.Client, Inputs: d.inputs,
		Namespace: op.o.Cluster.Namespace, Log: op.log.WithName("inbox"),
	})
	if err != nil {
		return err
	}
	reconciler = deploy.NewReconciler(deploy.Options{
		Client:     d.manager.GetClient(),
		Namespace:  op.o.Cluster.Namespace,
		Objects:    applier,
		Namespaces: &namespace.Keeper{Client: d.direct, Cache: d.manager.GetCache(), Own: op.o.Cluster.Namespace},
		Addons:     releases,
		Exports:    exports.New(op.config),
		GitOps:     gitops.New(d.direct, gitops.Options{Namespace: argocdNamespace, Left: d.leftBehind}),
		Inputs:     d.inputs,
		Sources:    []source.Source{gitops.Applications(op.config, mapper, argocdNamespace, op.o.Cluster.Namespace)},
		Events:     d.manager.GetEventRecorder(component),
	})
	return reconciler.SetupWithManager(ctx, d.manager)
}

// leftBehind says what a removal gave up.
func (d *deployments) leftBehind(p *delivery.Publication, what string) {
	d.log.Info("Removal stopped waiting, something stays behind", "StackDeploy", p.Stack.String(), "left", what)
}

// run runs the controllers until ctx ends.
func (d *deployments) run(ctx context.Context) error {
	if err := d.manager.Start(ctx); err != nil {
		return fmt.Errorf("run the deploy controller: %w", err)
	}
	return nil
}

// deploy runs what deploys, which the agent reaches through the gate, until ctx ends.
// It waits for an API server that does not answer, and the agent is connected
// meanwhile.
func (op *operator) deploy(ctx context.Context, g *gate) error {
	if err := op.applyCRD(ctx); err != nil {
		return nil //nolint:nilerr // it fails only when ctx has ended
	}
	d, err := op.newDeployments(ctx)
	if err != nil {
		return err
	}
	g.open(d.inbox)
	return d.run(ctx)
}

// applyCRD applies the CRD, unless the cluster has a newer one.
func (op *operator) applyCRD(ctx context.Context) error {
	logger := op.log.WithName("deploy")
	return wait.PollUntilContextCancel(ctx, prepareRetry, true, func(ctx context.Context) (bool, error) {
		c, err := client.New(op.config, client.Options{Scheme: deployScheme()})
		if err == nil {
			err = config.ApplyCRDs(log.IntoContext(ctx, logger), c, stackDeployCRD)
		}
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsForbidden(err):
			logger.Error(err, "The operator may not apply its CRD, and deploys nothing until it may: apply its ClusterRole again, as the chart does")
		default:
			logger.Info("The CRD can not be applied yet, trying again", "reason", err.Error())
		}
		return false, nil
	})
}
