// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

func web(name string, mutate ...func(*kubenestv1.Component)) kubenestv1.Component {
	c := kubenestv1.Component{Name: name, Type: kubenestv1.ComponentWorkload, WorkloadSpec: &kubenestv1.WorkloadSpec{
		Image: "ghcr.io/example/" + name + ":v1", Port: 8080,
	}}
	for _, m := range mutate {
		m(&c)
	}
	return c
}

func addon(name string) kubenestv1.Component {
	return kubenestv1.Component{Name: name, Type: kubenestv1.ComponentAddon, AddonSpec: &kubenestv1.AddonSpec{
		Chart: kubenestv1.Chart{OCI: "oci://registry.example.com/" + name, Version: "1.0.0"},
	}}
}

func uses(component, key string) func(*kubenestv1.Component) {
	return func(c *kubenestv1.Component) {
		c.WorkloadSpec.Env = append(c.WorkloadSpec.Env, kubenestv1.EnvVar{Name: "URL", ValueFrom: &kubenestv1.EnvVarSource{
			ExportRef: &kubenestv1.ExportReference{Component: component, Key: key},
		}})
	}
}

func after(names ...string) func(*kubenestv1.Component) {
	return func(c *kubenestv1.Component) { c.DependsOn = names }
}

// run has a Deployment be as its controller would report it.
func run(ctx context.Context, namespace, name string, ready int32) {
	GinkgoHelper()
	Eventually(func() error {
		var d appsv1.Deployment
		if err := api.Get(ctx, key(namespace, name), &d); err != nil {
			return err
		}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas, ReadyReplicas: ready,
		}
		return api.Status().Update(ctx, &d)
	}).Should(Succeed())
}

func deployment(ctx context.Context, namespace, name string) func() (*appsv1.Deployment, error) {
	return func() (*appsv1.Deployment, error) {
		var d appsv1.Deployment
		err := api.Get(ctx, key(namespace, name), &d)
		return &d, err
	}
}

func image(d *appsv1.Deployment) string { return d.Spec.Template.Spec.Containers[0].Image }

func missing(ctx context.Context, o client.Object, namespace, name string) func() bool {
	return func() bool { return apierrors.IsNotFound(api.Get(ctx, key(namespace, name), o)) }
}

