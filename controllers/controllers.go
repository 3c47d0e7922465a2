// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/app"
	"github.com/kubenest/kubenest/controllers/managedcluster"
	"github.com/kubenest/kubenest/controllers/project"
	"github.com/kubenest/kubenest/controllers/stackdeploy"
	"github.com/kubenest/kubenest/hub/session"
)

// Dependencies are what controllers work with beside their manager.
type Dependencies struct {
	// Authority writes the session-owned fields.
	Authority *managedcluster.Authority
	// Sessions are those held by this replica.
	Sessions *session.Registry
	Timing   wire.Timing
	// Mailbox takes what their operators say of deployments.
	Mailbox *stackdeploy.Mailbox
	Events  events.EventRecorder
	Keys    managedcluster.Keys
	// HubURL and CABundle go into connection Secrets.
	HubURL   string
	CABundle func() string
	// Changed calls back when keys or CA bundle changed.
	Changed func(func()) (cancel func())
	Clock   clock.WithTicker
}

// Index adds the indexes that the controllers look objects up by.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []func(context.Context, client.FieldIndexer) error{
		managedcluster.Index, managedcluster.IndexUsers, project.Index, app.Index, stackdeploy.Index,
	} {
		if err := index(ctx, indexer); err != nil {
			return err
		}
	}
	return nil
}

// AddEverywhere adds the controllers that run on every replica.
func AddEverywhere(mgr ctrl.Manager, d *Dependencies) error {
	if err := (&managedcluster.SessionReconciler{
		Authority: d.Authority,
		Sessions:  d.Sessions,
		Timing:    d.Timing,
	}).SetupWithManager(mgr); err != nil {
		return err
	}
	return (&stackdeploy.DeliveryReconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Sessions: d.Sessions,
		Mailbox:  d.Mailbox,
		Events:   d.Events,
		Clock:    d.Clock,
	}).SetupWithManager(mgr)
}

// AddLeader adds the controllers that run on the leader, in the order in which
// a record meets them.
func AddLeader(mgr ctrl.Manager, d *Dependencies) error {
	if err := (&managedcluster.RegistrationReconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Events:   d.Events,
		Keys:     d.Keys,
		Clock:    d.Clock,
		HubURL:   d.HubURL,
		CABundle: d.CABundle,
		Changed:  d.Changed,
	}).SetupWithManager(mgr); err != nil {
		return err
	}
	if err := (&managedcluster.AbsenceReconciler{
		Authority: d.Authority,
		Clock:     d.Clock,
	}).SetupWithManager(mgr); err != nil {
		return err
	}
	for _, r := range []interface{ SetupWithManager(mgr ctrl.Manager) error }{
		&managedcluster.GuardReconciler{Client: mgr.GetClient(), Events: d.Events, Clock: d.Clock},
		&project.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: d.Events, Clock: d.Clock},
		&app.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: d.Events, Clock: d.Clock},
		&stackdeploy.AbsenceReconciler{Client: mgr.GetClient(), Events: d.Events, Clock: d.Clock},
	} {
		if err := r.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return managedcluster.ExportPhases(mgr)
}
