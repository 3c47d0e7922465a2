// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
)

// placeKubelet gives kwok an address, at which it plays the kubelet of every node.
func (c *Cluster) placeKubelet() (err error) {
	if c.options.Workloads {
		c.kubeletAddress, err = c.options.Ports.Address(c.options.Name + "-kwok")
	}
	return err
}

// kubelet gives kwok's flags for it.
func (c *Cluster) kubelet() ([]string, error) {
	host, port, err := net.SplitHostPort(c.kubeletAddress)
	if err != nil {
		return nil, fmt.Errorf("address of kwok: %w", err)
	}
	cert, key, err := c.authority.server("kubelet")
	if err != nil {
		return nil, err
	}
	return []string{
		"--node-ip=" + host, "--node-port=" + port, "--server-address=" + c.kubeletAddress,
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
	}, nil
}

// sampleLogs writes a log for all containers that have none of their own, and tells
// kwok of it. A log that is there is left alone: whoever appends to it shows how
// "kubectl logs --follow" goes on.
func (c *Cluster) sampleLogs() (config string, err error) {
	log := filepath.Join(c.options.Dir, "pods.log")
	if err := os.MkdirAll(c.options.Dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder for logs of pods: %w", err)
	}
	if _, err := os.Stat(log); os.IsNotExist(err) {
		line := time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z") + " stdout F kwok plays this pod: it has no program, and this is all it says.\n"
		if err := os.WriteFile(log, []byte(line), 0o600); err != nil {
			return "", fmt.Errorf("write log of pods: %w", err)
		}
	}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterLogs",
		"metadata": map[string]any{"name": "all"},
		"spec":     map[string]any{"logs": []any{map[string]any{"logsFile": log, "previousLogsFile": log, "follow": true}}},
	})
	if err != nil {
		return "", fmt.Errorf("encode logs for kwok: %w", err)
	}
	config = filepath.Join(c.options.Dir, "kwok-logs.yaml")
	if err := os.WriteFile(config, data, 0o600); err != nil {
		return "", fmt.Errorf("write logs for kwok: %w", err)
	}
	return config, nil
}
