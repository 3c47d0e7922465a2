// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/environment"
)

// deployed is how long a rollout may take on a machine that is busy.
const deployed = 90 * time.Second

// project makes a Project on a cluster, waits until it is ready, and removes it and
// its Apps after the spec.
func project(ctx context.Context, name, cluster string) *kubenestv1.Project {
	GinkgoHelper()
	p := &kubenestv1.Project{
		ObjectMeta: metav1.ObjectMeta{Namespace: environment.Organization, Name: name},
		Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: cluster}},
	}
	Expect(env.Client().Create(ctx, p)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { //nolint:contextcheck // a cleanup has a context of its own
		Expect(client.IgnoreNotFound(env.Client().Delete(ctx, p))).To(Succeed())
		Eventually(ctx, gone(p)).WithTimeout(deployed).Should(Succeed())
	}, NodeTimeout(2*time.Minute))
	Eventually(ctx, func(ctx context.Context) error {
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(p.Status.Conditions, kubenestv1.ConditionReady) {
			return fmt.Errorf("project %s: %s: %s", name, p.Status.Reason, p.Status.Message)
		}
		return nil
	}).Should(Succeed())
	return p
}

// workload is a component of an image, on a cluster if one is named.
func workload(name, cluster string) kubenestv1.Component {
	return kubenestv1.Component{
		Name: name, Type: kubenestv1.ComponentWorkload, ClusterID: cluster,
		WorkloadSpec: &kubenestv1.WorkloadSpec{Image: "registry.example.com/" + name + ":1", Port: 8080},
	}
}

// createApp makes an App in a Project.
func createApp(ctx context.Context, name string, p *kubenestv1.Project, components ...kubenestv1.Component) *kubenestv1.App {
	GinkgoHelper()
	a := &kubenestv1.App{
		ObjectMeta: metav1.ObjectMeta{Namespace: environment.Organization, Name: name},
		Spec:       kubenestv1.AppSpec{ProjectRef: kubenestv1.LocalReference{Name: p.Name}, Components: components},
	}
	Expect(env.Client().Create(ctx, a)).To(Succeed())
	return a
}

// app reads an App's status now.
func app(ctx context.Context, name string) (kubenestv1.AppStatus, error) {
	var a kubenestv1.App
	err := env.Client().Get(ctx, client.ObjectKey{Namespace: environment.Organization, Name: name}, &a)
	return a.Status, err
}

// running is a check that an App runs as its present spec says.
func running(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		var a kubenestv1.App
		if err := env.Client().Get(ctx, client.ObjectKey{Namespace: environment.Organization, Name: name}, &a); err != nil {
			return err
		}
		if a.Status.ObservedGeneration != a.Generation || a.Status.Phase != kubenestv1.AppRunning {
			return fmt.Errorf("app %s is %s (%s, generation %d of %d): %+v",
				name, a.Status.Phase, a.Status.Message, a.Status.ObservedGeneration, a.Generation, a.Status.Components)
		}
		return nil
	}
}

// componentOf is a component's status, for Eventually.
func componentOf(ctx context.Context, of, name string) kubenestv1.ComponentStatus {
	status, err := app(ctx, of)
	if err != nil {
		return kubenestv1.ComponentStatus{}
	}
	for _, c := range status.Components {
		if c.Name == name {
			return c
		}
	}
	return kubenestv1.ComponentStatus{}
}

// gone is a check that an object of the management cluster is not there.
func gone(o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := env.Client().Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s is still there: %w: %+v", o.GetName(), err, o)
	}
}

// deployment reads a Deployment of a workload cluster.
func deployment(ctx context.Context, c *environment.Workload, namespace, name string) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	err := c.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d)
	return &d, err
}

