// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/chart"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

var (
	config *rest.Config
	api    kubernetes.Interface
	mapper meta.RESTMapper
	rules  *stack.Rules
)

func TestMain(m *testing.M) {
	if code, ok := chart.Child(context.Background(), os.Args, os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func TestRelease(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	RunSpecs(t, "Release")
}

var _ = BeforeSuite(func(ctx context.Context) {
	environment := &envtest.Environment{}
	var err error
	config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	config.QPS, config.Burst = 200, 400
	api = kubernetes.NewForConfigOrDie(config)
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	mapper, err = apiutil.NewDynamicRESTMapper(config, client)
	Expect(err).NotTo(HaveOccurred())
	rules, err = stack.NewRules(mapper)
	Expect(err).NotTo(HaveOccurred())
	// No controller aggregates roles here; these are the rights that specs need.
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		admin, err := api.RbacV1().ClusterRoles().Get(ctx, "admin", metav1.GetOptions{})
		if err != nil {
			return err
		}
		admin.Rules = []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "services", "persistentvolumeclaims", "pods", "serviceaccounts"}, Verbs: []string{"*"}},
			{APIGroups: []string{"apps", "batch"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{""}, Resources: []string{"resourcequotas"}, Verbs: []string{"get", "list", "watch"}},
		}
		_, err = api.RbacV1().ClusterRoles().Update(ctx, admin, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
})

// project makes a namespace with the Project's rights.
func project(ctx context.Context) string {
	GinkgoHelper()
	namespace, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = api.RbacV1().RoleBindings(namespace.Name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: kubenestv1.ProjectServiceAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: kubenestv1.ProjectServiceAccount, Namespace: namespace.Name}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return namespace.Name
}

// operator is a Manager that can be killed.
type operator struct {
	*Manager
	kill func()
}

func start(clock *clocktesting.FakePassiveClock) *operator {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	o := &operator{}
	o.Manager = New(&Options{
		Config: config, Mapper: mapper, Rules: rules, Charts: chart.NewFetcher(), Clock: clock, Log: logr.Discard(),
		Changed: func(types.NamespacedName) {},
	})
	done := make(chan error, 1)
	go func() { done <- o.Start(ctx) }()
	o.kill = func() {
		cancel()
		Eventually(done).Should(Or(Receive(BeNil()), BeClosed()))
	}
	DeferCleanup(cancel)
	return o
}

// pack packages a chart called c.
func pack(files map[string]string) []byte {
	GinkgoHelper()
	all := map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n"}
	maps.Copy(all, files)
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		Expect(archive.WriteHeader(&tar.Header{Name: "c/" + name, Mode: 0o644, Size: int64(len(all[name]))})).To(Succeed())
		_, err := archive.Write([]byte(all[name]))
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(archive.Close()).To(Succeed())
	Expect(zip.Close()).To(Succeed())
	return out.Bytes()
}

// templates makes a chart of templates.
func templates(text ...string) []byte {
	GinkgoHelper()
	files := map[string]string{}
	for i, t := range text {
		files[fmt.Sprintf("templates/%d.yaml", i)] = t
	}
	return pack(files)
}

func addon(namespace string, packed []byte, values map[string]any) *delivery.Addon {
	GinkgoHelper()
	raw, err := json.Marshal(values)
	Expect(err).NotTo(HaveOccurred())
	return &delivery.Addon{
		Stack: types.NamespacedName{Namespace: "kubenest-system", Name: "platform.shop"},
		Target: stack.Target{
			Owner: "c1/platform/shop", Namespace: namespace, App: "shop", Project: kubenestv1.ProjectKey{Namespace: "platform", Name: "shop"},
			Grants: kubenestv1.Grants{PodSecurity: kubenestv1.PodSecurityBaseline},
		},
		Component: &kubenestv1.Component{Name: "db", Type: kubenestv1.ComponentAddon, AddonSpec: &kubenestv1.AddonSpec{
			Chart:  kubenestv1.Chart{ConfigMapRef: &kubenestv1.LocalReference{Name: "chart"}},
			Values: &runtime.RawExtension{Raw: raw},
		}},
		Chart: packed, Timeout: 30 * time.Second, Revision: 1,
	}
}

// state ensures an addon, and sums up what came of it.
func (o *operator) state(ctx context.Context, a *delivery.Addon) func() (string, error) {
	return func() (string, error) {
		r, err := o.Ensure(ctx, a)
		if err != nil {
			return "", err
		}
		text := string(r.State)
		if r.Problem != nil {
			text += " " + r.Problem.Reason + ": " + r.Problem.Message
		}
		if r.Drift != "" {
			text += " drift: " + r.Drift
		}
		return text, nil
	}
}

// revisions are those of the release: "1 superseded, 2 deployed".
func revisions(ctx context.Context, namespace string) func() ([]string, error) {
	return func() ([]string, error) {
		list, err := api.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
		if err != nil {
			return nil, err
		}
		var out []string
		for i := range list.Items {
			out = append(out, list.Items[i].Labels["version"]+" "+list.Items[i].Labels["status"])
		}
		slices.Sort(out)
		return out, nil
	}
}

func configMap(ctx context.Context, namespace, name string) func() (map[string]string, error) {
	return func() (map[string]string, error) {
		m, err := api.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		return m.Data, err
	}
}

// makeReady does what the Deployment controller would.
func makeReady(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Eventually(func() error {
		d, err := api.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
		_, err = api.AppsV1().Deployments(namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

const (
	settings  = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: "{{ .Values.a }}"}}`
	web       = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "web:{{ .Values.a }}"}]}}}}`
	prepare   = `{apiVersion: batch/v1, kind: Job, metadata: {name: prepare, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}`
	generated = `{apiVersion: v1, kind: Secret, metadata: {name: generated}, stringData: {password: "{{ randAlphaNum 20 }}", a: "{{ .Values.a }}"}}`
)
