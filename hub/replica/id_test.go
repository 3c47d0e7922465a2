// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package replica_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubenest/kubenest/hub/replica"
)

func TestID(t *testing.T) {
	g := NewWithT(t)
	id := replica.New("kubenest-hub-5d8f")
	g.Expect(id.String()).To(MatchRegexp(`^kubenest-hub-5d8f/[a-z2-7]{16}$`))
	g.Expect(replica.Parse(id.String())).To(Equal(id))
	g.Expect(replica.New("kubenest-hub-5d8f")).NotTo(Equal(id), "each start draws anew")
	g.Expect(len(replica.New(strings.Repeat("n", 253)).String())).To(BeNumerically("<=", 320), "status.session.replica takes 320")

	for _, bad := range []string{"", "/", "name", "name/", "/boot", "a/b/c", strings.Repeat("n", 254) + "/boot"} {
		_, err := replica.Parse(bad)
		g.Expect(err).To(HaveOccurred(), "%.20q", bad)
	}
}

func TestLeaseName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(replica.LeaseName("kubenest-hub-5d8f")).To(Equal("replica-kubenest-hub-5d8f"))
	seen := map[string]string{}
	for _, name := range []string{
		"a", "A", "a.b", "a-b", "a_b", "-a", "a-", "ö", "…", " ", "127.0.0.1:8443",
		strings.Repeat("n", 200), strings.Repeat("n", 201), strings.Repeat("n", 253), strings.Repeat("n", 199) + "-x",
	} {
		lease := replica.LeaseName(name)
		g.Expect(validation.IsDNS1123Subdomain(lease)).To(BeEmpty(), "%q → %q", name, lease)
		g.Expect(seen).NotTo(HaveKey(lease), "%q and %q", name, seen[lease])
		seen[lease] = name
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a/b", "", "/", "a/b/c", "ä/\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := replica.Parse(s)
		if err != nil {
			return
		}
		g := NewWithT(t)
		g.Expect(id.String()).To(Equal(s))
		g.Expect(validation.IsDNS1123Subdomain(replica.LeaseName(id.Name))).To(BeEmpty())
	})
}