var _ = Describe("a workload", func() {
	It("is applied, kept, changed and removed", func(ctx SpecContext) {
		p := start(newWays())
		space := project(ctx, "kept")
		s := application(ctx, "kept", []kubenestv1.Component{web("web")})
		Eventually(status(ctx, space)).Should(HavePrefix("Running;"))
		Eventually(status(ctx, s)).Should(HavePrefix("Deploying; web=Deploying/"))
		run(ctx, "kept", "shop-web", 1)
		Eventually(status(ctx, s)).Should(Equal("Running; web=Running/Running; "))

		By("writing nothing while nothing differs")
		var before, now kubenestv1.StackDeploy
		Expect(api.Get(ctx, client.ObjectKeyFromObject(s), &before)).To(Succeed())
		Expect(before.Status.Source).To(Equal(before.Spec.Source))
		p.reconciler.Changed(client.ObjectKeyFromObject(s))
		Consistently(func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(s), &now)).To(Succeed())
			g.Expect(now.ResourceVersion).To(Equal(before.ResourceVersion))
		}).Should(Succeed())
		Expect(p.events()).To(BeEmpty())

		By("correcting what somebody else changes, and saying it once")
		d, err := deployment(ctx, "kept", "shop-web")()
		Expect(err).NotTo(HaveOccurred())
		d.Spec.Template.Spec.Containers[0].Image = "evil:v1"
		d.Spec.Replicas = ptr.To[int32](5)
		Expect(api.Update(ctx, d, client.FieldOwner("kubectl-edit"))).To(Succeed())
		Eventually(func() (string, error) {
			d, err := deployment(ctx, "kept", "shop-web")()
			return fmt.Sprint(image(d), " ", *d.Spec.Replicas), err
		}).Should(Equal("ghcr.io/example/web:v1 1"))
		Eventually(func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(s), &now)).To(Succeed())
			g.Expect(now.Status.Drift).To(And(ContainSubstring("spec.template.spec.containers[web].image (by kubectl-edit)"),
				ContainSubstring("spec.replicas (by kubectl-edit)"), Not(ContainSubstring("evil"))))
			g.Expect(now.Status.DriftedAt).NotTo(BeNil())
		}).Should(Succeed())
		run(ctx, "kept", "shop-web", 1)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
		Expect(p.events()).To(HaveExactElements(ContainSubstring("Normal DriftCorrected Deployment kept/shop-web")))

		By("making anew what somebody deletes")
		Expect(api.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kept", Name: "shop-web"}})).To(Succeed())
		Eventually(func() error { return api.Get(ctx, key("kept", "shop-web"), &corev1.Service{}) }).Should(Succeed())
		Eventually(p.events).Should(HaveExactElements(ContainSubstring("Service kept/shop-web was deleted")))

		By("pruning what a new generation has no more, without calling it drift")
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) {
			spec.Components[0].WorkloadSpec.Port = 0
			spec.Components[0].WorkloadSpec.Image = "ghcr.io/example/web:v2"
		})
		Eventually(missing(ctx, &corev1.Service{}, "kept", "shop-web")).Should(BeTrue())
		Eventually(status(ctx, s)).Should(HavePrefix("Deploying;"))
		run(ctx, "kept", "shop-web", 1)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
		Expect(p.events()).To(BeEmpty())

		By("telling a fault from a rollout")
		run(ctx, "kept", "shop-web", 0)
		Eventually(status(ctx, s)).Should(HavePrefix("Degraded; web=Degraded/"))

		By("removing a component that the spec has no more")
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Components = []kubenestv1.Component{web("api")} })
		Eventually(missing(ctx, &appsv1.Deployment{}, "kept", "shop-web")).Should(BeTrue())
		Eventually(status(ctx, s)).Should(HavePrefix("Deploying; api=Deploying/"))

		By("removing everything, then the StackDeploy")
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Removed = true })
		Eventually(missing(ctx, &kubenestv1.StackDeploy{}, system, s.Name)).Should(BeTrue())
		Expect(missing(ctx, &appsv1.Deployment{}, "kept", "shop-api")()).To(BeTrue())
	})

	It("keeps running when its StackDeploy is merely deleted, and is recognised by the next one", func(ctx SpecContext) {
		first := start(newWays())
		project(ctx, "again")
		s := application(ctx, "again", []kubenestv1.Component{web("web")})
		Eventually(deployment(ctx, "again", "shop-web")).Should(HaveField("Generation", int64(1)))
		Expect(api.Delete(ctx, s)).To(Succeed())
		Consistently(func() error { return api.Get(ctx, key("again", "shop-web"), &appsv1.Deployment{}) }).Should(Succeed())
		first.stop()

		By("a rebuilt hub, and an operator that was away")
		s = application(ctx, "again", []kubenestv1.Component{web("web")}, func(spec *kubenestv1.StackDeploySpec) { spec.Source.UID = "another" })
		start(newWays())
		run(ctx, "again", "shop-web", 1)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
		Expect(deployment(ctx, "again", "shop-web")()).To(HaveField("Generation", int64(1)))
	})

	It("is finished by the next operator when one ends half-way", func(ctx SpecContext) {
		first := start(newWays())
		project(ctx, "half")
		s := application(ctx, "half", []kubenestv1.Component{web("web")})
		run(ctx, "half", "shop-web", 1)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
		first.stop()
		// Applied, and the status not written; in the meantime somebody edits, and the spec
		// loses a variable.
		d, err := deployment(ctx, "half", "shop-web")()
		Expect(err).NotTo(HaveOccurred())
		d.Spec.Template.Spec.Containers[0].Command = []string{"sh"}
		d.Spec.RevisionHistoryLimit = ptr.To[int32](9)
		Expect(api.Update(ctx, d, client.FieldOwner("kubectl-edit"))).To(Succeed())
		Expect(api.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "half", Name: "shop-web"}})).To(Succeed())
		second := start(newWays())
		Eventually(func() error { return api.Get(ctx, key("half", "shop-web"), &corev1.Service{}) }).Should(Succeed())
		Eventually(deployment(ctx, "half", "shop-web")).Should(HaveField("Spec.RevisionHistoryLimit", HaveValue(BeEquivalentTo(3))))
		Eventually(second.events).Should(ContainElement(ContainSubstring("spec.revisionHistoryLimit (by kubectl-edit)")))
	})

	It("leaves what is not its own, and names it", func(ctx SpecContext) {
		start(newWays())
		space := project(ctx, "foreign")
		Eventually(status(ctx, space)).Should(HavePrefix("Running;"))
		theirs := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "foreign", Name: "shop-web"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
		}
		Expect(api.Create(ctx, theirs)).To(Succeed())
		s := application(ctx, "foreign", []kubenestv1.Component{web("web"), web("api")})
		Eventually(status(ctx, s)).Should(And(HavePrefix("Failed; web=Failed/ObjectNotOurs api=Deploying/"), ContainSubstring("Service foreign/shop-web exists")))
		version := theirs.ResourceVersion
		Expect(api.Get(ctx, key("foreign", "shop-web"), theirs)).To(Succeed())
		Expect(theirs.ResourceVersion).To(Equal(version))

		By("going on when it is gone")
		Expect(api.Delete(ctx, theirs)).To(Succeed())
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Revision++ })
		run(ctx, "foreign", "shop-web", 1)
		run(ctx, "foreign", "shop-api", 1)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
	})

	It("gets nothing of a Secret that is not in its namespace", func(ctx SpecContext) {
		start(newWays())
		project(ctx, "thief")
		Expect(api.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "prod-connection"}, Data: map[string][]byte{"token": []byte("x")},
		})).To(Succeed())
		s := application(ctx, "thief", []kubenestv1.Component{web("web", func(c *kubenestv1.Component) {
			c.WorkloadSpec.Env = []kubenestv1.EnvVar{{Name: "T", ValueFrom: &kubenestv1.EnvVarSource{
				SecretKeyRef: &kubenestv1.SecretKeyReference{Name: "prod-connection", Key: "token"},
			}}}
		})})
		Eventually(status(ctx, s)).Should(HavePrefix("Deploying;"))
		Expect(missing(ctx, &corev1.Secret{}, "thief", "prod-connection")()).To(BeTrue())

		By("rolling when its own Secret appears")
		d, err := deployment(ctx, "thief", "shop-web")()
		Expect(err).NotTo(HaveOccurred())
		before := d.Spec.Template.Annotations[kubenestv1.InputsAnnotation]
		Expect(before).NotTo(BeEmpty())
		Expect(api.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "thief", Name: "prod-connection"}})).To(Succeed())
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Revision++ })
		Eventually(deployment(ctx, "thief", "shop-web")).ShouldNot(HaveField("Spec.Template.Annotations", HaveKeyWithValue(kubenestv1.InputsAnnotation, before)))
	})

	It("says that the Project's quota is exceeded", func(ctx SpecContext) {
		start(newWays())
		project(ctx, "narrow")
		s := application(ctx, "narrow", []kubenestv1.Component{web("web")})
		Eventually(deployment(ctx, "narrow", "shop-web")).Should(Not(BeNil()))
		Eventually(func() error {
			d, err := deployment(ctx, "narrow", "shop-web")()
			if err != nil {
				return err
			}
			d.Status.ObservedGeneration = d.Generation
			d.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentReplicaFailure, Status: "True", Reason: "FailedCreate",
				Message: `pods "x" is forbidden: exceeded quota: kubenest, requested: pods=1, used: pods=0, limited: pods=0`,
			}}
			return api.Status().Update(ctx, d)
		}).Should(Succeed())
		Eventually(status(ctx, s)).Should(And(HavePrefix("Deploying; web=Deploying/ExceededQuota"), ContainSubstring("limited: pods=0")))
		Expect(api.Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "narrow", Name: "e1"},
			InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Namespace: "narrow", Name: "shop-web-5d4f"},
			Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "exceeded quota", LastTimestamp: metav1.Now(),
		})).To(Succeed())
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Timeout = &metav1.Duration{Duration: 1} })
		Eventually(status(ctx, s)).Should(And(HavePrefix("Failed; web=Failed/Timeout"), ContainSubstring("ExceededQuota")))
		var live kubenestv1.StackDeploy
		Eventually(func() ([]string, error) {
			edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Revision++ })
			err := api.Get(ctx, client.ObjectKeyFromObject(s), &live)
			return live.Status.Components[0].Warnings, err
		}, "30s", "1s").Should(ContainElement("FailedCreate: exceeded quota"))

		By("recovering by itself")
		run(ctx, "narrow", "shop-web", 1)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
	})

	It("says what the API server refuses", func(ctx SpecContext) {
		start(newWays())
		Eventually(status(ctx, project(ctx, "refused"))).Should(HavePrefix("Running;"))
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "refused", Name: "few"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}},
		}
		Expect(api.Create(ctx, quota)).To(Succeed())
		quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}
		Expect(api.Status().Update(ctx, quota)).To(Succeed())
		s := application(ctx, "refused", []kubenestv1.Component{
			web("many"),
			web("root", func(c *kubenestv1.Component) {
				c.WorkloadSpec.PodTemplate = &kubenestv1.PodTemplate{ContainerSecurityContext: &corev1.SecurityContext{Privileged: new(true)}}
			}),
			web("odd", func(c *kubenestv1.Component) {
				c.WorkloadSpec.Probes = &kubenestv1.Probes{Liveness: &corev1.Probe{}}
			}),
		})
		Eventually(status(ctx, s)).Should(HavePrefix("Failed; many=Failed/ExceededQuota root=Failed/Forbidden odd=Failed/Invalid;"))
		var live kubenestv1.StackDeploy
		Expect(api.Get(ctx, client.ObjectKeyFromObject(s), &live)).To(Succeed())
		Expect(live.Status.Components[0].Message).To(And(ContainSubstring("Deployment refused/shop-many"), ContainSubstring("count/deployments.apps")))
		Expect(live.Status.Components[1].Message).To(ContainSubstring("privileged"))
		Expect(live.Status.Components[2].Message).To(ContainSubstring("livenessProbe"))
	})

	It("hands its replicas over to an autoscaler", func(ctx SpecContext) {
		p := start(newWays())
		project(ctx, "elastic")
		s := application(ctx, "elastic", []kubenestv1.Component{web("web", func(c *kubenestv1.Component) { c.WorkloadSpec.Replicas = ptr.To[int32](4) })})
		Eventually(deployment(ctx, "elastic", "shop-web")).Should(HaveField("Spec.Replicas", HaveValue(BeEquivalentTo(4))))
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) {
			spec.Components[0].WorkloadSpec.Autoscaling = &kubenestv1.Autoscaling{MinReplicas: 2, MaxReplicas: 6}
		})
		Eventually(status(ctx, s)).Should(HavePrefix("Deploying;"))
		Expect(deployment(ctx, "elastic", "shop-web")()).To(HaveField("Spec.Replicas", HaveValue(BeEquivalentTo(4))))
		d, err := deployment(ctx, "elastic", "shop-web")()
		Expect(err).NotTo(HaveOccurred())
		d.Spec.Replicas = ptr.To[int32](6)
		Expect(api.Update(ctx, d, client.FieldOwner("kube-controller-manager"))).To(Succeed())
		run(ctx, "elastic", "shop-web", 6)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
		Expect(deployment(ctx, "elastic", "shop-web")()).To(HaveField("Spec.Replicas", HaveValue(BeEquivalentTo(6))))
		Expect(p.events()).To(BeEmpty())
	})
})

