// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"math/rand/v2"

	"github.com/kubenest/kubenest/api/wire"
)

// Each simulated node is as large as the ones of the development environment.
const (
	nodeCPU    = 4000      // thousandths of a core
	nodeMemory = 16 << 30  // bytes
	cpuStep    = 10        // as the operator rounds
	memoryStep = 1 << 20   // as the operator rounds
	wobble     = 50        // usage moves by up to a part in this many of what there is
	kubernetes = "v1.37.2" // what all simulated clusters run
)

// figures plays one cluster's facts.
type figures struct {
	nodes             int32
	cpuTotal, cpuUsed int64
	memTotal, memUsed int64
	moving            bool
}

// newFigures makes clusters of 1 to 20 nodes, with 30 to 59 % in use.
func newFigures(i int, moving bool) *figures {
	nodes := int64(1 + i%20)
	used := int64(30 + i%30) // percent
	f := &figures{nodes: int32(nodes), cpuTotal: nodes * nodeCPU, memTotal: nodes * nodeMemory, moving: moving}
	f.cpuUsed, f.memUsed = round(f.cpuTotal*used/100, cpuStep), round(f.memTotal*used/100, memoryStep)
	return f
}

// moves spreads the moving share evenly over the clusters.
func moves(i int, share float64) bool {
	return int(float64(i+1)*share) > int(float64(i)*share)
}

// facts are what the operator of the cluster would find.
func (f *figures) facts(context.Context) wire.Facts {
	nodes, cpuTotal, memTotal, cpu, memory := f.nodes, f.cpuTotal, f.memTotal, f.cpuUsed, f.memUsed
	if f.moving {
		cpu = round(cpu+rand.Int64N(cpuTotal/wobble), cpuStep)
		memory = round(memory+rand.Int64N(memTotal/wobble), memoryStep)
	}
	return wire.Facts{
		KubernetesVersion: kubernetes, Nodes: &nodes, CPUTotal: &cpuTotal, MemTotal: &memTotal,
		CPUUsed: &cpu, MemUsed: &memory, Source: wire.SourceMetrics,
	}
}

func round(n, step int64) int64 { return (n + step/2) / step * step }
