// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

func TestSplit(t *testing.T) {
	g := NewWithT(t)
	v := viewOf(workload("web", "", uses("db", "dsn"), dependsOn("db", "worker")), addon("db", "b"), workload("worker", ""))
	v.app.Spec.Timeout = &metav1.Duration{Duration: time.Minute}
	v.records["b-id"].Spec.Delivery = kubenestv1.DeliveryArgoCD
	v.records["b-id"].Spec.GitOps = &kubenestv1.GitOps{RepoURL: "https://git.example.com/x.git", SecretRef: &kubenestv1.LocalReference{Name: "git"}}
	v.records["b-id"].Spec.Grants = &kubenestv1.Grants{ClusterScoped: true}
	v.credentials["b-id"] = content{revision: "git-1"}
	v.exports["db"] = exported{"exports-1", "b-id"}
	p, refused := makePlan(v)
	g.Expect(refused).To(BeNil())
	g.Expect(p.specs).To(HaveLen(2))

	a := p.specs["a-id"]
	g.Expect(names(a)).To(Equal([]string{"web", "worker"}))
	g.Expect(a.Components[0].DependsOn).To(Equal([]string{"worker"}), "the operator of a can not see db")
	g.Expect(a.Namespace).To(Equal("shop-ns"))
	g.Expect(a.Project).To(Equal(kubenestv1.ProjectKey{Namespace: "org", Name: "shop"}))
	g.Expect(a.App).To(Equal("web-shop"))
	g.Expect(a.Revision).To(Equal(int64(7)))
	g.Expect(a.Delivery).To(Equal(kubenestv1.DeliveryDirect))
	g.Expect(a.Timeout.Duration).To(Equal(time.Minute))
	g.Expect(a.Inputs).To(Equal([]kubenestv1.StackInput{{Name: "web-shop-db-exports", Kind: kubenestv1.InputExports, Revision: "exports-1"}}))

	b := p.specs["b-id"]
	g.Expect(names(b)).To(Equal([]string{"db"}))
	g.Expect(b.Components[0].ClusterID).To(BeEmpty())
	g.Expect(b.Delivery).To(Equal(kubenestv1.DeliveryArgoCD))
	g.Expect(b.GitOps.RepoURL).To(Equal("https://git.example.com/x.git"))
	g.Expect(b.Grants.ClusterScoped).To(BeTrue())
	g.Expect(b.Inputs).To(Equal([]kubenestv1.StackInput{{Name: "git", Kind: kubenestv1.InputGitCredential, Revision: "git-1"}}))
	g.Expect(v.components[1].ClusterID).To(Equal("b"), "what was read is not changed")
}

func TestSplitRefusesInputsOfOneName(t *testing.T) {
	g := NewWithT(t)
	v := viewOf(addon("db", "", func(c *kubenestv1.Component) {
		c.AddonSpec.Chart = kubenestv1.Chart{ConfigMapRef: &kubenestv1.LocalReference{Name: "git"}}
	}))
	v.app.Spec.Delivery = kubenestv1.DeliveryArgoCD
	v.records["a-id"].Spec.GitOps = &kubenestv1.GitOps{RepoURL: "https://x", SecretRef: &kubenestv1.LocalReference{Name: "git"}}
	_, refused := makePlan(v)
	g.Expect(refused).NotTo(BeNil())
	g.Expect(refused.message).To(ContainSubstring("both named git"))
}

func TestRevisionStaysWhereNothingChanged(t *testing.T) {
	g := NewWithT(t)
	v := deployed(viewOf(workload("web", ""), workload("worker", "b")), kubenestv1.AppRunning)
	next := change(v, workload("web", "", image("example/web:v2")), workload("worker", "b"))
	next.wanted.number, next.latest.number = 8, 8
	p, _ := makePlan(next)
	g.Expect(p.specs["a-id"].Revision).To(Equal(int64(8)))
	g.Expect(p.specs["b-id"].Revision).To(Equal(int64(7)))
}

