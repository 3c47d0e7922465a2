// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const text = `# HELP apiserver_request_total [STABLE] Counter of apiserver requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 7
apiserver_request_total{code="409",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="kubenest.io",resource="managedclusters",scope="resource",subresource="status",verb="APPLY",version="v1alpha1"} 3
apiserver_request_total{code="0",component="apiserver",dry_run="",group="",resource="secrets",scope="cluster",subresource="",verb="WATCH",version="v1"} 2
apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 11
# TYPE go_goroutines gauge
go_goroutines 5
`

func TestCountsByKindAndSince(t *testing.T) {
	g := NewWithT(t)
	counts, err := parse(strings.NewReader(text))
	g.Expect(err).NotTo(HaveOccurred())
	leases := Kind{Verb: "PUT", Group: "coordination.k8s.io", Resource: "leases"}
	status := Kind{Verb: "APPLY", Group: "kubenest.io", Resource: "managedclusters", Subresource: "status"}
	g.Expect(counts).To(HaveKeyWithValue(leases, 8), "answers of all codes count")
	g.Expect(counts.Only(Kind.Write)).To(Equal(Counts{leases: 8, status: 3}))
	g.Expect(counts.Only(Kind.About).Total()).To(Equal(13))

	before := Counts{leases: 8, status: 1}
	g.Expect(counts.Only(Kind.Write).Since(before)).To(Equal(Counts{status: 2}))
	g.Expect(counts.Only(Kind.Write).String()).To(Equal("8 × PUT leases.coordination.k8s.io, 3 × APPLY managedclusters.kubenest.io/status"))
	g.Expect(Counts{}.String()).To(Equal("none"))
}

func TestRefusesOtherMetrics(t *testing.T) {
	g := NewWithT(t)
	_, err := parse(strings.NewReader("# TYPE go_goroutines gauge\ngo_goroutines 5\n"))
	g.Expect(err).To(MatchError(ContainSubstring("apiserver_request_total")))
	_, err = parse(strings.NewReader("not metrics at all"))
	g.Expect(err).To(HaveOccurred())
}
