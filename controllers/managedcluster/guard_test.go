// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// What the guard does on an API server is tested beside the project controller, in
// controllers/project, whose work it waits for.

func TestUnreachable(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		status  metav1.ConditionStatus
		reason  string
		since   time.Duration
		away    bool
		atLeast time.Duration
	}{
		"unknown to the hub":      {away: true},
		"never there":             {metav1.ConditionFalse, kubenestv1.ReasonNeverConnected, time.Second, true, 0},
		"connected":               {metav1.ConditionTrue, kubenestv1.ReasonSessionEstablished, time.Hour, false, 2 * time.Minute},
		"operator restarts":       {metav1.ConditionFalse, kubenestv1.ReasonOperatorStopped, 30 * time.Second, false, 90 * time.Second},
		"away for just under":     {metav1.ConditionFalse, kubenestv1.ReasonSessionClosed, 2*time.Minute - time.Second, false, time.Second},
		"away for two minutes":    {metav1.ConditionFalse, kubenestv1.ReasonSessionClosed, 2 * time.Minute, true, 0},
		"away for a long while":   {metav1.ConditionFalse, kubenestv1.ReasonReplicaLost, time.Hour, true, 0},
		"revoked a long time ago": {metav1.ConditionFalse, kubenestv1.ReasonTokenRevoked, time.Hour, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			record := &kubenestv1.ManagedCluster{}
			if tt.reason != "" {
				record.Status.Conditions = []metav1.Condition{{
					Type: kubenestv1.ConditionConnected, Status: tt.status, Reason: tt.reason,
					LastTransitionTime: metav1.NewTime(now.Add(-tt.since)),
				}}
			}
			away, left := unreachable(record, now)
			g.Expect(away).To(Equal(tt.away))
			g.Expect(left).To(Equal(tt.atLeast))
		})
	}
}

func TestUsersInWords(t *testing.T) {
	g := NewWithT(t)
	users := clusterUsers{{name: "App platform/web"}, {name: "Project platform/shop", leaving: true}}
	g.Expect(users.leaving()).To(BeFalse())
	g.Expect(users[1:].leaving()).To(BeTrue())
	g.Expect(users.waitMessage()).To(HaveSuffix(": App platform/web, Project platform/shop (being removed)"))

	var many clusterUsers
	for range 300 {
		many = append(many, clusterUser{name: "App " + strings.Repeat("n", 60) + "/" + strings.Repeat("a", 60)})
	}
	g.Expect(len(many.waitMessage())).To(BeNumerically("<=", maxUsersMessage))
	g.Expect(many[:11].list()).To(HaveSuffix(", and 1 more"))
	g.Expect(strings.Count(many.list(), "App ")).To(Equal(usersNamed))
}