func TestPausedFreezes(t *testing.T) {
	g := NewWithT(t)
	v := deployed(viewOf(workload("web", "")), kubenestv1.AppRunning)
	next := change(v, workload("web", "", image("example/web:v2")), workload("worker", "b"))
	next.app.Spec.Paused = true
	p, _ := makePlan(next)
	g.Expect(p.frozen).To(BeTrue())
	g.Expect(p.specs).To(HaveLen(1))
	g.Expect(p.specs["a-id"].Paused).To(BeTrue())
	g.Expect(p.specs["a-id"].Components[0].WorkloadSpec.Image).To(Equal("example/web:v1"))
}

func TestHeld(t *testing.T) {
	away := func(v *view) { connect(v.records["b-id"], metav1.ConditionFalse, noon.Add(-time.Hour)) }
	consumer, dependent := workload("web", "", uses("db", "dsn")), workload("web", "", dependsOn("db"))
	begun := func(v *view) {
		v.exports["db"] = exported{"1", "b-id"}
		deployed(v, kubenestv1.AppRunning)
	}
	for name, tc := range map[string]struct {
		web            kubenestv1.Component
		change         []func(*view)
		reason, within string
	}{
		"export not there":              {consumer, nil, kubenestv1.ReasonWaitingForExport, "export dsn of db on cluster b."},
		"export not there, cluster too": {consumer, []func(*view){away}, kubenestv1.ReasonWaitingForExport, "cluster b, which has been disconnected since 2026-05-04T11:00:00Z"},
		"export there":                  {consumer, []func(*view){func(v *view) { v.exports["db"] = exported{"1", "b-id"} }}, "", ""},
		"export there, cluster away":    {consumer, []func(*view){func(v *view) { v.exports["db"] = exported{"1", "b-id"} }, away}, kubenestv1.ReasonClusterDisconnected, "cluster b"},
		"runs, cluster away":            {consumer, []func(*view){begun, away}, "", ""},
		"runs, export withdrawn":        {consumer, []func(*view){begun, func(v *view) { v.exports = nil }}, kubenestv1.ReasonWaitingForExport, "db"},
		"export of where the addon was": {consumer, []func(*view){func(v *view) { v.exports["db"] = exported{"1", "c-id"} }}, kubenestv1.ReasonWaitingForExport, "db"},
		"runs, addon moved":             {consumer, []func(*view){begun, func(v *view) { v.exports["db"] = exported{"1", "c-id"} }}, "", ""},
		"dependency not there":          {dependent, nil, kubenestv1.ReasonWaitingForDependency, "db on cluster b to run"},
		"dependency away":               {dependent, []func(*view){away}, kubenestv1.ReasonWaitingForDependency, "db on cluster b, which has been disconnected"},
		"dependency deploys":            {dependent, []func(*view){func(v *view) { deployed(v, kubenestv1.AppDeploying) }}, kubenestv1.ReasonWaitingForDependency, "db"},
		"dependency runs":               {dependent, []func(*view){func(v *view) { deployed(v, kubenestv1.AppRunning) }}, "", ""},
		"dependency ran before a change": {dependent, []func(*view){func(v *view) {
			deployed(v, kubenestv1.AppRunning)
			for i := range v.stacks {
				v.stacks[i].Generation++
			}
		}}, kubenestv1.ReasonWaitingForDependency, "db"},
		"dependency went away later": {dependent, []func(*view){func(v *view) {
			deployed(deployed(v, kubenestv1.AppRunning), kubenestv1.AppRunning)
		}, away, func(v *view) {
			report(v.stack("b-id"), kubenestv1.AppUnknown)
		}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := viewOf(tc.web, addon("db", "b"))
			for _, f := range tc.change {
				f(v)
			}
			p, _ := makePlan(v)
			g.Expect(names(p.specs["a-id"])).To(Equal([]string{"web"}), "it is listed, held or not")
			if tc.reason == "" {
				g.Expect(p.specs["a-id"].Held).To(BeEmpty())
				return
			}
			g.Expect(p.specs["a-id"].Held).To(HaveLen(1))
			g.Expect(p.specs["a-id"].Held[0].Reason).To(Equal(tc.reason))
			g.Expect(p.specs["a-id"].Held[0].Message).To(ContainSubstring(tc.within))
		})
	}
}

