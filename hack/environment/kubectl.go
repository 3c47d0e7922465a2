// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs the real kubectl on the management cluster, with text on its
// standard input, and gives what it prints. An error has what it complained of.
func (e *Environment) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return e.kubectl(ctx, e.management.Kubeconfig(), stdin, args...)
}

// Kubectl runs the real kubectl on the workload cluster.
func (w *Workload) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return w.env.kubectl(ctx, w.Kubeconfig(), stdin, args...)
}

func (e *Environment) kubectl(ctx context.Context, kubeconfig, stdin string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(e.options.Assets, "kubectl"), args...)
	command.Env = append(e.env(), "KUBECONFIG="+kubeconfig)
	command.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