var _ = Describe("the order", func() {
	It("is that of dependencies and exports", func(ctx SpecContext) {
		w := newWays()
		p := start(w)
		project(ctx, "order")
		s := application(ctx, "order", []kubenestv1.Component{web("web", uses("db", "dsn")), web("job", after("web")), addon("db"), web("loop", after("loop2")), web("loop2", after("loop"))})
		Eventually(status(ctx, s)).Should(HavePrefix("Failed; web=Pending/WaitingForDependency job=Pending/WaitingForDependency db=Deploying/Deploying " +
			"loop=Failed/DependencyCycle loop2=Failed/DependencyCycle;"))
		w.with(func() { w.addons["db"] = &delivery.Release{State: delivery.ReleaseDeployed, Chart: "db-1.0.0"} })
		p.reconciler.Changed(client.ObjectKeyFromObject(s))
		Eventually(status(ctx, s)).Should(ContainSubstring("web=Pending/WaitingForExport job=Pending/WaitingForDependency db=Running/Running"))
		w.with(func() { w.exports["db"] = map[string]string{"": "r1", "dsn": ""} })
		p.reconciler.Changed(client.ObjectKeyFromObject(s))
		Eventually(status(ctx, s)).Should(ContainSubstring("web=Deploying/"))
		Expect(missing(ctx, &appsv1.Deployment{}, "order", "shop-job")()).To(BeTrue())
		d, err := deployment(ctx, "order", "shop-web")()
		Expect(err).NotTo(HaveOccurred())
		Expect(d.Spec.Template.Spec.Containers[0].Env[0].ValueFrom.SecretKeyRef.Name).To(Equal("shop-db-exports"))
		before := d.Spec.Template.Annotations[kubenestv1.InputsAnnotation]
		run(ctx, "order", "shop-web", 1)
		Eventually(status(ctx, s)).Should(ContainSubstring("web=Running/Running job=Deploying/"))

		By("rolling consumers when an export changes")
		w.with(func() { w.exports["db"][""] = "r2" })
		p.reconciler.Changed(client.ObjectKeyFromObject(s))
		Eventually(deployment(ctx, "order", "shop-web")).ShouldNot(HaveField("Spec.Template.Annotations", HaveKeyWithValue(kubenestv1.InputsAnnotation, before)))

		By("keeping what runs when a dependency fails")
		w.with(func() { w.problems["db"] = stack.Refuse(kubenestv1.ReasonInvalid, "the values break a template") })
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) {
			spec.Components[0].WorkloadSpec.Image = "ghcr.io/example/web:v2"
		})
		Eventually(func() (string, error) {
			d, err := deployment(ctx, "order", "shop-web")()
			return image(d), err
		}).Should(Equal("ghcr.io/example/web:v2"))
		Eventually(status(ctx, s)).Should(And(ContainSubstring("db=Failed/Invalid"), ContainSubstring("break a template")))

		By("removing the addon, and saying what that waits for")
		w.with(func() { w.left["db"] = []string{"StatefulSet order/shop-db is being deleted"} })
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Components = []kubenestv1.Component{web("job")} })
		Eventually(status(ctx, s)).Should(And(ContainSubstring("db=Deploying/Removing"), ContainSubstring("job=")))
		w.with(func() { w.left["db"] = nil })
		p.reconciler.Changed(client.ObjectKeyFromObject(s))
		Eventually(status(ctx, s)).ShouldNot(ContainSubstring("db="))
		Expect(w.removed).To(ContainElement("db"))
	})

	It("holds what is held, and leaves what runs", func(ctx SpecContext) {
		start(newWays())
		project(ctx, "held")
		hold := func(spec *kubenestv1.StackDeploySpec) {
			spec.Held = []kubenestv1.HeldComponent{{Name: "web", Reason: "ClusterDisconnected", Message: "cluster prod is away"}}
		}
		s := application(ctx, "held", []kubenestv1.Component{web("web"), web("api")}, hold)
		Eventually(status(ctx, s)).Should(HavePrefix("Deploying; web=Pending/ClusterDisconnected api=Deploying/"))
		Expect(missing(ctx, &appsv1.Deployment{}, "held", "shop-web")()).To(BeTrue())
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Held = nil })
		run(ctx, "held", "shop-web", 1)
		Eventually(status(ctx, s)).Should(ContainSubstring("web=Running/Running"))
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) {
			hold(spec)
			spec.Components[0].WorkloadSpec.Image = "ghcr.io/example/web:v2"
			spec.Components[1].WorkloadSpec.Image = "ghcr.io/example/api:v2"
		})
		Eventually(func() (string, error) {
			d, err := deployment(ctx, "held", "shop-api")()
			return image(d), err
		}).Should(HaveSuffix(":v2"))
		Eventually(status(ctx, s)).Should(ContainSubstring("web=Running/Running"))
		d, err := deployment(ctx, "held", "shop-web")()
		Expect(err).NotTo(HaveOccurred())
		Expect(image(d)).To(HaveSuffix(":v1"))
	})

	It("stands still while the App is paused", func(ctx SpecContext) {
		start(newWays())
		project(ctx, "paused")
		s := application(ctx, "paused", []kubenestv1.Component{web("web"), web("old")})
		run(ctx, "paused", "shop-web", 1)
		run(ctx, "paused", "shop-old", 1)
		Eventually(status(ctx, s)).Should(HavePrefix("Running;"))
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) {
			spec.Paused = true
			spec.Components = []kubenestv1.Component{web("web"), web("new")}
			spec.Components[0].WorkloadSpec.Image = "ghcr.io/example/web:v2"
		})
		Eventually(status(ctx, s)).Should(HavePrefix("Paused; web=Paused/Paused new=Pending/Paused"))
		d, err := deployment(ctx, "paused", "shop-web")()
		Expect(err).NotTo(HaveOccurred())
		Expect(image(d)).To(HaveSuffix(":v1"))
		Expect(missing(ctx, &appsv1.Deployment{}, "paused", "shop-old")()).To(BeFalse())
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Paused = false })
		Eventually(missing(ctx, &appsv1.Deployment{}, "paused", "shop-old")).Should(BeTrue())
		Eventually(deployment(ctx, "paused", "shop-new")).Should(Not(BeNil()))
	})
})

