// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// kstatusOf is what kstatus makes of an App with a status.
func kstatusOf(g Gomega, v *view, s *kubenestv1.AppStatus) kstatus.Status {
	app := v.app.DeepCopy()
	app.Status = *s
	content, err := toMap(app)
	g.Expect(err).NotTo(HaveOccurred())
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("App"))
	result, err := kstatus.Compute(o)
	g.Expect(err).NotTo(HaveOccurred())
	return result.Status
}

func TestAggregate(t *testing.T) {
	two := func(a, b kubenestv1.AppPhase) func(*view) {
		return func(v *view) {
			report(v.stack("a-id"), a)
			report(v.stack("b-id"), b)
		}
	}
	undelivered := func(reason string) func(*view) {
		return func(v *view) {
			s := v.stack("b-id")
			s.Generation++
			s.Status.Conditions = []metav1.Condition{{
				Type: kubenestv1.ConditionDelivered, Status: metav1.ConditionFalse, Reason: reason, Message: "not there yet", ObservedGeneration: s.Generation,
			}}
		}
	}
	away := func(d time.Duration) func(*view) {
		return func(v *view) { connect(v.records["b-id"], metav1.ConditionFalse, noon.Add(-d)) }
	}
	for name, tc := range map[string]struct {
		change  func(*view)
		phase   kubenestv1.AppPhase
		reason  string // of Ready
		message string
		ready   string
		kstatus kstatus.Status
	}{
		"all run":       {func(*view) {}, kubenestv1.AppRunning, "Running", "", "2/2", kstatus.CurrentStatus},
		"one deploys":   {two("Running", "Deploying"), kubenestv1.AppDeploying, "Deploying", "worker: words of worker", "1/2", kstatus.InProgressStatus},
		"one degraded":  {two("Running", "Degraded"), kubenestv1.AppDegraded, "Degraded", "worker: words of worker", "1/2", kstatus.InProgressStatus},
		"one failed":    {two("Deploying", "Failed"), kubenestv1.AppFailed, "Failed", "worker: words of worker", "0/2", kstatus.FailedStatus},
		"both failed":   {two("Failed", "Failed"), kubenestv1.AppFailed, "Failed", "web: words of web", "0/2", kstatus.FailedStatus},
		"one pending":   {two("Pending", "Running"), kubenestv1.AppPending, "Pending", "web: words of web", "1/2", kstatus.InProgressStatus},
		"an old report": {func(v *view) { v.stack("b-id").Generation++ }, kubenestv1.AppDeploying, "Deploying", "worker: A change", "1/2", kstatus.InProgressStatus},
		"another uid":   {func(v *view) { v.stack("b-id").Status.Source.UID = "x" }, kubenestv1.AppDeploying, "Deploying", "worker: A change", "1/2", kstatus.InProgressStatus},
		"not delivered": {undelivered(kubenestv1.ReasonDelivering), kubenestv1.AppDeploying, "Delivering", "worker: not there yet", "1/2", kstatus.InProgressStatus},
		"too old":       {undelivered(kubenestv1.ReasonOperatorTooOld), kubenestv1.AppFailed, "OperatorTooOld", "worker: not there yet", "1/2", kstatus.FailedStatus},
		"away a minute": {away(time.Minute), kubenestv1.AppRunning, "Running", "", "2/2", kstatus.CurrentStatus},
		"away an hour":  {away(time.Hour), kubenestv1.AppUnknown, "ClusterDisconnected", "worker: Cluster b has been disconnected since 2026-05-04T11:00:00Z", "1/2", kstatus.InProgressStatus},
		"given up":      {func(v *view) { v.records["b-id"].Spec.Abandoned = true }, kubenestv1.AppUnknown, "Abandoned", "worker: Cluster b was given up", "1/2", kstatus.InProgressStatus},
		"being removed": {func(v *view) { v.stack("b-id").DeletionTimestamp = &metav1.Time{Time: noon} }, kubenestv1.AppPending, "Removing", "worker: What the App had on cluster b", "1/2", kstatus.InProgressStatus},
		"paused":        {func(v *view) { v.app.Spec.Paused = true }, kubenestv1.AppPaused, "Paused", "spec.paused is set", "2/2", kstatus.InProgressStatus},
		"odd reason": {func(v *view) {
			two("Running", "Failed")(v)
			v.stack("b-id").Status.Components[0].Reason = "no: reason!"
		}, kubenestv1.AppFailed, "Failed", "worker: words", "1/2", kstatus.FailedStatus},
		"first and away": {func(v *view) { v.stack("b-id").Status = kubenestv1.StackDeployStatus{}; away(time.Hour)(v) }, kubenestv1.AppPending, "ClusterDisconnected", "worker: Cluster b has been disconnected", "1/2", kstatus.InProgressStatus},
		"never there": {func(v *view) {
			v.stack("b-id").Status = kubenestv1.StackDeployStatus{}
			v.records["b-id"].Status = kubenestv1.ManagedClusterStatus{}
		}, kubenestv1.AppPending, "ClusterDisconnected", "worker: Cluster b has not connected yet.", "1/2", kstatus.InProgressStatus},
		"words of the whole": {func(v *view) {
			s := v.stack("b-id")
			s.Status.Components, s.Status.Phase = nil, kubenestv1.AppPending
			s.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "WaitingForNamespace", Message: "no namespace", ObservedGeneration: s.Generation}}
		}, kubenestv1.AppPending, "WaitingForNamespace", "worker: no namespace", "1/2", kstatus.InProgressStatus},
		"held": {func(v *view) {
			v.stack("b-id").Status = kubenestv1.StackDeployStatus{}
			v.stack("b-id").Spec.Held = []kubenestv1.HeldComponent{{Name: "worker", Reason: kubenestv1.ReasonWaitingForExport, Message: "Waits for x."}}
		}, kubenestv1.AppPending, "WaitingForExport", "worker: Waits for x.", "1/2", kstatus.InProgressStatus},
		"held while it runs": {func(v *view) {
			v.stack("b-id").Spec.Held = []kubenestv1.HeldComponent{{Name: "worker", Reason: kubenestv1.ReasonWaitingForExport, Message: "Waits for x."}}
		}, kubenestv1.AppDeploying, "WaitingForExport", "worker: Waits for x. Until then it runs as it was.", "1/2", kstatus.InProgressStatus},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := deployed(viewOf(workload("web", ""), workload("worker", "b")), kubenestv1.AppRunning)
			tc.change(v)
			s := aggregate(v, nil)
			g.Expect(s.Phase).To(Equal(tc.phase))
			g.Expect(s.Ready).To(Equal(tc.ready))
			g.Expect(s.Clusters).To(Equal("a,b"))
			g.Expect(s.Message).To(HavePrefix(tc.message))
			if tc.message == "" {
				g.Expect(s.Message).To(BeEmpty())
			}
			g.Expect(s.ObservedGeneration).To(Equal(v.app.Generation))
			g.Expect(meta.FindStatusCondition(s.Conditions, kubenestv1.ConditionReady).Reason).To(Equal(tc.reason))
			g.Expect(meta.IsStatusConditionTrue(s.Conditions, kubenestv1.ConditionAccepted)).To(BeTrue())
			g.Expect(kstatusOf(g, v, s)).To(Equal(tc.kstatus))

			// At rest, nothing changes.
			v.app.Status, v.now = *s, v.now.Add(time.Second)
			g.Expect(aggregate(v, nil)).To(Equal(s))
		})
	}
}

