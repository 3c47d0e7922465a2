// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/process"
)

// Operator is an operator process and the folder of its credentials.
type Operator struct {
	*process.Process
	cluster     *Workload
	namespace   string
	credentials string
}

// NewOperator prepares an operator of this cluster, whose name tells it from
// other operators and whose Lease is in the given namespace. It is not started.
func (w *Workload) NewOperator(name, namespace string) (*Operator, error) {
	e := w.env
	full := w.Name() + "-" + name
	probes, err := e.ports.Address(full + "-probes")
	if err != nil {
		return nil, err
	}
	dir := e.folder.path("clusters", w.Name(), name)
	o := &Operator{cluster: w, namespace: namespace, credentials: filepath.Join(dir, "connection")}
	kubeconfig := w.Kubeconfig()
	o.Process = e.group.New(process.Spec{
		Name: full,
		Path: filepath.Join(e.options.Programs, "kubenest-operator"),
		Args: append([]string{
			"--kubeconfig=" + kubeconfig,
			"--namespace=" + namespace, "--pod-name=kubenest-" + name,
			"--credentials-dir=" + o.credentials,
			"--health-probe-bind-address=" + probes, "--metrics-bind-address=0",
		}, e.options.OperatorArgs...),
		Env:     e.env(),
		LogFile: e.folder.path("logs", full+".log"),
		Ready:   answers("http://" + probes + "/readyz"),
		Stage:   stageOperator,
	})
	return o, nil
}

// Credentials is the folder in which the connection Secret is mounted.
func (o *Operator) Credentials() string { return o.credentials }

// Mount gives the operator the keys of a connection Secret, as a kubelet would.
// What is not for the operator stays out, and the URL is the one to dial here.
func (o *Operator) Mount(secret map[string][]byte) error {
	files := map[string][]byte{kubenestv1.ConnectionKeyHubURL: []byte(o.cluster.HubURL())}
	for _, key := range []string{kubenestv1.ConnectionKeyToken, kubenestv1.ConnectionKeyClusterID, kubenestv1.ConnectionKeyCA} {
		files[key] = secret[key]
	}
	if err := mount(o.credentials, files); err != nil {
		return fmt.Errorf("credentials of %s: %w", o.Name(), err)
	}
	return nil
}

// prepare makes the operator's namespace.
func (o *Operator) prepare(ctx context.Context, c client.Client) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.namespace}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("make namespace %s in cluster %s: %w", o.namespace, o.cluster.Name(), err)
	}
	return nil
}