var _ = Describe("exports of another cluster", func() {
	It("are in the namespace before their consumer is begun, and roll it", func(ctx SpecContext) {
		p := start(newWays())
		project(ctx, "across")
		in := kubenestv1.StackInput{Name: "shop-db-exports", Kind: kubenestv1.InputExports}
		s := application(ctx, "across", []kubenestv1.Component{web("web", uses("db", "dsn"))}, func(spec *kubenestv1.StackDeploySpec) {
			spec.Inputs = []kubenestv1.StackInput{in}
		})
		Eventually(status(ctx, s)).Should(HavePrefix("Pending; web=Pending/WaitingForExport"))
		deliver := func(revision, value string) {
			in.Revision = revision
			Expect(p.store.Put(ctx, s.Name, in, map[string][]byte{"dsn": []byte(value)})).To(Succeed())
			edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Inputs = []kubenestv1.StackInput{in} })
		}
		deliver("r1", "one")
		var secret corev1.Secret
		Eventually(func() (string, error) {
			err := api.Get(ctx, key("across", "shop-db-exports"), &secret)
			return string(secret.Data["dsn"]), client.IgnoreNotFound(err)
		}).Should(Equal("one"))
		Expect(secret.Labels).To(HaveKeyWithValue(kubenestv1.ExportsLabel, "input"))
		var before string
		Eventually(func(g Gomega) {
			d, err := deployment(ctx, "across", "shop-web")()
			g.Expect(err).NotTo(HaveOccurred())
			before = d.Spec.Template.Annotations[kubenestv1.InputsAnnotation]
		}).Should(Succeed())
		deliver("r2", "two")
		Eventually(deployment(ctx, "across", "shop-web")).ShouldNot(HaveField("Spec.Template.Annotations", HaveKeyWithValue(kubenestv1.InputsAnnotation, before)))
		Expect(api.Get(ctx, key("across", "shop-db-exports"), &secret)).To(Succeed())
		Expect(secret.Data["dsn"]).To(BeEquivalentTo("two"))

		By("going when they are used no more, and when the App goes")
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) {
			spec.Inputs = nil
			spec.Components = []kubenestv1.Component{web("web")}
		})
		Eventually(missing(ctx, &corev1.Secret{}, "across", "shop-db-exports")).Should(BeTrue())
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Removed = true })
		Eventually(missing(ctx, &kubenestv1.StackDeploy{}, system, s.Name)).Should(BeTrue())
		var list corev1.SecretList
		Expect(api.List(ctx, &list, client.InNamespace(kept), client.MatchingLabels{inputsOf: kubenestv1.LabelValue(s.Name)})).To(Succeed())
		Expect(list.Items).To(BeEmpty())
	})
})

