// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubenest/kubenest/hack/environment"
)

// summarize says what runs and what to try.
func summarize(ctx context.Context, e *environment.Environment) error {
	env, err := e.WriteShellEnv(ctx)
	if err != nil {
		return err
	}
	table, err := e.Kubectl(ctx, "", "get", "mc", "-A")
	if err != nil {
		return err
	}
	fmt.Printf("\nkubenest runs. The clusters, as 'kubectl get mc -A' shows them:\n\n%s\n", indent(table))
	fmt.Print("Try, in another terminal:\n\n")
	try := func(command, why string) { fmt.Printf("  # %s\n  %s\n\n", why, command) }
	dir := relative(e.Dir())
	try(". "+quote(relative(env)), "kubectl for the management cluster, and this Kubernetes' kubectl")
	try("kubectl get mc -A -w", "watch the clusters")
	if clusters := e.Clusters(); len(clusters) > 0 {
		if len(clusters) > 1 {
			try("kubectl apply -f config/samples/shop", "deploy a shop to both clusters: its web tier on dev, its database on prod")
			try("kubectl get projects,apps,stackdeploys -A", "what has reached which cluster")
		}
		c := clusters[0]
		node, err := e.WriteNode(c.Name())
		if err != nil {
			return err
		}
		try(fmt.Sprintf("kubectl --kubeconfig %s create -f %s", quote(filepath.Join(dir, c.Name()+".kubeconfig")), quote(relative(node))),
			"give "+c.Name()+" another node; its figures follow within half a minute")
		try(fmt.Sprintf("kill -9 %d", c.Operator().PID()), "kill the operator of "+c.Name()+" and watch it come back")
		try("kubectl describe mc -n "+environment.Organization+" "+c.Name(), "everything that is known about "+c.Name())
		record, err := c.Record(ctx)
		if err != nil {
			return err
		}
		floor := int64(1)
		if t := record.Status.Token; t != nil {
			floor += t.Generation
		}
		try(fmt.Sprintf(`kubectl patch mc -n %s %s --type merge -p '{"spec":{"token":{"floor":%d}}}'`, environment.Organization, c.Name(), floor),
			"revoke the token of "+c.Name()+", which closes its session")
		try(fmt.Sprintf("kubectl get secret -n %s %s -o jsonpath='{.data.token}' | base64 -d > %s", environment.Organization, c.SecretName(),
			quote(relative(filepath.Join(c.Operator().Credentials(), "token")))),
			"hand the new token over, as 'helm upgrade' would; it is back within a minute")
	}
	try("bin/devenv ps --dir "+quote(dir), "every process with its log")
	fmt.Printf("Ctrl-C here stops everything; 'make run' goes on with the same clusters, 'make clean' forgets them.\n\n")
	return nil
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

// relative gives a path that is short to type from here.
func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}

// quote makes one word of a path for a shell, if need be.
func quote(path string) string {
	plain := func(r rune) bool {
		return r == '/' || r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
