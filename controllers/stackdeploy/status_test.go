// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

var (
	noon  = metav1.NewTime(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
	key   = wire.Stack{Namespace: "org", Name: "shop"}
	third = wire.Delivery{UID: "u", Generation: 3, Digest: "d3"}
)

// at makes a moment of generation 3 after what was known before.
func at(before kubenestv1.StackDeployStatus, change ...func(*moment)) *moment {
	m := &moment{
		stack: &kubenestv1.StackDeploy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "org", Name: "shop", UID: "u", Generation: 3},
			Spec:       kubenestv1.StackDeploySpec{ClusterID: "id-1", App: "shop"}, Status: before,
		},
		record: &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "org", Name: "prod"}},
		want:   third, held: &wire.Held{Stack: key, Delivery: third}, outcome: delivered("prod"), now: noon,
	}
	for _, f := range change {
		f(m)
	}
	return m
}

func reporting(d wire.Delivery, s kubenestv1.StackDeployStatus) func(*moment) {
	data, _ := json.Marshal(s)
	return func(m *moment) { m.report = &wire.Report{Stack: key, Delivery: d, Status: data} }
}

func failing(c metav1.Condition) func(*moment) {
	return func(m *moment) { m.outcome, m.held = c, nil }
}

func deleted(m *moment) {
	m.stack.DeletionTimestamp = &noon
	m.outcome = undelivered(kubenestv1.ReasonRemoving, "Cluster prod removes it.")
}

// words are the conditions as "Type=Status/Reason".
func words(s *kubenestv1.StackDeployStatus) string {
	var all []string
	for _, t := range []string{kubenestv1.ConditionDelivered, kubenestv1.ConditionReady, kubenestv1.ConditionReconciling, kubenestv1.ConditionStalled} {
		if c := meta.FindStatusCondition(s.Conditions, t); c != nil {
			all = append(all, t+"="+string(c.Status)+"/"+c.Reason)
		}
	}
	return strings.Join(all, " ")
}

// kubectl is what kstatus makes of a status.
func kubectl(g *WithT, s *kubenestv1.StackDeploy, status kubenestv1.StackDeployStatus) kstatus.Status {
	o := s.DeepCopy()
	o.Status = status
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	g.Expect(err).NotTo(HaveOccurred())
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(kubenestv1.GroupVersion.WithKind("StackDeploy"))
	result, err := kstatus.Compute(object)
	g.Expect(err).NotTo(HaveOccurred())
	return result.Status
}

// said is an operator's status with conditions as "Type=Status/Reason".
func said(phase kubenestv1.AppPhase, conditions ...string) kubenestv1.StackDeployStatus {
	s := kubenestv1.StackDeployStatus{Phase: phase, Components: []kubenestv1.ComponentStatus{{Name: "web", Phase: phase, Image: "web:1"}}}
	for _, c := range conditions {
		t, rest, _ := strings.Cut(c, "=")
		status, reason, _ := strings.Cut(rest, "/")
		s.Conditions = append(s.Conditions, metav1.Condition{Type: t, Status: metav1.ConditionStatus(status), Reason: reason, Message: "So it is."})
	}
	return s
}

