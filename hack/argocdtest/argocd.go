// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package argocdtest runs a real Argo CD beside a cluster of hack/cluster: its
// application controller, its repo server and a Redis in memory, as processes on
// 127.0.0.1. 'make argocd' builds them, and puts the manifests beside them that are
// installed here.
//
// One port is not on 127.0.0.1 only: the controller serves its metrics on all
// addresses, and can not be told otherwise.
package argocdtest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kubenest/kubenest/hack/cluster"
	"github.com/kubenest/kubenest/hack/ports"
	"github.com/kubenest/kubenest/hack/process"
)

// Namespace that Argo CD and its objects are in.
const Namespace = "argocd"

// Options of an Argo CD.
type Options struct {
	// Cluster is the one that it runs beside and delivers to.
	Cluster *cluster.Cluster
	// Dir holds what it works with, LogDir the logs.
	Dir, LogDir string
	// Assets is the folder that hack/argocd/build.sh makes, bin/argocd.
	Assets string
	// Trust has the certificates, in PEM form, that repositories' hosts are checked
	// against. A real cluster has them in ConfigMap argocd-tls-certs-cm.
	Trust map[string][]byte
	// KnownHosts are keys of ssh hosts, of ConfigMap argocd-ssh-known-hosts-cm.
	KnownHosts []byte
	// Ports remembers the addresses.
	Ports *ports.Book
	// Group keeps the processes.
	Group *process.Group
}

// ArgoCD is a running one.
type ArgoCD struct {
	// Controller applies, RepoServer reads repositories.
	Controller, RepoServer *process.Process
	redis                  *process.Process
}

// Start installs Argo CD's objects on the cluster, which runs, and starts its
// processes.
func Start(ctx context.Context, o Options) (*ArgoCD, error) {
	if err := install(ctx, &o); err != nil {
		return nil, fmt.Errorf("install Argo CD: %w", err)
	}
	a, err := newProcesses(&o)
	if err != nil {
		return nil, fmt.Errorf("prepare Argo CD: %w", err)
	}
	for _, p := range []*process.Process{a.redis, a.RepoServer, a.Controller} {
		if err := p.Start(ctx); err != nil {
			return nil, fmt.Errorf("start Argo CD: %w", err)
		}
	}
	return a, nil
}

// install does what 'kubectl apply --server-side' of the module's manifests does.
func install(ctx context.Context, o *Options) error {
	config, err := o.Cluster.RESTConfig()
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := client.IgnoreAlreadyExists(api.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	var files []string
	for _, pattern := range []string{"*-crd.yaml", filepath.Join("config", "argocd-*.yaml")} {
		found, err := filepath.Glob(filepath.Join(o.Assets, "manifests", pattern))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("%s has no manifests %s: run 'make argocd'", o.Assets, pattern)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if err := applyFile(ctx, api, file); err != nil {
			return err
		}
	}
	return errors.Join(addSecretKey(ctx, api), addProject(ctx, api))
}

func applyFile(ctx context.Context, api client.Client, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if object.GetKind() != "CustomResourceDefinition" {
		object.SetNamespace(Namespace)
	}
	return apply(ctx, api, object)
}

func apply(ctx context.Context, api client.Client, object *unstructured.Unstructured) error {
	err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("argocdtest"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// addSecretKey adds what Argo CD's own server would.
func addSecretKey(ctx context.Context, api client.Client) error {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return apply(ctx, api, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{
			"namespace": Namespace, "name": "argocd-secret",
			"labels": map[string]any{"app.kubernetes.io/name": "argocd-secret", "app.kubernetes.io/part-of": "argocd"},
		},
		"stringData": map[string]any{"server.secretkey": base64.StdEncoding.EncodeToString(key)},
	}})
}

// addProject adds the project "default", as Argo CD's server does. The kind was
// defined just before, so that the API server may need a moment.
func addProject(ctx context.Context, api client.Client) error {
	project := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
		"metadata": map[string]any{"namespace": Namespace, "name": "default"},
		"spec": map[string]any{
			"sourceRepos":              []any{"*"},
			"destinations":             []any{map[string]any{"namespace": "*", "server": "*"}},
			"clusterResourceWhitelist": []any{map[string]any{"group": "*", "kind": "*"}},
		},
	}}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = apply(ctx, api, project)
		if last == nil {
			return true, nil
		}
		return false, nil
	})
	if meta.IsNoMatchError(last) || err != nil {
		return errors.Join(err, last)
	}
	return nil
}