var _ = Describe("The sample shop", Ordered, func() {
	samples := filepath.Join("..", "..", "config", "samples", "shop")
	dev, prod := func() *environment.Workload { return env.Cluster("dev") }, func() *environment.Workload { return env.Cluster("prod") }

	It("runs on two clusters, and the web tier on one has the database's address on the other", func(ctx SpecContext) {
		_, err := env.Kubectl(ctx, "", "apply", "-f", samples)
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, running("shop")).WithTimeout(2 * deployed).Should(Succeed())

		web, err := deployment(ctx, dev(), "shop", "shop-web")
		Expect(err).NotTo(HaveOccurred())
		_, err = deployment(ctx, prod(), "shop", "shop-worker")
		Expect(err).NotTo(HaveOccurred())
		variables := web.Spec.Template.Spec.Containers[0].Env
		Expect(variables).To(ContainElement(HaveField("Name", "DATABASE_URL")))
		for _, v := range variables {
			if v.Name == "DATABASE_URL" {
				var secret corev1.Secret
				Expect(dev().Client().Get(ctx, client.ObjectKey{Namespace: "shop", Name: v.ValueFrom.SecretKeyRef.Name}, &secret)).To(Succeed())
				Expect(string(secret.Data[v.ValueFrom.SecretKeyRef.Key])).To(HavePrefix("postgresql://"))
			}
		}
		status, err := app(ctx, "shop")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Split(status.Clusters, ",")).To(ConsistOf("dev", "prod"))
		Expect(componentOf(ctx, "shop", "postgres").Exports).To(ContainElement("dsn"))
	}, SpecTimeout(4*time.Minute))

	It("keeps the password out of specs, statuses, Events and logs", func(ctx SpecContext) {
		var exports corev1.Secret
		key := client.ObjectKey{Namespace: environment.Organization, Name: kubenestv1.ExportsSecretName("shop", "postgres")}
		Expect(env.Client().Get(ctx, key, &exports)).To(Succeed())
		dsn, password := string(exports.Data["dsn"]), string(exports.Data["password"])
		Expect(password).NotTo(BeEmpty())
		Expect(dsn).To(ContainSubstring("@"))
		for _, kind := range []string{"stackdeploys", "events"} {
			text, err := env.Kubectl(ctx, "", "get", kind, "-A", "-o", "yaml")
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Contains(text, dsn)).To(BeFalse(), kind)
			for _, c := range env.Clusters() {
				text, err := c.Kubectl(ctx, "", "get", kind, "-A", "-o", "yaml")
				Expect(err).NotTo(HaveOccurred())
				Expect(strings.Contains(text, dsn)).To(BeFalse(), kind+" on "+c.Name())
			}
		}
		for _, p := range append(hubs(), dev().Operator().Process, prod().Operator().Process) {
			text, _, err := p.Log(0)
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Contains(text, dsn)).To(BeFalse(), p.Name())
		}
	}, SpecTimeout(time.Minute))

	It("rolls the pods that use an export when its value changes", func(ctx SpecContext) {
		before, err := deployment(ctx, dev(), "shop", "shop-web")
		Expect(err).NotTo(HaveOccurred())
		was := before.Spec.Template.Annotations[kubenestv1.InputsAnnotation]
		Expect(was).NotTo(BeEmpty())
		out, err := env.Kubectl(ctx, "", "-n", environment.Organization, "get", "app", "shop", "-o", "jsonpath={.spec.components[*].name}")
		Expect(err).NotTo(HaveOccurred())
		at := -1
		for i, name := range strings.Fields(out) {
			if name == "postgres" {
				at = i
			}
		}
		_, err = env.Kubectl(ctx, "", "-n", environment.Organization, "patch", "app", "shop", "--type=json", "-p",
			fmt.Sprintf(`[{"op":"add","path":"/spec/components/%d/addonSpec/values/auth/username","value":"keeper"}]`, at))
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(ctx context.Context) string {
			now, err := deployment(ctx, dev(), "shop", "shop-web")
			if err != nil {
				return err.Error()
			}
			return now.Spec.Template.Annotations[kubenestv1.InputsAnnotation]
		}).WithTimeout(deployed).ShouldNot(Equal(was))
		Eventually(ctx, running("shop")).WithTimeout(deployed).Should(Succeed())
	}, SpecTimeout(4*time.Minute))

	It("is gone when it is deleted, on both clusters", func(ctx SpecContext) {
		_, err := env.Kubectl(ctx, "", "delete", "-f", samples, "--timeout=120s")
		Expect(err).NotTo(HaveOccurred())
		for _, c := range env.Clusters() {
			Eventually(ctx, func(ctx context.Context) bool {
				return apierrors.IsNotFound(c.Client().Get(ctx, client.ObjectKey{Name: "shop"}, &corev1.Namespace{}))
			}).Should(BeTrue(), "namespace shop on "+c.Name())
			var left kubenestv1.StackDeployList
			Expect(c.Client().List(ctx, &left)).To(Succeed())
			Expect(left.Items).To(BeEmpty(), c.Name())
		}
	}, SpecTimeout(4*time.Minute))
})