func TestAggregateRefused(t *testing.T) {
	g := NewWithT(t)
	refused := refuse(kubenestv1.ReasonDependencyCycle, "a → b → a")
	v := viewOf(workload("web", ""))
	s := aggregate(v, refused)
	g.Expect(s.Phase).To(Equal(kubenestv1.AppFailed), "nothing runs")
	g.Expect(s.Message).To(Equal("a → b → a"))
	g.Expect(s.Components[0].Phase).To(Equal(kubenestv1.AppPending))
	g.Expect(kstatusOf(g, v, s)).To(Equal(kstatus.FailedStatus))

	v = change(deployed(viewOf(workload("web", ""), workload("old", "")), kubenestv1.AppRunning), workload("web", "b"))
	v.app.Status.Revision = 6
	s = aggregate(v, refused)
	g.Expect(s.Phase).To(Equal(kubenestv1.AppRunning), "what ran before does so still")
	g.Expect(s.Message).To(Equal("a → b → a What ran before keeps running."))
	g.Expect(s.Revision).To(Equal(int64(6)))
	g.Expect(s.Components).To(HaveLen(2))
	g.Expect(s.Components[0].Cluster).To(Equal("a"), "that is where it runs")
	g.Expect(meta.IsStatusConditionTrue(s.Conditions, kubenestv1.ConditionStalled)).To(BeTrue())
	g.Expect(meta.IsStatusConditionFalse(s.Conditions, kubenestv1.ConditionReady)).To(BeTrue())
	g.Expect(kstatusOf(g, v, s)).To(Equal(kstatus.FailedStatus))
}

func TestAggregateMoving(t *testing.T) {
	g := NewWithT(t)
	v := change(deployed(viewOf(workload("web", "")), kubenestv1.AppRunning), workload("web", "b"))
	v = deployed(v, kubenestv1.AppDeploying)
	s := aggregate(v, nil)
	g.Expect(s.Phase).To(Equal(kubenestv1.AppDeploying))
	g.Expect(s.Components).To(HaveLen(1))
	g.Expect(s.Components[0].Reason).To(Equal(kubenestv1.ReasonMoving))
	g.Expect(s.Components[0].Message).To(HavePrefix("Moves from cluster a to b"))
	g.Expect(s.Components[0].Cluster).To(Equal("b"))

	v.stack("b-id").Status.Components[0].Phase, v.stack("b-id").Status.Components[0].Reason = kubenestv1.AppFailed, "ImagePullBackOff"
	s = aggregate(v, nil)
	g.Expect(s.Components[0].Reason).To(Equal("ImagePullBackOff"), "why it does not move is what matters")
}

func TestReleasing(t *testing.T) {
	g := NewWithT(t)
	v := deployed(viewOf(workload("web", ""), workload("worker", "b")), kubenestv1.AppRunning)
	connect(v.records["b-id"], metav1.ConditionFalse, noon.Add(-time.Hour))
	v.stack("a-id").Status.Waiting = []string{"Deployment web-shop-web", "x", "y", "z"}
	s := releasing(v)
	g.Expect(s.Message).To(And(
		ContainSubstring("cluster a to remove Deployment web-shop-web, x, y and 1 more"),
		ContainSubstring("cluster b, which has been disconnected since 2026-05-04T11:00:00Z: set spec.abandoned on ManagedCluster b to give it up"),
	))
}

func TestNextLook(t *testing.T) {
	g := NewWithT(t)
	v := viewOf(workload("web", ""), workload("worker", "b"))
	g.Expect(v.nextLook(nil)).To(BeZero(), "what is at rest is left alone")
	g.Expect(v.nextLook(refuse("x", "y"))).To(Equal(lookAgain))
	connect(v.records["b-id"], metav1.ConditionFalse, noon.Add(-90*time.Second))
	g.Expect(v.nextLook(nil)).To(Equal(30*time.Second), "then the cluster has been away for two minutes")
	connect(v.records["b-id"], metav1.ConditionFalse, noon.Add(-time.Hour))
	g.Expect(v.nextLook(nil)).To(BeZero())
	v.app.Spec.Delivery = kubenestv1.DeliveryArgoCD
	g.Expect(v.nextLook(nil)).To(Equal(lookAgain), "nothing tells of a Git credential that changes")
}
