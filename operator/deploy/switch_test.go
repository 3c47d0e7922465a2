// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
)

// argo is Argo CD, as far as it applies.
const argo = client.FieldOwner("argocd-controller")

// managers of an object that apply it.
func managers(o client.Object) []string {
	var names []string
	for _, e := range o.GetManagedFields() {
		if e.Operation == metav1.ManagedFieldsOperationApply {
			names = append(names, e.Manager)
		}
	}
	return names
}

var _ = Describe("another way of delivery", func() {
	credential := kubenestv1.StackInput{Kind: kubenestv1.InputGitCredential, Name: "fleet", Revision: "1"}
	published := func(spec *kubenestv1.StackDeploySpec) {
		spec.Delivery = kubenestv1.DeliveryArgoCD
		spec.GitOps = &kubenestv1.GitOps{
			RepoURL: "https://git.example.com/x", Branch: "main", Path: "a", SecretRef: &kubenestv1.LocalReference{Name: "fleet"},
		}
		spec.Inputs = []kubenestv1.StackInput{credential}
	}
	direct := func(spec *kubenestv1.StackDeploySpec) {
		spec.Delivery, spec.GitOps, spec.Inputs = kubenestv1.DeliveryDirect, nil, nil
	}
	annotation := func(ctx context.Context, s *kubenestv1.StackDeploy) func() (string, error) {
		return func() (string, error) {
			var live kubenestv1.StackDeploy
			err := api.Get(ctx, client.ObjectKeyFromObject(s), &live)
			return live.Annotations[delivery.PublishedAnnotation], err
		}
	}
	// sync does what Argo CD does with the last publication for a namespace.
	sync := func(ctx context.Context, w *ways, namespace string) {
		GinkgoHelper()
		var last []*unstructured.Unstructured
		w.with(func() {
			for _, p := range w.published {
				if p.Target.Namespace == namespace {
					last = p.Objects
				}
			}
		})
		for _, o := range last {
			o = o.DeepCopy()
			annotations := o.GetAnnotations()
			annotations["argocd.argoproj.io/tracking-id"] = "x"
			o.SetAnnotations(annotations)
			Expect(api.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), argo, client.ForceOwnership)).To(Succeed())
		}
	}
	count := func(w *ways, namespace string) func() int {
		return func() (n int) {
			w.with(func() {
				for _, p := range w.published {
					if p.Target.Namespace == namespace {
						n++
					}
				}
			})
			return n
		}
	}

	// released are the publications of a namespace that were taken back.
	released := func(w *ways, namespace string) (all []*delivery.Publication) {
		w.with(func() {
			for _, p := range w.released {
				if p.Target.Namespace == namespace {
					all = append(all, p)
				}
			}
		})
		return all
	}

	It("leaves what runs, and hands its fields over", func(ctx SpecContext) {
		w := newWays()
		w.addons["db"] = &delivery.Release{State: delivery.ReleaseDeployed, Chart: "db-1.0.0"}
		p := start(w)
		project(ctx, "switch")
		args := web("web", func(c *kubenestv1.Component) { c.WorkloadSpec.Args = []string{"-v"} })
		s := application(ctx, "switch", []kubenestv1.Component{addon("db"), args})
		run(ctx, "switch", "shop-web", 1)
		Eventually(status(ctx, s)).Should(Equal("Running; db=Running/Running web=Running/Running; "))
		before, err := deployment(ctx, "switch", "shop-web")()
		Expect(err).NotTo(HaveOccurred())

		By("direct to argocd: when Helm has ended, its record goes")
		Expect(p.store.Put(ctx, s.Name, credential, map[string][]byte{"password": []byte("token")})).To(Succeed())
		w.with(func() { w.left["helm"] = []string{"release shop-db"} })
		edit(ctx, s, published)
		Eventually(status(ctx, s)).Should(ContainSubstring("it is published when this has ended: release shop-db"))
		Expect(count(w, "switch")()).To(BeZero())
		w.with(func() { w.left["helm"] = nil })
		Eventually(count(w, "switch")).Should(BeNumerically(">", 0))
		Expect(annotation(ctx, s)()).To(ContainSubstring(`"credential":{"name":"fleet","kind":"GitCredential","revision":"1"}`))
		w.with(func() { Expect(w.forgotten).To(ContainElement("switch/db")) })
		sync(ctx, w, "switch")
		now, err := deployment(ctx, "switch", "shop-web")()
		Expect(err).NotTo(HaveOccurred())
		Expect(managers(now)).To(ConsistOf("argocd-controller"))
		Expect(now.Spec).To(Equal(before.Spec))

		By("what Argo CD is given no more goes: nobody else has it")
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Components[1].WorkloadSpec.Args = nil })
		Eventually(func(g Gomega) {
			sync(ctx, w, "switch")
			g.Expect(deployment(ctx, "switch", "shop-web")()).To(HaveField("Spec.Template.Spec.Containers", ConsistOf(HaveField("Args", BeEmpty()))))
		}).Should(Succeed())
		run(ctx, "switch", "shop-web", 1)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))

		By("argocd to direct: nothing is applied until Argo CD lets go")
		w.with(func() { w.left["argocd"] = []string{"Application argocd/x"} })
		edit(ctx, s, direct)
		Eventually(status(ctx, s)).Should(ContainSubstring("Argo CD is to let go of it first: Application argocd/x"))
		Expect(deployment(ctx, "switch", "shop-web")()).To(WithTransform(func(d *appsv1.Deployment) []string { return managers(d) }, ConsistOf("argocd-controller")))
		Expect(released(w, "switch")).To(HaveEach(And(HaveField("GitOps.Path", "a"), HaveField("Credential", HaveKeyWithValue("password", []byte("token"))))))
		w.with(func() { w.left["argocd"] = nil })
		Eventually(annotation(ctx, s)).Should(BeEmpty())
		Eventually(func(g Gomega) {
			now, err = deployment(ctx, "switch", "shop-web")()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(managers(now)).To(ConsistOf(kubenestv1.FieldManagerOperator))
			g.Expect(now.Annotations).NotTo(HaveKey("argocd.argoproj.io/tracking-id"))
		}).Should(Succeed())
		run(ctx, "switch", "shop-web", 1) // an annotation makes another generation, too
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
		Expect(now.UID).To(Equal(before.UID))
	})

	It("moves to another place, and is removed from where it is", func(ctx SpecContext) {
		w := newWays()
		p := start(w)
		project(ctx, "place")
		s := application(ctx, "place", []kubenestv1.Component{web("web")}, func(spec *kubenestv1.StackDeploySpec) {
			published(spec)
			spec.Inputs, spec.GitOps.SecretRef = nil, nil
		})
		Eventually(count(w, "place")).Should(BeNumerically(">", 0))
		Expect(released(w, "place")).To(BeEmpty())
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.GitOps.Path = "b" })
		Eventually(annotation(ctx, s)).Should(ContainSubstring(`"path":"b"`))
		Expect(released(w, "place")).To(HaveEach(HaveField("GitOps.Path", "a")))
		Eventually(func() (path string) {
			w.with(func() {
				for _, p := range w.published {
					if p.Target.Namespace == "place" {
						path = p.GitOps.Path
					}
				}
			})
			return path
		}).Should(Equal("b"))

		By("removing it, though the spec says by now that it is direct")
		w.with(func() { w.left["argocd"] = []string{"Application argocd/x"} })
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) {
			direct(spec)
			spec.Removed = true
		})
		Eventually(func() (string, error) {
			var live kubenestv1.StackDeploy
			err := api.Get(ctx, client.ObjectKeyFromObject(s), &live)
			return live.Status.Message, err
		}).Should(ContainSubstring("Application argocd/x"))
		w.with(func() { w.left["argocd"] = nil })
		p.reconciler.Changed(client.ObjectKeyFromObject(s))
		Eventually(missing(ctx, &kubenestv1.StackDeploy{}, system, s.Name)).Should(BeTrue())
		Expect(missing(ctx, &appsv1.Deployment{}, "place", "shop-web")()).To(BeTrue())
	})
})