var _ = Describe("An App", func() {
	It("is corrected when somebody edits its Deployment, and says what differed", func(ctx SpecContext) {
		p := project(ctx, "drift", "dev")
		createApp(ctx, "drift", p, workload("web", ""))
		Eventually(ctx, running("drift")).WithTimeout(deployed).Should(Succeed())
		dev := env.Cluster("dev")
		_, err := dev.Kubectl(ctx, "", "-n", "drift", "set", "image", "deployment/drift-web", "*=registry.example.com/foreign:1")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(ctx context.Context) string {
			d, err := deployment(ctx, dev, "drift", "drift-web")
			if err != nil {
				return err.Error()
			}
			return d.Spec.Template.Spec.Containers[0].Image
		}).Should(Equal("registry.example.com/web:1"))
		Eventually(ctx, func(ctx context.Context) string {
			out, err := dev.Kubectl(ctx, "", "-n", "kubenest-system", "get", "stackdeploys", "-o", "jsonpath={.items[*].status.drift}")
			if err != nil {
				return err.Error()
			}
			return out
		}).Should(ContainSubstring("image"))
	}, SpecTimeout(3*time.Minute))

	It("moves to another cluster, and the old one goes only when the new one is ready", func(ctx SpecContext) {
		p := project(ctx, "moving", "dev")
		a := createApp(ctx, "moving", p, workload("web", "dev"))
		Eventually(ctx, running("moving")).WithTimeout(deployed).Should(Succeed())
		dev, prod := env.Cluster("dev"), env.Cluster("prod")
		patch := client.MergeFrom(a.DeepCopy())
		a.Spec.Components[0].ClusterID = "prod"
		Expect(env.Client().Patch(ctx, a, patch)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			_, oldErr := deployment(ctx, dev, "moving", "moving-web")
			d, err := deployment(ctx, prod, "moving", "moving-web")
			if apierrors.IsNotFound(oldErr) && (err != nil || d.Status.ReadyReplicas == 0) {
				return StopTrying("the old one went before the new one was ready")
			}
			if oldErr == nil || err != nil {
				return fmt.Errorf("not moved yet: %w, %w", oldErr, err)
			}
			return nil
		}).WithTimeout(deployed).Should(Succeed())
		Eventually(ctx, running("moving")).Should(Succeed())
		Expect(componentOf(ctx, "moving", "web").Cluster).To(Equal("prod"))
	}, SpecTimeout(3*time.Minute))

	It("that is edited 50 times in seconds ends at the last", func(ctx SpecContext) {
		p := project(ctx, "edited", "dev")
		a := createApp(ctx, "edited", p, workload("web", ""))
		for i := range 50 {
			patch := client.MergeFrom(a.DeepCopy())
			a.Spec.Components[0].WorkloadSpec.Image = fmt.Sprintf("registry.example.com/web:%d", i+2)
			Expect(env.Client().Patch(ctx, a, patch)).To(Succeed())
		}
		Eventually(ctx, running("edited")).WithTimeout(deployed).Should(Succeed())
		Expect(componentOf(ctx, "edited", "web").Image).To(Equal("registry.example.com/web:51"))
		d, err := deployment(ctx, env.Cluster("dev"), "edited", "edited-web")
		Expect(err).NotTo(HaveOccurred())
		Expect(d.Spec.Template.Spec.Containers[0].Image).To(Equal("registry.example.com/web:51"))
	}, SpecTimeout(3*time.Minute))

	It("is one of 200 that are delivered to one cluster at once", func(ctx SpecContext) {
		p := project(ctx, "many", "dev")
		const apps = 200
		for i := range apps {
			createApp(ctx, fmt.Sprintf("many-%03d", i), p, workload("web", ""))
		}
		Eventually(ctx, func(ctx context.Context) (int, error) {
			var list appsv1.DeploymentList
			err := env.Cluster("dev").Client().List(ctx, &list, client.InNamespace("many"))
			return len(list.Items), err
		}).WithTimeout(3 * time.Minute).Should(Equal(apps))
		Eventually(ctx, func(ctx context.Context) (int, error) {
			var list kubenestv1.AppList
			err := env.Client().List(ctx, &list, client.InNamespace(environment.Organization))
			n := 0
			for i := range list.Items {
				if list.Items[i].Spec.ProjectRef.Name == "many" && list.Items[i].Status.Phase == kubenestv1.AppRunning {
					n++
				}
			}
			return n, err
		}).WithTimeout(3 * time.Minute).Should(Equal(apps))
		Expect(connected(env.Cluster("dev"))(ctx)).To(Succeed())
	}, SpecTimeout(8*time.Minute))
})