const inputsOf = "kubenest.io/input-of"

var _ = Describe("a Project's namespace", func() {
	It("is made, bounded, kept and removed after its Apps", func(ctx SpecContext) {
		start(newWays())
		space := project(ctx, "store", func(spec *kubenestv1.StackDeploySpec) {
			spec.NamespaceSettings = &kubenestv1.NamespaceSettings{
				Labels: map[string]string{"team": "store"},
				Quota:  corev1.ResourceList{"pods": resource.MustParse("3")},
			}
		})
		Eventually(status(ctx, space)).Should(HavePrefix("Running;"))
		var live corev1.Namespace
		Expect(api.Get(ctx, key("", "store"), &live)).To(Succeed())
		Expect(live.Labels).To(And(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "baseline"), HaveKeyWithValue("team", "store"),
			HaveKeyWithValue(kubenestv1.ProjectLabel, "store")))
		s := application(ctx, "store", []kubenestv1.Component{web("web")})
		Eventually(deployment(ctx, "store", "shop-web")).Should(Not(BeNil()))
		edit(ctx, space, func(spec *kubenestv1.StackDeploySpec) { spec.Removed = true })
		Eventually(func() ([]string, error) {
			var o kubenestv1.StackDeploy
			err := api.Get(ctx, client.ObjectKeyFromObject(space), &o)
			return o.Status.Waiting, err
		}).Should(HaveExactElements("App shop is still in namespace store"))
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Removed = true })
		Eventually(func(g Gomega) { // no namespace controller is here to end it
			g.Expect(api.Get(ctx, key("", "store"), &live)).To(Succeed())
			g.Expect(live.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		Expect(missing(ctx, &kubenestv1.StackDeploy{}, system, s.Name)()).To(BeTrue())
	})

	It("is refused to an App while it is not the Project's", func(ctx SpecContext) {
		start(newWays())
		Expect(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "somebodys"}})).To(Succeed())
		s := application(ctx, "somebodys", []kubenestv1.Component{web("web")})
		Eventually(status(ctx, s)).Should(And(HavePrefix("Failed; web=Failed/NamespaceTaken"), ContainSubstring("somebodys")))
		reserved := application(ctx, "kube-system", []kubenestv1.Component{web("web")})
		Eventually(status(ctx, reserved)).Should(HavePrefix("Failed; web=Failed/NamespaceReserved"))
		later := application(ctx, "later", []kubenestv1.Component{web("web")})
		Eventually(status(ctx, later)).Should(HavePrefix("Pending; web=Pending/WaitingForNamespace"))
		project(ctx, "later")
		Eventually(status(ctx, later)).Should(HavePrefix("Deploying;"))
	})
})

