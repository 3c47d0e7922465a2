// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the records of kubenest, group kubenest.io/v1alpha1.
//
// The records are the database: kubectl, REST, the dashboard and GitOps read
// and write these objects and nothing else. Every status field has exactly one
// writer at a time, which applies it server-side under a field manager of its
// own (wellknown.go):
//
//	ManagedCluster
//	  clusterID, token, condition Registered ......... FieldManagerRegistration (leader)
//	  condition Provisioned .......................... FieldManagerProvisioning (leader)
//	  condition InUse, finalizer in-use .............. FieldManagerGuard (leader)
//	  everything else, phase and summary included .... FieldManagerSession: the replica
//	                                                   that status.session names while it
//	                                                   lives, else the leader
//
//	Project
//	  status ......................................... FieldManagerProject (leader)
//	App
//	  status ......................................... FieldManagerApp (leader)
//	StackDeploy, in the management cluster
//	  spec ........................................... FieldManagerApp, or FieldManagerProject
//	                                                   for those with namespaceSettings (leader)
//	  status ......................................... FieldManagerDelivery: the replica that
//	                                                   holds the cluster's session, else the
//	                                                   leader; fenced by resourceVersion
//	StackDeploy, on the workload cluster
//	  spec and status ................................ FieldManagerOperator
//
// Phase and Summarize in managedcluster_phase.go are pure functions of the
// spec and the conditions; no controller branches on a phase.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="applyconfiguration"
// +groupName=kubenest.io
package v1alpha1