func TestObserve(t *testing.T) {
	runs := said(kubenestv1.AppRunning, "Ready=True/Running")
	ran, _ := observe(at(kubenestv1.StackDeployStatus{}, reporting(third, runs)))
	second, fourth, foreign, rebuilt := third, third, third, third
	second.Generation, second.Digest = 2, "d2"
	fourth.Generation = 4
	foreign.Digest = "other"
	rebuilt.UID = "v"
	before := ran
	before.Source = sourceOf(key, second)
	for name, tc := range map[string]struct {
		m         *moment
		want      string
		phase     kubenestv1.AppPhase
		kstatus   kstatus.Status
		reports   string // the image that is shown
		keepsMail bool
	}{
		"nothing is known yet": {
			m:    at(kubenestv1.StackDeployStatus{}),
			want: "Delivered=True/Delivered Ready=False/Deploying Reconciling=True/Deploying", phase: "Deploying", kstatus: kstatus.InProgressStatus,
		},
		"it runs": {
			m:    at(kubenestv1.StackDeployStatus{}, reporting(third, runs)),
			want: "Delivered=True/Delivered Ready=True/Running", phase: "Running", kstatus: kstatus.CurrentStatus, reports: "web:1",
		},
		"it runs, and nothing new is said": {
			m:    at(ran),
			want: "Delivered=True/Delivered Ready=True/Running", phase: "Running", kstatus: kstatus.CurrentStatus, reports: "web:1",
		},
		"it failed": {
			m:    at(ran, reporting(third, said(kubenestv1.AppFailed, "Ready=False/Timeout", "Stalled=True/Timeout", "Reconciling=True/Deploying"))),
			want: "Delivered=True/Delivered Ready=False/Timeout Stalled=True/Timeout", phase: "Failed", kstatus: kstatus.FailedStatus, reports: "web:1",
		},
		"it is ready and claims to be on its way": {
			m:    at(ran, reporting(third, said(kubenestv1.AppRunning, "Ready=True/Running", "Reconciling=True/Deploying", "Stalled=True/Timeout"))),
			want: "Delivered=True/Delivered Ready=True/Running", phase: "Running", kstatus: kstatus.CurrentStatus, reports: "web:1",
		},
		"it says no conditions": {
			m:    at(kubenestv1.StackDeployStatus{}, reporting(third, said("Nonsense"))),
			want: "Delivered=True/Delivered Ready=False/Deploying", phase: "Deploying", kstatus: kstatus.InProgressStatus, reports: "web:1",
		},
		"the report is about the generation before": {
			m:    at(before, reporting(second, said(kubenestv1.AppRunning, "Ready=True/Running"))),
			want: "Delivered=True/Delivered Ready=False/Deploying Reconciling=True/Deploying", phase: "Deploying", kstatus: kstatus.InProgressStatus, reports: "web:1",
		},
		"the report is older than what is known": {
			m: at(ran, reporting(second, kubenestv1.StackDeployStatus{
				Phase: kubenestv1.AppFailed, Components: []kubenestv1.ComponentStatus{{Name: "web", Image: "web:0"}},
			})),
			want: "Delivered=True/Delivered Ready=True/Running", phase: "Running", kstatus: kstatus.CurrentStatus, reports: "web:1",
		},
		"the report is about a generation to come": {
			m:    at(ran, reporting(fourth, said(kubenestv1.AppFailed, "Ready=False/Timeout"))),
			want: "Delivered=True/Delivered Ready=True/Running", phase: "Running", kstatus: kstatus.CurrentStatus, reports: "web:1", keepsMail: true,
		},
		"the report is about other content": {
			m:    at(ran, reporting(foreign, said(kubenestv1.AppFailed, "Ready=False/Timeout"))),
			want: "Delivered=True/Delivered Ready=True/Running", phase: "Running", kstatus: kstatus.CurrentStatus, reports: "web:1",
		},
		"the report is about another object": {
			m:    at(ran, reporting(rebuilt, said(kubenestv1.AppFailed, "Ready=False/Timeout"))),
			want: "Delivered=True/Delivered Ready=True/Running", phase: "Running", kstatus: kstatus.CurrentStatus, reports: "web:1",
		},
		"the report is rubbish": {
			m: at(ran, func(m *moment) {
				m.report = &wire.Report{Stack: key, Delivery: third, Status: json.RawMessage(`{"components":7}`)}
			}),
			want: "Delivered=True/Delivered Ready=Unknown/Invalid", phase: "Unknown", kstatus: kstatus.InProgressStatus, reports: "web:1",
		},
		"the report is null": {
			m:    at(ran, func(m *moment) { m.report = &wire.Report{Stack: key, Delivery: third, Status: json.RawMessage(`null`)} }),
			want: "Delivered=True/Delivered Ready=False/Deploying", phase: "Deploying", kstatus: kstatus.InProgressStatus,
		},
		"it is on its way": {
			m:    at(ran, failing(delivering("prod", ""))),
			want: "Delivered=False/Delivering Ready=False/Deploying Reconciling=True/Delivering", phase: "Deploying", kstatus: kstatus.InProgressStatus, reports: "web:1",
		},
		"it is too large": {
			m:    at(ran, failing(tooLarge(5<<20, 1<<20, []wire.Input{{Name: "c", Kind: "Chart", Data: map[string][]byte{"c": make([]byte, 3<<20)}}}))),
			want: "Delivered=False/TooLarge Ready=False/TooLarge Stalled=True/TooLarge", phase: "Failed", kstatus: kstatus.FailedStatus, reports: "web:1",
		},
		"an input is missing": {
			m:    at(ran, failing(*inputMissing("ConfigMap org/c with a chart is not there: create it."))),
			want: "Delivered=False/InputMissing Ready=False/InputMissing Reconciling=True/InputMissing", phase: "Pending", kstatus: kstatus.InProgressStatus, reports: "web:1",
		},
		"it is removed": {
			m:    at(ran, deleted),
			want: "Delivered=False/Removing Ready=False/Removing Reconciling=True/Deleting", phase: "Deploying", kstatus: kstatus.TerminatingStatus, reports: "web:1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, used := observe(tc.m)
			g.Expect(words(&got)).To(Equal(tc.want))
			g.Expect(got.Phase).To(Equal(tc.phase))
			g.Expect(used).To(Equal(!tc.keepsMail))
			g.Expect(kubectl(g, tc.m.stack, got)).To(Equal(tc.kstatus))
			g.Expect(got.ObservedGeneration).To(BeEquivalentTo(3))
			image := ""
			for _, c := range got.Components {
				image = c.Image
				g.Expect(c.Cluster).To(Equal("prod"))
				g.Expect(c.ClusterID).To(Equal("id-1"))
			}
			g.Expect(image).To(Equal(tc.reports))

			again := *tc.m
			again.stack = tc.m.stack.DeepCopy()
			again.stack.Status = got
			again.now = metav1.NewTime(noon.Add(time.Hour))
			same, _ := observe(&again)
			g.Expect(same).To(Equal(got), "it is idempotent")

			edited := tc.m.stack.DeepCopy()
			edited.Generation++
			if edited.DeletionTimestamp == nil {
				g.Expect(kubectl(g, edited, got)).To(Equal(kstatus.InProgressStatus), "an edit that was not looked at yet")
			}
		})
	}
}

