// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// How often figures may be written. A connected cluster whose figures rest
// causes no write at all; these bound one whose figures move.
const (
	// totalsEvery is the least time between two writes of node count and totals.
	totalsEvery = 30 * time.Second
	// usageEvery is the least time between two writes for usage alone.
	usageEvery = 5 * time.Minute
	// usageStep is the share of capacity, one part in this many, that usage must
	// have moved by to be written.
	usageStep = 20
)

// figuresDue says whether facts are worth a write over what the record has, and
// if they are but it is too soon, when they will be. wait is 0 when there is
// nothing to write, now or later.
func figuresDue(status *kubenestv1.ManagedClusterStatus, facts *wire.Facts, now time.Time) (due bool, wait time.Duration) {
	resources := status.Resources
	if resources == nil || resources.ObservedAt == nil {
		return facts.Nodes != nil || facts.CPUTotal != nil || facts.MemTotal != nil, 0
	}
	age := now.Sub(resources.ObservedAt.Time)
	var every time.Duration
	switch {
	case resources.Source == "" && facts.Source != "":
		return true, 0 // usage was not known, as just after the operator's start
	case facts.Nodes == nil && facts.CPUTotal == nil:
		return false, 0
	case totalsMoved(status, facts):
		every = totalsEvery
	case usageMoved(resources, facts):
		every = usageEvery
	default:
		return false, 0
	}
	if age >= every || age < 0 { // of the future: the clock was set back
		return true, 0
	}
	return false, every - age
}

func totalsMoved(status *kubenestv1.ManagedClusterStatus, facts *wire.Facts) bool {
	nodes := status.NodeCount == nil || facts.Nodes == nil || *status.NodeCount != *facts.Nodes
	if status.NodeCount == nil && facts.Nodes == nil {
		nodes = false
	}
	r := status.Resources
	return nodes || !sameFigure(milli(r.CPUTotal), facts.CPUTotal) ||
		!sameFigure(bytes(r.MemTotal), facts.MemTotal) || r.Source != facts.Source ||
		(facts.KubernetesVersion != "" && facts.KubernetesVersion != status.KubernetesVersion)
}

func usageMoved(r *kubenestv1.ClusterResources, facts *wire.Facts) bool {
	return movedBy(milli(r.CPUUsed), facts.CPUUsed, facts.CPUTotal) ||
		movedBy(bytes(r.MemUsed), facts.MemUsed, facts.MemTotal)
}

func sameFigure(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// movedBy reports whether a usage figure moved by its step of the capacity.
func movedBy(before, after, total *int64) bool {
	if before == nil || after == nil || total == nil {
		return (before == nil) != (after == nil)
	}
	moved := *after - *before
	if moved < 0 {
		moved = -moved
	}
	return moved > 0 && moved*usageStep >= *total
}

func milli(q *resource.Quantity) *int64 {
	if q == nil {
		return nil
	}
	n := q.MilliValue()
	return &n
}

func bytes(q *resource.Quantity) *int64 {
	if q == nil {
		return nil
	}
	n := q.Value()
	return &n
}

// resourcesOf converts facts, nil where they know no figure at all.
func resourcesOf(facts *wire.Facts, observed time.Time) *kubenestv1.ClusterResources {
	if facts.CPUTotal == nil && facts.MemTotal == nil && facts.CPUUsed == nil && facts.MemUsed == nil {
		return nil
	}
	at := metav1.NewTime(observed).Rfc3339Copy()
	return &kubenestv1.ClusterResources{
		CPUTotal:   cpu(facts.CPUTotal),
		CPUUsed:    cpu(facts.CPUUsed),
		MemTotal:   memory(facts.MemTotal),
		MemUsed:    memory(facts.MemUsed),
		Source:     facts.Source,
		ObservedAt: &at,
	}
}

func cpu(milli *int64) *resource.Quantity {
	if milli == nil {
		return nil
	}
	return resource.NewMilliQuantity(*milli, resource.DecimalSI)
}

func memory(bytes *int64) *resource.Quantity {
	if bytes == nil {
		return nil
	}
	return resource.NewQuantity(*bytes, resource.BinarySI)
}
