// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Organization is the namespace that holds the records.
const Organization = "platform"

const (
	hubNamespace      = "kubenest-system"
	operatorNamespace = "kubenest-system"
)

// Options of an environment.
type Options struct {
	// Dir is the folder for everything that the environment keeps.
	Dir string
	// Programs is the folder of kubenest-hub and kubenest-operator.
	Programs string
	// Assets is the folder of etcd, kube-apiserver, kubectl and the others.
	Assets string
	// Config is the folder with the project's manifests.
	Config string
	// Clusters are the workload clusters.
	Clusters []ClusterOptions
	// HubReplicas is how many hubs there are; several are behind one address.
	HubReplicas int
	// HubArgs and OperatorArgs are added to the programs' arguments.
	HubArgs, OperatorArgs []string
	// Proxied has each operator dial the hub through a proxy of its own, with which
	// a test can break their connection.
	Proxied bool
	// Out takes the progress lines.
	Out io.Writer
}

// ClusterOptions describe a workload cluster.
type ClusterOptions struct {
	Name   string
	Region string
	Nodes  int
}

// DefaultClusters are the first n of dev, prod, cluster-3, cluster-4 and so on.
func DefaultClusters(n int) []ClusterOptions {
	clusters := []ClusterOptions{{Name: "dev", Region: "local", Nodes: 2}, {Name: "prod", Region: "local", Nodes: 3}}
	for i := len(clusters) + 1; i <= n; i++ {
		clusters = append(clusters, ClusterOptions{Name: fmt.Sprintf("cluster-%d", i), Region: "local", Nodes: 2})
	}
	return clusters[:max(0, min(n, len(clusters)))]
}

func (o *Options) validate() error {
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return fmt.Errorf("find the folder for the state: %w", err)
	}
	if o.HubReplicas == 0 {
		o.HubReplicas = 1
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Config, err = filepath.Abs(o.Config); err != nil {
		return fmt.Errorf("find the project's manifests: %w", err)
	}
	return errors.Join(
		programs(&o.Assets, "make control-plane", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl"),
		programs(&o.Programs, "make build", "kubenest-hub", "kubenest-operator"),
	)
}

// programs checks that a folder holds programs, and says what makes them.
func programs(dir *string, how string, names ...string) error {
	absolute, err := filepath.Abs(*dir)
	if err != nil {
		return fmt.Errorf("find the folder of %s: %w", names[0], err)
	}
	*dir = absolute
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(absolute, name)); err != nil {
			return fmt.Errorf("%s is not in %s: run '%s' first", name, absolute, how)
		}
	}
	return nil
}
