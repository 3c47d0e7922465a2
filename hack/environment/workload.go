// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/cluster"
	"github.com/kubenest/kubenest/hack/tcpproxy"
)

// pollEvery is how often a start looks whether what it waits for is there.
const pollEvery = 200 * time.Millisecond

// Workload is a workload cluster, its record and its operator.
type Workload struct {
	*cluster.Cluster
	env      *Environment
	client   client.WithWatch
	options  ClusterOptions
	operator *Operator
	proxy    *tcpproxy.Proxy // nil unless proxied
}

func newWorkload(ctx context.Context, e *Environment, o ClusterOptions) (*Workload, error) {
	c, err := e.newCluster(o.Name, o.Name+".kubeconfig", true)
	if err != nil {
		return nil, err
	}
	w := &Workload{Cluster: c, env: e, options: o}
	if w.client, err = newClient(c); err != nil {
		return nil, err
	}
	if w.operator, err = w.newOperator(); err != nil {
		return nil, err
	}
	if e.options.Proxied {
		address, err := e.ports.Address(o.Name + "-proxy")
		if err != nil {
			return nil, err
		}
		if w.proxy, err = tcpproxy.Listen(ctx, address, e.hub.Address()); err != nil {
			return nil, fmt.Errorf("make proxy of cluster %s: %w", o.Name, err)
		}
	}
	return w, nil
}

// Operator is the cluster's operator.
func (w *Workload) Operator() *Operator { return w.operator }

// Proxy is what the operator dials the hub through; nil unless the environment
// is proxied.
func (w *Workload) Proxy() *tcpproxy.Proxy { return w.proxy }

// Client is an administrator's client of the cluster.
func (w *Workload) Client() client.WithWatch { return w.client }

// HubURL is what the cluster's operator dials.
func (w *Workload) HubURL() string {
	if w.proxy == nil {
		return w.env.hub.URL()
	}
	return "https://" + w.proxy.Address()
}

// startCluster starts the control plane with its nodes and something that runs.
func (w *Workload) startCluster(ctx context.Context) error {
	if err := w.env.progress.step("cluster "+w.Name()+": start", func() error { return w.Start(ctx) }); err != nil {
		return err
	}
	c := w.client
	for i := range w.options.Nodes {
		name := fmt.Sprintf("%s-node-%d", w.Name(), i+1)
		if err := cluster.AddNode(ctx, c, name, w.options.Region); err != nil {
			return err
		}
	}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, sample())); err != nil {
		return fmt.Errorf("make a Deployment in cluster %s: %w", w.Name(), err)
	}
	if err := makeNamespace(ctx, c, operatorNamespace, nil); err != nil {
		return err
	}
	_, err := w.Kubectl(ctx, "", "apply", "-k", filepath.Join(w.env.options.Config, "rbac", "operator"))
	return err
}

// sample is something that runs, so that the cluster has usage to show.
func sample() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "registry.example.com/web:1",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU:    resource.MustParse("400m"),
						corev1.ResourceMemory: resource.MustParse("768Mi"),
					}},
				}}},
			},
		},
	}
}

// connect registers the cluster as a user would, and starts its operator with
// what the hub hands out.
func (w *Workload) connect(ctx context.Context) error {
	name := w.Name()
	// A record that is there is the user's: it may say more than Register does.
	if _, err := w.Record(ctx); apierrors.IsNotFound(err) {
		if err := w.env.progress.step("cluster "+name+": kubectl apply its record", func() error { return w.Register(ctx) }); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	err := w.env.progress.step(fmt.Sprintf("cluster %s: wait for Secret %s", name, w.SecretName()), func() error { return w.Enrol(ctx) })
	if err != nil {
		return err
	}
	before, err := w.Record(ctx)
	if err != nil {
		return err
	}
	return w.env.progress.step("cluster "+name+": start its operator and wait for Connected", func() error {
		if err := w.operator.Start(ctx); err != nil {
			return err
		}
		return w.awaitSession(ctx, before)
	})
}

// Register applies the cluster's record with kubectl. Lines of YAML may be added
// to its spec, such as "  clusterID: …".
func (w *Workload) Register(ctx context.Context, spec ...string) error {
	record := fmt.Sprintf("apiVersion: %s\nkind: ManagedCluster\nmetadata:\n  name: %s\n  namespace: %s\n  labels: {env: %s}\nspec:\n  region: %s\n",
		kubenestv1.GroupVersion, w.Name(), Organization, w.Name(), w.options.Region)
	if len(spec) > 0 {
		record += strings.Join(spec, "\n") + "\n"
	}
	_, err := w.env.Kubectl(ctx, record, "apply", "-f", "-")
	return err
}

// SecretName names the Secret with what the operator needs to connect.
func (w *Workload) SecretName() string { return w.Name() + kubenestv1.ConnectionSecretSuffix }

// Record reads the cluster's record.
func (w *Workload) Record(ctx context.Context) (*kubenestv1.ManagedCluster, error) {
	var record kubenestv1.ManagedCluster
	if err := w.env.client.Get(ctx, client.ObjectKey{Namespace: Organization, Name: w.Name()}, &record); err != nil {
		return nil, fmt.Errorf("read record of cluster %s: %w", w.Name(), err)
	}
	return &record, nil
}

// Enrol waits for the connection Secret and hands it to the operator.
func (w *Workload) Enrol(ctx context.Context) error {
	var (
		secret corev1.Secret
		last   error
	)
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		last = w.env.client.Get(ctx, client.ObjectKey{Namespace: Organization, Name: w.SecretName()}, &secret)
		if last == nil && string(secret.Data[kubenestv1.ConnectionKeyHubURL]) != w.env.hub.URL() {
			last = fmt.Errorf("it is for hub %q still", secret.Data[kubenestv1.ConnectionKeyHubURL])
		}
		return last == nil && len(secret.Data[kubenestv1.ConnectionKeyToken]) > 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait for Secret %s: %w (last: %w)", w.SecretName(), err, last)
	}
	return w.operator.Mount(secret.Data)
}

// awaitSession waits until the record is connected by another session than it
// was before.
func (w *Workload) awaitSession(ctx context.Context, before *kubenestv1.ManagedCluster) error {
	old := ""
	if before.Status.Session != nil {
		old = before.Status.Session.ID
	}
	var (
		record *kubenestv1.ManagedCluster
		last   error
	)
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		record, last = w.Record(ctx)
		if record == nil {
			return false, nil
		}
		session := record.Status.Session
		return session != nil && session.ID != old && meta.IsStatusConditionTrue(record.Status.Conditions, kubenestv1.ConditionConnected), nil
	})
	switch {
	case err != nil && record != nil:
		return fmt.Errorf("cluster %s did not connect (%s: %s); the log of its operator, %s, ends:\n%s: %w", w.Name(),
			record.Status.Phase, record.Status.Message, w.operator.LogFile(), w.operator.Tail(8), err)
	case err != nil:
		return errors.Join(err, last)
	}
	return nil
}

func (w *Workload) close() {
	if w.proxy != nil {
		_ = w.proxy.Close() // everything ends
	}
}
