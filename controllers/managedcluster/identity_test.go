// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

func TestDecideIdentity(t *testing.T) {
	session := func(process, previous string, since time.Duration) *kubenestv1.SessionStatus {
		at := metav1.NewTime(noon.Add(-since))
		return &kubenestv1.SessionStatus{Process: process, PreviousProcess: previous, PreviousSince: &at}
	}
	for name, c := range map[string]struct {
		pinned, rebind string
		session        *kubenestv1.SessionStatus
		uid, process   string
		alive          bool
		want           identity
		refused        wire.Class
	}{
		"the first connection pins": {uid: "U1", process: "A", want: identity{clusterUID: "U1", pinned: true}},
		"the same again": {
			pinned: "U1", session: session("A", "", 0), uid: "U1", process: "A", alive: true,
			want: identity{clusterUID: "U1", previousSince: noon},
		},
		"another cluster with the same token": {pinned: "U1", uid: "U2", process: "X", refused: wire.ClassConflict},
		"another cluster that was asked for": {
			pinned: "U1", rebind: "U2", session: session("A", "", 0), uid: "U2", process: "X", alive: true,
			want: identity{clusterUID: "U2", rebound: true, previousProcess: "A", previousSince: noon},
		},
		"the old cluster, until the one asked for comes": {
			pinned: "U1", rebind: "U2", session: session("A", "", 0), uid: "U1", process: "A",
			want: identity{clusterUID: "U1", previousSince: noon},
		},
		"the old cluster, after the one asked for came": {pinned: "U2", rebind: "U2", uid: "U1", process: "A", refused: wire.ClassConflict},
		"a handover": {
			pinned: "U1", session: session("A", "", 0), uid: "U1", process: "B", alive: true,
			want: identity{clusterUID: "U1", previousProcess: "A", previousSince: noon},
		},
		"a clone that alternates":    {pinned: "U1", session: session("B", "A", 9*time.Minute), uid: "U1", process: "A", alive: true, refused: wire.ClassDuplicate},
		"the same, long ago":         {pinned: "U1", session: session("B", "A", 11*time.Minute), uid: "U1", process: "A", alive: true, want: identity{clusterUID: "U1", previousProcess: "B", previousSince: noon}},
		"the same, incumbent gone":   {pinned: "U1", session: session("B", "A", time.Minute), uid: "U1", process: "A", alive: false, want: identity{clusterUID: "U1", previousProcess: "B", previousSince: noon}},
		"a third process after both": {pinned: "U1", session: session("B", "A", time.Minute), uid: "U1", process: "C", alive: true, want: identity{clusterUID: "U1", previousProcess: "B", previousSince: noon}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			record := &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "shop"}}
			record.Spec.Rebind = c.rebind
			record.Status.ClusterUID, record.Status.Session = c.pinned, c.session
			got, refusal := decideIdentity(record, &wire.Hello{ClusterUID: c.uid, Process: c.process}, c.alive, noon)
			if c.refused != "" {
				g.Expect(refusal).To(HaveOccurred())
				g.Expect(refusal.Class).To(Equal(c.refused))
				g.Expect(refusal.Message).To(ContainSubstring("platform/shop"))
				return
			}
			g.Expect(refusal).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(c.want))
		})
	}
}