var _ = Describe("delivery by argocd", func() {
	configMap := func(namespace, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		o.SetName(name)
		o.SetNamespace(namespace)
		return o
	}
	argocd := func(spec *kubenestv1.StackDeploySpec) {
		spec.Delivery = kubenestv1.DeliveryArgoCD
		spec.GitOps = &kubenestv1.GitOps{RepoURL: "https://git.example.com/x", Branch: "main"}
	}
	kinds := func(p *delivery.Publication) (kinds []string) {
		for _, o := range p.Objects {
			kinds = append(kinds, o.GetKind()+"/"+o.GetName())
		}
		return kinds
	}

	It("publishes what has been begun, without Secrets", func(ctx SpecContext) {
		w := newWays()
		secret := configMap("argo", "db-password")
		secret.SetKind("Secret")
		secret.SetAnnotations(map[string]string{kubenestv1.OwnerAnnotation: clusterID + "/" + hubSide + "/" + kubenestv1.StackName("app", "shop-argo", clusterID)})
		secret.SetLabels(map[string]string{kubenestv1.AppLabel: "shop", kubenestv1.ComponentLabel: "db"})
		w.rendered["db"] = []*unstructured.Unstructured{configMap("argo", "shop-db"), secret}
		start(w)
		project(ctx, "argo")
		s := application(ctx, "argo", []kubenestv1.Component{web("web", after("db")), addon("db")}, argocd)
		last := func() (k []string) {
			w.with(func() {
				for _, p := range w.published {
					if p.Target.Namespace == "argo" {
						k = kinds(p)
					}
				}
			})
			return k
		}
		Eventually(last).Should(ContainElement("ConfigMap/shop-db"))
		Eventually(status(ctx, s)).Should(ContainSubstring("db=Running/Running"))
		Eventually(last).Should(ConsistOf("ConfigMap/shop-db", "Deployment/shop-web", "Service/shop-web"))
		Expect(missing(ctx, &corev1.Secret{}, "argo", "db-password")()).To(BeFalse(), "Secrets are applied directly")
		Expect(missing(ctx, &appsv1.Deployment{}, "argo", "shop-web")()).To(BeTrue(), "everything else is Argo CD's")

		By("publishing nothing while a component can not be rendered")
		w.with(func() {
			w.problems["db"] = stack.Refuse(kubenestv1.ReasonInvalid, "broken values")
			w.published = nil
		})
		edit(ctx, s, func(spec *kubenestv1.StackDeploySpec) { spec.Revision++ })
		Eventually(status(ctx, s)).Should(ContainSubstring("db=Failed/Invalid"))
		Expect(last()).To(BeEmpty())
	})

	DescribeTable("refuses what the Project may not have",
		func(ctx SpecContext, namespace, reason, words string, object func(string) *unstructured.Unstructured) {
			w := newWays()
			w.rendered["db"] = []*unstructured.Unstructured{configMap(namespace, "fine"), object(namespace)}
			start(w)
			project(ctx, namespace)
			s := application(ctx, namespace, []kubenestv1.Component{addon("db")}, argocd)
			Eventually(status(ctx, s)).Should(And(ContainSubstring("db=Failed/"+reason), ContainSubstring(words)))
			w.with(func() {
				for _, p := range w.published {
					Expect(p.Target.Namespace).NotTo(Equal(namespace))
				}
			})
		},
		Entry("a ClusterRole", "argo-role", "Forbidden", "ClusterRole evil", func(string) *unstructured.Unstructured {
			o := configMap("", "evil")
			o.SetAPIVersion("rbac.authorization.k8s.io/v1")
			o.SetKind("ClusterRole")
			return o
		}),
		Entry("another namespace", "argo-system", "Forbidden", "kube-system", func(string) *unstructured.Unstructured { return configMap("kube-system", "evil") }),
		Entry("a privileged pod", "argo-pod", "Forbidden", "privileged", func(namespace string) *unstructured.Unstructured {
			o := configMap(namespace, "evil")
			o.SetKind("Pod")
			o.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i", "securityContext": map[string]any{"privileged": true}}}}
			return o
		}),
		Entry("what its ServiceAccount may not do", "argo-quota", "Forbidden", "resourcequotas", func(namespace string) *unstructured.Unstructured {
			o := configMap(namespace, "evil")
			o.SetKind("ResourceQuota")
			return o
		}),
		Entry("what is not valid", "argo-invalid", "Invalid", "spec", func(namespace string) *unstructured.Unstructured {
			o := configMap(namespace, "evil")
			o.SetKind("PersistentVolumeClaim")
			return o
		}),
	)
})
