// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers lists every controller of the hub. Each kind has a package
// of its own below this one, and each concern of a kind a file.
//
// Where a controller runs follows from what it speaks for. What describes or
// uses a session runs on every replica, for the sessions held there. The rest
// runs on the leader, and so does what speaks for clusters that no living
// replica holds.
//
//	controller              runs on        reads                              writes (field manager)
//	cluster-session         every replica  ManagedCluster, session registry   session fields, Connected, summary (kubenest-session)
//	(managedcluster.Authority) every replica  the same, signing keys, Leases  the same, at each connection (kubenest-session)
//	cluster-registration    leader         ManagedCluster, Namespace, Secret  clusterID, token, Registered; connection Secret (kubenest-registration)
//	cluster-absence         leader         ManagedCluster, Leases             session fields, Connected, summary (kubenest-session)
//	cluster-guard           leader         ManagedCluster, Project, StackDeploy       finalizer in-use, InUse (kubenest-guard)
//	project                 leader         Project, App, StackDeploy, ManagedCluster  Project status; StackDeploys of namespaces (kubenest-project)
//	app                     leader         App, Project, StackDeploy, ManagedCluster, exports, charts, revisions
//	                                                                          App status; StackDeploys of Apps; revisions (kubenest-app)
//	stack-delivery          every replica  StackDeploy, session registry, mailbox     StackDeploy status, exports (kubenest-delivery)
//	stack-unknown           every replica  mailbox                                    Events about work that the hub has no record of
//	stack-absence           leader         StackDeploy, ManagedCluster                StackDeploy status (kubenest-delivery)
//
// The field managers kubenest-session and kubenest-delivery have two possible writers. status.session
// decides who it is: the replica it names, while that one's Lease lives, else the
// leader. Every such write carries the record's resourceVersion, so that a writer
// with an outdated idea of who it is gets a conflict and changes nothing.
package controllers