func newProcesses(o *Options) (*ArgoCD, error) {
	env, err := o.environment()
	if err != nil {
		return nil, err
	}
	address := map[string]string{}
	for _, name := range []string{"redis", "repo", "repo-metrics", "metrics"} {
		if address[name], err = o.Ports.Address(o.Cluster.Name() + "-argocd-" + name); err != nil {
			return nil, err
		}
	}
	program := func(name, serves string, args ...string) *process.Process {
		process := process.Spec{
			Name: o.Cluster.Name() + "-" + name, Path: filepath.Join(o.Assets, name), Args: args, Env: env,
			LogFile: filepath.Join(o.LogDir, o.Cluster.Name()+"-"+name+".log"), Stage: cluster.StageClients,
			Ready: func(ctx context.Context) error {
				connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", serves)
				if err != nil {
					return err
				}
				return connection.Close()
			},
		}
		return o.Group.New(process)
	}
	return &ArgoCD{
		redis: program("redis", address["redis"], address["redis"]),
		RepoServer: program("argocd-repo-server", address["repo"],
			"--address=127.0.0.1", "--port="+port(address["repo"]),
			"--metrics-address=127.0.0.1", "--metrics-port="+port(address["repo-metrics"]),
			"--disable-tls", "--client-ca-path=", "--revision-cache-expiration=1s", "--redis="+address["redis"], "--logformat=text"),
		Controller: program("argocd-application-controller", address["metrics"],
			"--namespace="+Namespace, "--repo-server="+address["repo"], "--repo-server-plaintext", "--redis="+address["redis"],
			"--metrics-port="+port(address["metrics"]), "--persist-resource-health", "--logformat=text",
			"--status-processors=4", "--operation-processors=4"),
	}, nil
}

// environment of all processes: nothing is inherited, and nothing is written but in
// the folder.
func (o *Options) environment() ([]string, error) {
	folder := func(name string) string { return filepath.Join(o.Dir, name) }
	for _, name := range []string{"home", "tmp", "tls", "ssh", "gpg"} {
		if err := os.MkdirAll(folder(name), 0o700); err != nil {
			return nil, fmt.Errorf("make folder: %w", err)
		}
	}
	for host, certificate := range o.Trust {
		if err := os.WriteFile(filepath.Join(folder("tls"), host), certificate, 0o600); err != nil {
			return nil, fmt.Errorf("write certificate: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder("ssh"), "ssh_known_hosts"), o.KnownHosts, 0o600); err != nil {
		return nil, fmt.Errorf("write host keys: %w", err)
	}
	return []string{
		"KUBECONFIG=" + o.Cluster.Kubeconfig(), "ARGOCD_FAKE_IN_CLUSTER=true",
		"HOME=" + folder("home"), "TMPDIR=" + folder("tmp"), "ARGOCD_ASK_PASS_SOCK=" + filepath.Join(o.Dir, "ask.sock"),
		"ARGOCD_TLS_DATA_PATH=" + folder("tls"), "ARGOCD_SSH_DATA_PATH=" + folder("ssh"),
		"ARGOCD_GPG_ENABLED=false", "ARGOCD_GNUPGHOME=" + folder("gpg"),
		// The repo server calls git, and its own helpers.
		"PATH=" + strings.Join([]string{o.Assets, os.Getenv("PATH")}, string(os.PathListSeparator)),
	}, nil
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }
