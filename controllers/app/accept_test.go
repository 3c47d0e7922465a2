// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

func TestAccept(t *testing.T) {
	web, db := workload("web", "", uses("db", "dsn")), addon("db", "b")
	stall := func(reason string, clusters ...kubenestv1.ProjectCluster) func(*view) {
		return func(v *view) {
			v.project.Status.Conditions = []metav1.Condition{{Type: kubenestv1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason, Message: "it is taken"}}
			v.project.Status.Clusters = clusters
		}
	}
	for name, tc := range map[string]struct {
		components     []kubenestv1.Component
		change         func(*view)
		reason, within string
	}{
		"well":                 {[]kubenestv1.Component{web, db}, nil, "", ""},
		"no organization":      {nil, func(v *view) { v.organization = false }, kubenestv1.ReasonNotAnOrganization, "kubectl label namespace org"},
		"no project":           {nil, func(v *view) { v.project = nil }, kubenestv1.ReasonProjectNotFound, "no Project shop in namespace org"},
		"project on its way":   {nil, func(v *view) { v.project.DeletionTimestamp = &metav1.Time{Time: noon} }, kubenestv1.ReasonProjectNotReady, "being deleted"},
		"project stalled":      {nil, stall(kubenestv1.ReasonNamespaceTaken), kubenestv1.ReasonNamespaceTaken, "it is taken"},
		"project not ready":    {nil, func(v *view) { v.project.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False"}} }, "", ""},
		"stalled on a cluster": {[]kubenestv1.Component{web, db}, stall("NamespaceTaken", kubenestv1.ProjectCluster{ClusterID: "b-id", Ready: "False", Reason: "NamespaceTaken"}), "NamespaceTaken", "it is taken"},
		"stalled on another cluster": {
			[]kubenestv1.Component{workload("web", "")},
			stall("NamespaceTaken", kubenestv1.ProjectCluster{ClusterID: "b-id", Ready: "False", Reason: "NamespaceTaken"}), "", "",
		},
		"revision not kept": {nil, func(v *view) {
			v.app.Spec.RollbackTo, v.history, v.wanted = 3, []revision{{number: 6}, {number: 7}}, revision{}
		}, kubenestv1.ReasonRevisionNotFound, "Kept are: 6, 7."},
		"export of a workload": {[]kubenestv1.Component{workload("web", "", uses("api", "dsn")), workload("api", "")}, nil, kubenestv1.ReasonUnknownExport, "api, which is no addon"},
		"export of nobody":     {[]kubenestv1.Component{web}, nil, kubenestv1.ReasonUnknownExport, "db, which is no addon"},
		"unknown export":       {[]kubenestv1.Component{workload("web", "", uses("db", "url")), db}, nil, kubenestv1.ReasonUnknownExport, "host, port, username, password, database, dsn"},
		"declared export": {[]kubenestv1.Component{workload("web", "", uses("db", "url")), addon("db", "", func(c *kubenestv1.Component) {
			c.AddonSpec.Exports = []kubenestv1.Export{{Name: "url", Template: "x"}}
		})}, nil, "", ""},
		"known export of another chart": {[]kubenestv1.Component{web, addon("db", "", func(c *kubenestv1.Component) {
			c.AddonSpec.Type = kubenestv1.AddonOther
		})}, nil, kubenestv1.ReasonUnknownExport, "uses export dsn of db"},
		"unknown cluster":          {[]kubenestv1.Component{workload("web", "nowhere")}, nil, kubenestv1.ReasonClusterNotFound, "for cluster nowhere"},
		"project's cluster gone":   {[]kubenestv1.Component{workload("web", "")}, func(v *view) { delete(v.places, "web") }, kubenestv1.ReasonClusterNotFound, "org/a does not exist"},
		"cluster of somebody else": {[]kubenestv1.Component{workload("web", "b")}, func(v *view) { v.allowed["b-id"] = false }, kubenestv1.ReasonClusterNotAllowed, "spec.allowedProjects"},
		"cluster on its way": {[]kubenestv1.Component{workload("web", "b")}, func(v *view) {
			v.records["b-id"].DeletionTimestamp = &metav1.Time{Time: noon}
		}, kubenestv1.ReasonClusterDeleting, "record is being deleted"},
		"no chart": {[]kubenestv1.Component{addon("db", "", func(c *kubenestv1.Component) {
			c.AddonSpec.Chart = kubenestv1.Chart{ConfigMapRef: &kubenestv1.LocalReference{Name: "pg"}}
		})}, func(v *view) { v.charts["pg"] = content{problem: "is not there"} }, kubenestv1.ReasonChartNotFound, "ConfigMap pg, which is not there"},
		"no gitops": {[]kubenestv1.Component{web, db}, func(v *view) { v.app.Spec.Delivery = kubenestv1.DeliveryArgoCD }, kubenestv1.ReasonGitOpsMissing, "no spec.gitops"},
		"wrong credential": {[]kubenestv1.Component{workload("web", "")}, func(v *view) {
			v.records["a-id"].Spec.Delivery, v.records["a-id"].Spec.GitOps = kubenestv1.DeliveryArgoCD, &kubenestv1.GitOps{RepoURL: "https://x"}
			v.credentials["a-id"] = content{problem: "Secret org/x is not of type y"}
		}, kubenestv1.ReasonGitOpsMissing, "not of type y"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := viewOf(tc.components...)
			for component, place := range v.places {
				if place == nil {
					delete(v.places, component)
				}
			}
			if tc.change != nil {
				tc.change(v)
			}
			refused := accept(v)
			if tc.reason == "" {
				g.Expect(refused).To(BeNil())
				return
			}
			g.Expect(refused).NotTo(BeNil())
			g.Expect(refused.reason).To(Equal(tc.reason))
			g.Expect(refused.message).To(ContainSubstring(tc.within))
		})
	}
}

func TestCycles(t *testing.T) {
	for name, tc := range map[string]struct {
		components []kubenestv1.Component
		want       string
	}{
		"none":            {[]kubenestv1.Component{workload("a", "", dependsOn("b", "c")), workload("b", "", dependsOn("c")), workload("c", "")}, ""},
		"of two":          {[]kubenestv1.Component{workload("a", "", dependsOn("b")), workload("b", "", dependsOn("a"))}, "a → b → a"},
		"behind another":  {[]kubenestv1.Component{workload("x", "", dependsOn("a")), workload("a", "", dependsOn("b")), workload("b", "", dependsOn("a"))}, "a → b → a"},
		"of three":        {[]kubenestv1.Component{workload("a", "", dependsOn("b")), workload("b", "", dependsOn("c")), workload("c", "", dependsOn("a"))}, "a → b → c → a"},
		"through exports": {[]kubenestv1.Component{workload("web", "", uses("db", "dsn")), addon("db", "", dependsOn("web"))}, "web → db → web"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			refused := accept(viewOf(tc.components...))
			if tc.want == "" {
				g.Expect(refused).To(BeNil())
				return
			}
			g.Expect(refused).NotTo(BeNil())
			g.Expect(refused.reason).To(Equal(kubenestv1.ReasonDependencyCycle))
			g.Expect(refused.message).To(ContainSubstring(tc.want))
		})
	}
}

