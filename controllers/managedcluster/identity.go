// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"time"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// duplicateWindow is how long after a handover the process that was replaced is
// taken for a second operator if it comes back while the new one is connected.
const duplicateWindow = 10 * time.Minute

// identity is the outcome of the question whether a cluster's operator may
// connect: what becomes of the record's pinned identity.
type identity struct {
	clusterUID string
	// pinned says that this is the first connection, rebound that spec.rebind
	// moved the record to this cluster.
	pinned, rebound bool
	// process took over from previousProcess at previousSince.
	previousProcess string
	previousSince   time.Time
}

// decideIdentity pins the first cluster that connects with a record's token and
// refuses every other. Two operators of one identity (a cloned machine has the
// same kube-system UID) are told apart by their process ids: a new id is a
// handover, but an id that was handed over from and returns within the window,
// while the one that replaced it is alive, belongs to a second operator.
func decideIdentity(record *kubenestv1.ManagedCluster, hello *wire.Hello, incumbentAlive bool, now time.Time) (identity, *wire.Refusal) {
	status := &record.Status
	id := identity{clusterUID: hello.ClusterUID}
	switch {
	case status.ClusterUID == "":
		id.pinned = true
	case status.ClusterUID == hello.ClusterUID:
	case record.Spec.Rebind == hello.ClusterUID:
		id.rebound = true
	default:
		return identity{}, wire.Refuse(wire.ClassConflict,
			"the record %s/%s belongs to the cluster whose kube-system namespace has UID %s, and this cluster's has UID %s: "+
				"register this cluster under a record of its own, or move the record to it on purpose with "+
				"kubectl -n %s patch mc %s --type merge -p '{\"spec\":{\"rebind\":\"%s\"}}'",
			record.Namespace, record.Name, status.ClusterUID, hello.ClusterUID, record.Namespace, record.Name, hello.ClusterUID)
	}

	last := status.Session
	if last == nil || last.Process == "" {
		return id, nil
	}
	id.previousProcess = last.PreviousProcess
	if last.PreviousSince != nil {
		id.previousSince = last.PreviousSince.Time
	}
	if last.Process == hello.Process {
		return id, nil
	}
	if !id.rebound && incumbentAlive && hello.Process == last.PreviousProcess && now.Sub(id.previousSince) < duplicateWindow {
		return identity{}, duplicate(record)
	}
	id.previousProcess, id.previousSince = last.Process, now
	return id, nil
}

func duplicate(record *kubenestv1.ManagedCluster) *wire.Refusal {
	return wire.Refuse(wire.ClassDuplicate,
		"another operator with this cluster's identity is connected as %s/%s: this one runs on a copy (a cloned machine or a restored snapshot), "+
			"or a second installation; uninstall it here, or register this cluster under a record of its own and reinstall with that token",
		record.Namespace, record.Name)
}