func TestDeliveryAfterAFailureIsNotTakenForRunning(t *testing.T) {
	g := NewWithT(t)
	ran, _ := observe(at(kubenestv1.StackDeployStatus{}, reporting(third, said(kubenestv1.AppRunning, "Ready=True/Running"))))
	old, _ := observe(at(ran, failing(undelivered(kubenestv1.ReasonOperatorTooOld, "Upgrade."))))
	got, _ := observe(at(old))
	g.Expect(words(&got)).To(Equal("Delivered=True/Delivered Ready=False/Deploying Reconciling=True/Deploying"))
}

func TestExportsInTheWayAreSaidAndUnsaid(t *testing.T) {
	g := NewWithT(t)
	why := notOurs(objectKey("org", kubenestv1.ExportsSecretName("shop", "web")))
	got, _ := observe(at(kubenestv1.StackDeployStatus{}, reporting(third, said(kubenestv1.AppRunning, "Ready=True/Running")),
		func(m *moment) { m.refused = map[string]string{"web": why} }))
	g.Expect(got.Components[0]).To(And(HaveField("Reason", kubenestv1.ReasonObjectNotOurs), HaveField("Message", why)))
	got, _ = observe(at(got))
	g.Expect(got.Components[0]).To(And(HaveField("Reason", ""), HaveField("Message", "")))
}

func TestReadBoundsAnOperatorsWords(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("ä\x1b[31m\n", 2000)
	bad := kubenestv1.StackDeployStatus{
		Phase: "Nonsense", Message: long, Drift: long,
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: "Perhaps", Reason: "not a reason", Message: long},
			{Type: "Delivered", Status: "True", Reason: "Mine"},
		},
	}
	for range 100 {
		bad.Waiting = append(bad.Waiting, long)
	}
	for i := range 300 {
		bad.Components = append(bad.Components, kubenestv1.ComponentStatus{
			Name: "c" + strings.Repeat("x", i%50), Type: "other", Phase: "Nonsense", Reason: long, Message: long, Image: long,
			Cluster: "mine", ClusterID: "mine", Exports: append([]string{long, "dsn", ".."}, strings.Split(strings.Repeat("e,", 99)+"e", ",")...),
			Warnings: []string{long, long, long, long, long, long, long}, ReadyReplicas: new(int32(-1)), DesiredReplicas: new(int32(2)),
		})
	}
	bad.Components = append(bad.Components, kubenestv1.ComponentStatus{Name: "Not A Name"})
	data, err := json.Marshal(bad)
	g.Expect(err).NotTo(HaveOccurred())
	s, err := read(&wire.Report{Status: data})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Phase).To(BeEmpty())
	g.Expect(len(s.Message)).To(BeNumerically("<=", wire.MaxText))
	g.Expect(s.Waiting).To(HaveLen(maxWaiting))
	g.Expect(s.Conditions).To(HaveLen(1))
	g.Expect(s.Conditions[0]).To(And(HaveField("Status", metav1.ConditionUnknown), HaveField("Reason", kubenestv1.ReasonDeploying)))
	g.Expect(s.Components).To(HaveLen(maxComponentName), "each name once")
	for _, c := range s.Components {
		g.Expect(c.Type).To(BeEmpty())
		g.Expect(c.ClusterID).To(BeEmpty())
		g.Expect(c.Exports).To(And(HaveLen(maxExportNames), ContainElement("dsn"), Not(ContainElement(".."))))
		g.Expect(c.Warnings).To(HaveLen(maxWarnings))
		g.Expect(c.ReadyReplicas).To(BeNil())
		g.Expect(c.DesiredReplicas).To(HaveValue(BeEquivalentTo(2)))
		for _, text := range append(c.Warnings, c.Message, c.Image, c.Reason) {
			g.Expect(text).NotTo(MatchRegexp(`[\x00-\x1f]`))
			g.Expect(len(text)).To(BeNumerically("<=", wire.MaxText))
		}
	}
}

