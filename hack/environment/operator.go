// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"path/filepath"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/process"
)

// Operator is an operator process and the folder of its credentials.
type Operator struct {
	*process.Process
	cluster     *Workload
	credentials string
}

// newOperator prepares the cluster's own operator, which has the rights of its
// ServiceAccount and no others.
func (w *Workload) newOperator() (*Operator, error) {
	kubeconfig := w.env.folder.path("clusters", w.Name(), "operator", "operator.kubeconfig")
	if err := w.WriteServiceAccountKubeconfig(kubeconfig, operatorNamespace, "kubenest-operator"); err != nil {
		return nil, err
	}
	return w.addOperator("operator", operatorNamespace, kubeconfig)
}

// NewOperator prepares one more operator of this cluster, as a mistake would:
// it does not see the Lease of the other, which is in another namespace. It is
// an administrator, and is not started. The namespace must exist.
func (w *Workload) NewOperator(name, namespace string) (*Operator, error) {
	return w.addOperator(name, namespace, w.Kubeconfig())
}

func (w *Workload) addOperator(name, namespace, kubeconfig string) (*Operator, error) {
	e := w.env
	full := w.Name() + "-" + name
	probes, err := e.ports.Address(full + "-probes")
	if err != nil {
		return nil, err
	}
	dir := e.folder.path("clusters", w.Name(), name)
	o := &Operator{cluster: w, credentials: filepath.Join(dir, "connection")}
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