func TestMoving(t *testing.T) {
	moved := func() *view {
		return change(deployed(viewOf(workload("web", ""), addon("db", "")), kubenestv1.AppRunning), workload("web", "b", image("example/web:v2")), addon("db", ""))
	}
	// begin has b take web up, in a phase.
	begin := func(v *view, phase kubenestv1.AppPhase) {
		p, _ := makePlan(v)
		s := kubenestv1.StackDeploy{ObjectMeta: metav1.ObjectMeta{Namespace: "org", Name: kubenestv1.StackName("app", v.app.Name, "b-id"), Generation: 4}, Spec: *p.specs["b-id"]}
		report(&s, phase)
		v.stacks = append(v.stacks, s)
	}
	for name, tc := range map[string]struct {
		change func(*view)
		onA    []string
	}{
		"begins":                   {func(*view) {}, []string{"db", "web"}},
		"not ready yet":            {func(v *view) { begin(v, kubenestv1.AppDeploying) }, []string{"db", "web"}},
		"ready":                    {func(v *view) { begin(v, kubenestv1.AppRunning) }, []string{"db"}},
		"ready before a change":    {func(v *view) { begin(v, kubenestv1.AppRunning); v.stack("b-id").Generation++ }, []string{"db", "web"}},
		"ready with another image": {func(v *view) { begin(v, kubenestv1.AppRunning); v.components[0].WorkloadSpec.Image = "x/y:v3" }, []string{"db", "web"}},
		"the old cluster away":     {func(v *view) { connect(v.records["a-id"], metav1.ConditionFalse, noon.Add(-time.Hour)) }, []string{"db", "web"}},
		"the old cluster given up": {func(v *view) { v.records["a-id"].Spec.Abandoned = true }, []string{"db"}},
		"the component was removed": {func(v *view) {
			v.components, v.places = v.components[1:], map[string]*kubenestv1.ManagedCluster{"db": v.records["a-id"]}
		}, []string{"db"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := moved()
			tc.change(v)
			p, _ := makePlan(v)
			g.Expect(names(p.specs["a-id"])).To(Equal(tc.onA))
			if kept := find(p.specs["a-id"].Components, "web"); kept != nil {
				g.Expect(kept.WorkloadSpec.Image).To(Equal("example/web:v1"), "it stays as it was")
			}
		})
	}
}

func TestMovingBackAndForth(t *testing.T) {
	g := NewWithT(t)
	v := change(deployed(viewOf(workload("web", "")), kubenestv1.AppRunning), workload("web", "b"))
	// Both have it now; b is not ready, and a is told nothing new.
	v = deployed(v, kubenestv1.AppDeploying)
	g.Expect(v.stacks).To(HaveLen(2))
	report(v.stack("a-id"), kubenestv1.AppRunning)
	back := change(v, workload("web", ""))
	p, _ := makePlan(back)
	g.Expect(p.specs).To(HaveLen(1), "it runs on a already")
	g.Expect(p.specs).To(HaveKey("a-id"))
	g.Expect(p.moved).To(Equal([]move{{"web", "b", "a"}}))
}

func TestTypeChangesInTwoSteps(t *testing.T) {
	g := NewWithT(t)
	v := deployed(viewOf(workload("db", ""), workload("web", "")), kubenestv1.AppRunning)
	p, _ := makePlan(change(v, addon("db", ""), workload("web", "")))
	g.Expect(names(p.specs["a-id"])).To(Equal([]string{"web"}))
}

func TestUnchangedPlanIsTheSame(t *testing.T) {
	g := NewWithT(t)
	v := deployed(viewOf(workload("web", "", uses("db", "dsn")), addon("db", "b")), kubenestv1.AppRunning)
	p, _ := makePlan(v)
	for id, spec := range p.specs {
		g.Expect(same(spec, &v.stack(id).Spec)).To(BeTrue())
	}
}
