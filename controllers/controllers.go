// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/managedcluster"
	"github.com/kubenest/kubenest/hub/session"
)

// Dependencies are what controllers work with beside their manager.
type Dependencies struct {
	// Authority writes the session-owned fields.
	Authority *managedcluster.Authority
	// Sessions are those held by this replica.
	Sessions *session.Registry
	Timing   wire.Timing
	Events   events.EventRecorder
	Keys     managedcluster.Keys
	// HubURL and CABundle go into connection Secrets.
	HubURL   string
	CABundle func() string
	// Changed calls back when keys or CA bundle changed.
	Changed func(func()) (cancel func())
	Clock   clock.WithTicker
}

// AddEverywhere adds the controllers that run on every replica.
func AddEverywhere(mgr ctrl.Manager, d *Dependencies) error {
	return (&managedcluster.SessionReconciler{
		Authority: d.Authority,
		Sessions:  d.Sessions,
		Timing:    d.Timing,
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
	return managedcluster.ExportPhases(mgr)
}