func TestAbsent(t *testing.T) {
	ran, _ := observe(at(kubenestv1.StackDeployStatus{}, reporting(third, said(kubenestv1.AppRunning, "Ready=True/Running"))))
	heard := metav1.NewMicroTime(noon.Add(-5 * time.Minute))
	session := &kubenestv1.SessionStatus{Epoch: 4, LastHeardAt: &heard}
	for name, tc := range map[string]struct {
		before    kubenestv1.StackDeployStatus
		change    func(*absence)
		want      string
		phase     kubenestv1.AppPhase
		kstatus   kstatus.Status
		says      string
		unchanged bool
	}{
		"all is delivered, and it is away for a moment": {before: ran, change: func(*absence) {}, unchanged: true},
		"all is delivered, and it is away for long": {
			before: ran, change: func(a *absence) { a.long = true },
			want: "Delivered=False/ClusterDisconnected Ready=Unknown/ClusterDisconnected", phase: "Unknown", kstatus: kstatus.InProgressStatus, says: "status.reportedAt",
		},
		"something waits": {
			before: ran, change: func(a *absence) { a.stack.Generation = 4 },
			want:  "Delivered=False/ClusterDisconnected Ready=False/ClusterDisconnected Reconciling=True/ClusterDisconnected",
			phase: "Pending", kstatus: kstatus.InProgressStatus, says: "delivered by itself when it is back",
		},
		"it has never been there": {
			change: func(a *absence) { a.record.Status.Session = nil },
			want:   "Delivered=False/ClusterDisconnected Ready=False/ClusterDisconnected Reconciling=True/ClusterDisconnected",
			phase:  "Pending", kstatus: kstatus.InProgressStatus, says: "install its operator",
		},
		"its record is gone": {
			before: ran, change: func(a *absence) { a.record, a.long = nil, true },
			want:  "Delivered=False/ClusterNotFound Ready=Unknown/ClusterNotFound Stalled=True/ClusterNotFound",
			phase: "Unknown", kstatus: kstatus.FailedStatus, says: "id-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a := &absence{
				stack: at(tc.before).stack, since: noon.Add(-time.Minute), now: noon,
				record: &kubenestv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "org", Name: "prod"}},
			}
			a.record.Status.Session = session
			tc.change(a)
			got := absent(a)
			if tc.unchanged {
				g.Expect(got).To(Equal(tc.before))
				return
			}
			g.Expect(words(&got)).To(Equal(tc.want))
			g.Expect(got.Phase).To(Equal(tc.phase))
			g.Expect(got.Message).To(ContainSubstring(tc.says))
			g.Expect(got.Components).To(Equal(tc.before.Components))
			g.Expect(kubectl(g, a.stack, got)).To(Equal(tc.kstatus))
			if a.long && a.record != nil {
				g.Expect(got.ReportedAt.Time).To(BeTemporally("==", heard.Time))
			}
			later := *a
			later.stack = a.stack.DeepCopy()
			later.stack.Status, later.now = got, metav1.NewTime(noon.Add(time.Hour))
			g.Expect(absent(&later)).To(Equal(got), "it is idempotent")
		})
	}
}