func TestAddonMoves(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*view)
		reason string
	}{
		"refused":                   {func(*view) {}, kubenestv1.ReasonAddonMoveRefused},
		"allowed":                   {func(v *view) { v.app.Annotations = map[string]string{kubenestv1.AllowAddonMoveAnnotation: "cache, db"} }, ""},
		"allowed for another":       {func(v *view) { v.app.Annotations = map[string]string{kubenestv1.AllowAddonMoveAnnotation: "cache"} }, kubenestv1.ReasonAddonMoveRefused},
		"its cluster was given up":  {func(v *view) { v.records["a-id"].Spec.Abandoned = true }, ""},
		"its cluster's record gone": {func(v *view) { delete(v.records, "a-id") }, ""},
		"it is being removed there": {func(v *view) { v.stacks[0].DeletionTimestamp = &metav1.Time{Time: noon} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := change(deployed(viewOf(addon("db", "")), kubenestv1.AppRunning), addon("db", "b"))
			tc.change(v)
			refused := accept(v)
			if tc.reason == "" {
				g.Expect(refused).To(BeNil())
				p, _ := makePlan(v)
				g.Expect(p.specs).To(HaveLen(1))
				g.Expect(names(p.specs["b-id"])).To(Equal([]string{"db"}))
				return
			}
			g.Expect(refused).NotTo(BeNil())
			g.Expect(refused.reason).To(Equal(tc.reason))
			g.Expect(refused.message).To(ContainSubstring("runs on cluster a"))
		})
	}
}

func TestExcess(t *testing.T) {
	g := NewWithT(t)
	var history []revision
	for n := int64(1); n <= 13; n++ {
		history = append(history, revision{number: n})
	}
	numbers := func(list []revision) (out []int64) {
		for _, r := range list {
			out = append(out, r.number)
		}
		return out
	}
	g.Expect(numbers(excess(history, 0))).To(Equal([]int64{1, 2, 3}))
	g.Expect(numbers(excess(history, 2))).To(Equal([]int64{1, 3, 4}))
	g.Expect(numbers(excess(history[:10], 2))).To(BeEmpty())
}
