// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/environment"
)

// newProject makes a Project, and its namespace of the same name, and waits for it.
func newProject(ctx context.Context, name string) *kubenestv1.Project {
	GinkgoHelper()
	p := &kubenestv1.Project{
		ObjectMeta: metav1.ObjectMeta{Namespace: environment.Organization, Name: name},
		Spec:       kubenestv1.ProjectSpec{ClusterRef: kubenestv1.ClusterReference{Name: "dev"}},
	}
	Expect(env.Client().Create(ctx, p)).To(Succeed())
	DeferCleanup(removal(p), NodeTimeout(deployed)) //nolint:contextcheck // it has a context of its own, after the spec
	Eventually(ctx, func(g Gomega) {
		g.Expect(env.Client().Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(p.Status.Conditions, kubenestv1.ConditionReady)).To(BeTrue(), p.Status.Message)
	}).Should(Succeed())
	return p
}

// removal of a Project with its Apps.
func removal(p *kubenestv1.Project) func(SpecContext) {
	return func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(env.Client().Delete(ctx, p))).To(Succeed())
		Eventually(ctx, gone(env.Client(), p)).WithTimeout(deployed).Should(BeTrue())
	}
}

// newApp makes an App in the Project of a name.
func newApp(ctx context.Context, name, project string, delivery kubenestv1.Delivery, components ...kubenestv1.Component) *kubenestv1.App {
	GinkgoHelper()
	a := &kubenestv1.App{
		ObjectMeta: metav1.ObjectMeta{Namespace: environment.Organization, Name: name},
		Spec:       kubenestv1.AppSpec{ProjectRef: kubenestv1.LocalReference{Name: project}, Components: components, Delivery: delivery},
	}
	Expect(env.Client().Create(ctx, a)).To(Succeed())
	return a
}

// edit changes an App's spec.
func edit(ctx context.Context, a *kubenestv1.App, change func(*kubenestv1.AppSpec)) {
	GinkgoHelper()
	Expect(env.Client().Get(ctx, client.ObjectKeyFromObject(a), a)).To(Succeed())
	patch := client.MergeFrom(a.DeepCopy())
	change(&a.Spec)
	Expect(env.Client().Patch(ctx, a, patch)).To(Succeed())
}

// runs waits until an App runs as its present spec says.
func runs(ctx context.Context, a *kubenestv1.App) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(env.Client().Get(ctx, client.ObjectKeyFromObject(a), a)).To(Succeed())
		g.Expect(a.Status.ObservedGeneration).To(Equal(a.Generation))
		g.Expect(a.Status.Phase).To(Equal(kubenestv1.AppRunning), "%s: %+v", a.Status.Message, a.Status.Components)
	}).WithTimeout(deployed).Should(Succeed())
}

func gone(api client.Client, o client.Object) func(context.Context) bool {
	return func(ctx context.Context) bool {
		return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(o), o))
	}
}

// sampleChart has the chart of config/samples/shop be in the organization's namespace.
func sampleChart(ctx context.Context) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "samples", "shop", "chart-postgres.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var m corev1.ConfigMap
	Expect(yaml.UnmarshalStrict(text, &m)).To(Succeed())
	Expect(client.IgnoreAlreadyExists(env.Client().Create(ctx, &m))).To(Succeed())
}

// chartOf has a chart of one template be in the organization's namespace.
func chartOf(ctx context.Context, name, template string) {
	GinkgoHelper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, file := range [][2]string{
		{"Chart.yaml", "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"},
		{"templates/all.yaml", template},
	} {
		Expect(archive.WriteHeader(&tar.Header{Name: name + "/" + file[0], Mode: 0o644, Size: int64(len(file[1]))})).To(Succeed())
		_, err := io.WriteString(archive, file[1])
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(archive.Close()).To(Succeed())
	Expect(zip.Close()).To(Succeed())
	Expect(client.IgnoreAlreadyExists(env.Client().Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: environment.Organization, Name: name, Labels: map[string]string{kubenestv1.ChartLabel: "true"},
		},
		BinaryData: map[string][]byte{name + "-1.0.0.tgz": out.Bytes()},
	}))).To(Succeed())
}

// addonOf is a component of a packaged chart.
func addonOf(name, chart string) kubenestv1.Component {
	return kubenestv1.Component{Name: name, Type: kubenestv1.ComponentAddon, AddonSpec: &kubenestv1.AddonSpec{
		Chart: kubenestv1.Chart{ConfigMapRef: &kubenestv1.LocalReference{Name: chart}},
	}}
}

// shop is an App with one of everything: a database by chart, and a web server with a
// Service, an Ingress, an autoscaler and the database's address.
func shop() []kubenestv1.Component {
	db := addonOf("db", "chart-postgres")
	db.AddonSpec.Type = "postgres"
	return []kubenestv1.Component{db, {
		Name: "web", Type: kubenestv1.ComponentWorkload, DependsOn: []string{"db"},
		WorkloadSpec: &kubenestv1.WorkloadSpec{
			Image: "registry.example.com/web:1", Port: 8080,
			Args:        []string{"--verbose"},
			Ingress:     &kubenestv1.Ingress{Host: "shop.example.com", Path: "/"},
			Autoscaling: &kubenestv1.Autoscaling{MinReplicas: 2, MaxReplicas: 4},
			Env: []kubenestv1.EnvVar{
				{Name: "MODE", Value: "production"},
				{Name: "EXTRA", Value: "1"},
				{Name: "DATABASE_URL", ValueFrom: &kubenestv1.EnvVarSource{ExportRef: &kubenestv1.ExportReference{Component: "db", Key: "dsn"}}},
				{Name: "DATABASE_USER", ValueFrom: &kubenestv1.EnvVarSource{SecretKeyRef: &kubenestv1.SecretKeyReference{
					Name: "dsn", Key: "username", Optional: true,
				}}},
			},
		},
	}}
}

// files of an App in the repository.
func files(ctx context.Context, app, project string) []string {
	GinkgoHelper()
	all, err := git.Files(ctx, repository, "main")
	if err != nil && strings.Contains(err.Error(), "Not a valid object name") {
		return nil // nothing has been committed yet
	}
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, f := range all {
		if strings.HasPrefix(f, fmt.Sprintf("%s/%s/%s/%s/", folder, environment.Organization, project, app)) {
			found = append(found, filepath.Base(f))
		}
	}
	return found
}
