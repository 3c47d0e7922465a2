// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// written is a status whose figures were written some time ago: 3 nodes, 10
// cores of which 2 are used, 100 GiB of which 50 are used.
func written(ago time.Duration) *kubenestv1.ManagedClusterStatus {
	at := metav1.NewTime(noon.Add(-ago))
	return &kubenestv1.ManagedClusterStatus{
		KubernetesVersion: "v1.37.2",
		NodeCount:         ptr.To[int32](3),
		Resources: &kubenestv1.ClusterResources{
			CPUTotal: resource.NewQuantity(10, resource.DecimalSI), CPUUsed: resource.NewQuantity(2, resource.DecimalSI),
			MemTotal: resource.NewQuantity(100<<30, resource.BinarySI), MemUsed: resource.NewQuantity(50<<30, resource.BinarySI),
			Source: wire.SourceRequests, ObservedAt: &at,
		},
	}
}

// facts are those of written, changed.
func facts(change func(*wire.Facts)) *wire.Facts {
	f := &wire.Facts{
		KubernetesVersion: "v1.37.2", Nodes: ptr.To[int32](3),
		CPUTotal: ptr.To[int64](10_000), CPUUsed: ptr.To[int64](2_000),
		MemTotal: ptr.To[int64](100 << 30), MemUsed: ptr.To[int64](50 << 30), Source: wire.SourceRequests,
	}
	change(f)
	return f
}

func TestFiguresDue(t *testing.T) {
	for name, c := range map[string]struct {
		ago    time.Duration
		change func(*wire.Facts)
		due    bool
		wait   time.Duration
	}{
		"figures that rest are never written":         {time.Hour, func(*wire.Facts) {}, false, 0},
		"a new node is written":                       {time.Minute, func(f *wire.Facts) { f.Nodes = ptr.To[int32](4) }, true, 0},
		"a new node waits for its turn":               {10 * time.Second, func(f *wire.Facts) { f.Nodes = ptr.To[int32](4) }, false, 20 * time.Second},
		"more capacity is written":                    {time.Minute, func(f *wire.Facts) { f.CPUTotal = ptr.To[int64](12_000) }, true, 0},
		"usage below a twentieth of capacity is not":  {time.Hour, func(f *wire.Facts) { f.CPUUsed = ptr.To[int64](2_499) }, false, 0},
		"usage by a twentieth is, after five minutes": {5 * time.Minute, func(f *wire.Facts) { f.CPUUsed = ptr.To[int64](2_500) }, true, 0},
		"usage that falls counts as well":             {5 * time.Minute, func(f *wire.Facts) { f.MemUsed = ptr.To[int64](40 << 30) }, true, 0},
		"usage waits for its turn":                    {time.Minute, func(f *wire.Facts) { f.CPUUsed = ptr.To[int64](9_000) }, false, 4 * time.Minute},
		"usage that is no longer known is a change": {time.Hour, func(f *wire.Facts) {
			f.CPUUsed, f.MemUsed, f.Source = nil, nil, ""
		}, true, 0},
		"another source is a change": {time.Hour, func(f *wire.Facts) { f.Source = wire.SourceMetrics }, true, 0},
		"an upgrade is written":      {time.Hour, func(f *wire.Facts) { f.KubernetesVersion = "v1.38.0" }, true, 0},
		"facts that know nothing leave the last ones": {time.Hour, func(f *wire.Facts) {
			*f = wire.Facts{Unreachable: "connection refused"}
		}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			due, wait := figuresDue(written(c.ago), facts(c.change), noon)
			g.Expect(due).To(Equal(c.due))
			g.Expect(wait).To(Equal(c.wait))
		})
	}

	t.Run("the first figures are written at once", func(t *testing.T) {
		due, _ := figuresDue(&kubenestv1.ManagedClusterStatus{}, facts(func(*wire.Facts) {}), noon)
		NewWithT(t).Expect(due).To(BeTrue())
	})
	t.Run("the first usage is written at once", func(t *testing.T) {
		status := written(time.Second)
		status.Resources.Source, status.Resources.CPUUsed, status.Resources.MemUsed = "", nil, nil
		due, _ := figuresDue(status, facts(func(*wire.Facts) {}), noon)
		NewWithT(t).Expect(due).To(BeTrue())
	})
	t.Run("figures that were written are not due again", func(t *testing.T) {
		g := NewWithT(t)
		moved := facts(func(f *wire.Facts) { f.Nodes, f.CPUUsed = ptr.To[int32](5), ptr.To[int64](7_123) })
		var status kubenestv1.ManagedClusterStatus
		setFacts(&status, moved, noon)
		due, wait := figuresDue(&status, moved, noon.Add(time.Hour))
		g.Expect(due).To(BeFalse())
		g.Expect(wait).To(BeZero())
	})
}

func TestColumns(t *testing.T) {
	for name, c := range map[string]struct {
		facts       wire.Facts
		cpu, memory string
	}{
		"small":            {wire.Facts{CPUTotal: ptr.To[int64](8_000), CPUUsed: ptr.To[int64](3_249), MemTotal: ptr.To[int64](96 << 30), MemUsed: ptr.To[int64](11 << 30)}, "3.2/8", "11/96 Gi"},
		"fractions":        {wire.Facts{CPUTotal: ptr.To[int64](1_500), CPUUsed: ptr.To[int64](40), MemTotal: ptr.To[int64](5 << 29), MemUsed: ptr.To[int64](1 << 29)}, "0/1.5", "0.5/2.5 Gi"},
		"large":            {wire.Facts{CPUTotal: ptr.To[int64](4_096_000), CPUUsed: ptr.To[int64](9_960), MemTotal: ptr.To[int64](9 << 40), MemUsed: ptr.To[int64](10 << 30)}, "10/4096", "10/9216 Gi"},
		"usage not known":  {wire.Facts{CPUTotal: ptr.To[int64](8_000), MemTotal: ptr.To[int64](1 << 30)}, "?/8", "?/1 Gi"},
		"no nodes at all":  {wire.Facts{CPUTotal: ptr.To[int64](0), CPUUsed: ptr.To[int64](0), MemTotal: ptr.To[int64](0), MemUsed: ptr.To[int64](0)}, "0/0", "0/0 Gi"},
		"memory not known": {wire.Facts{CPUTotal: ptr.To[int64](8_000)}, "?/8", ""},
	} {
		t.Run(name, func(t *testing.T) {
			columns := columnsOf(resourcesOf(&c.facts, noon))
			NewWithT(t).Expect(columns).To(HaveValue(Equal(kubenestv1.Columns{CPU: c.cpu, Memory: c.memory})))
		})
	}
	t.Run("nothing known", func(t *testing.T) {
		NewWithT(t).Expect(columnsOf(resourcesOf(&wire.Facts{}, noon))).To(BeNil())
	})
}
