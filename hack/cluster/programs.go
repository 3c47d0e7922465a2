// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The controllers that a cluster of records needs, and those that run
// Deployments besides.
var (
	recordControllers = []string{
		"clusterrole-aggregation-controller", "garbage-collector-controller", "namespace-controller",
		"root-ca-certificate-publisher-controller", "serviceaccount-controller", "serviceaccount-token-controller",
		"validatingadmissionpolicy-status-controller",
	}
	workloadControllers = []string{
		"cronjob-controller", "daemonset-controller", "deployment-controller", "disruption-controller",
		"endpointslice-controller", "horizontal-pod-autoscaler-controller", "job-controller",
		"node-lifecycle-controller", "pod-garbage-collector-controller", "replicaset-controller",
		"resourcequota-controller", "statefulset-controller", "taint-eviction-controller", "ttl-after-finished-controller",
	}
)

// The serving certificate that etcd and the API server share.
const serving = "serving"

func (c *Cluster) newEtcd() error {
	address, err := c.options.Ports.Address(c.options.Name + "-etcd")
	if err != nil {
		return err
	}
	cert, key, err := c.authority.server(serving)
	if err != nil {
		return err
	}
	ca, url := c.authority.certFile(), "https://"+address
	c.storeURL = url
	ready, err := c.authority.ready(url + "/health")
	if err != nil {
		return err
	}
	c.etcd = c.process("etcd", stageEtcd, ready, []string{
		"--name=default", "--data-dir=" + c.dataDir(),
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=https://127.0.0.1:0",
		"--cert-file=" + cert, "--key-file=" + key, "--trusted-ca-file=" + ca, "--client-cert-auth",
		"--peer-cert-file=" + cert, "--peer-key-file=" + key, "--peer-trusted-ca-file=" + ca, "--peer-client-cert-auth",
		// A killed process loses nothing without fsync; only a machine that loses
		// power does.
		"--unsafe-no-fsync",
		"--log-level=warn",
	})
	return nil
}

func (c *Cluster) newAPIServer() error {
	address, err := c.options.Ports.Address(c.options.Name + "-kube-apiserver")
	if err != nil {
		return err
	}
	account, err := c.authority.serviceAccountKey()
	if err != nil {
		return err
	}
	c.url = "https://" + address
	ready, err := c.authority.ready(c.url + "/readyz")
	if err != nil {
		return err
	}
	cert, key, ca := c.authority.path(serving+".crt"), c.authority.path(serving+".key"), c.authority.certFile()
	c.apiServer = c.process("kube-apiserver", stageAPIServer, ready, []string{
		"--etcd-servers=" + c.storeURL,
		"--etcd-cafile=" + ca, "--etcd-certfile=" + cert, "--etcd-keyfile=" + key,
		"--bind-address=127.0.0.1", "--secure-port=" + address[strings.LastIndex(address, ":")+1:],
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key, "--client-ca-file=" + ca,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + account, "--service-account-signing-key-file=" + account,
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true",
		"--enable-priority-and-fairness=false", "--profiling=false",
		// kwok plays the kubelets, of which "kubectl logs" asks.
		"--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=" + ca,
	})
	return nil
}

func (c *Cluster) newControllers() error {
	controllers := recordControllers
	if c.options.Workloads {
		controllers = append(append([]string{}, recordControllers...), workloadControllers...)
	}
	account, err := c.authority.serviceAccountKey()
	if err != nil {
		return err
	}
	client := []string{"--kubeconfig=" + c.Kubeconfig(), "--kube-api-qps=200", "--kube-api-burst=400", "--secure-port=0", "--leader-elect=false", "--profiling=false"}
	c.controllerManager = c.process("kube-controller-manager", stageControllers, nil, append([]string{
		"--controllers=" + strings.Join(controllers, ","),
		"--service-account-private-key-file=" + account, "--root-ca-file=" + c.authority.certFile(),
		"--use-service-account-credentials=false",
		"--concurrent-gc-syncs=4",
	}, client...))
	if !c.options.Workloads {
		return nil
	}
	c.scheduler = c.process("kube-scheduler", stageControllers, nil, client)
	configs, err := c.stages()
	if err != nil {
		return err
	}
	kubelet, err := c.kubelet()
	if err != nil {
		return err
	}
	logs, err := c.sampleLogs()
	if err != nil {
		return err
	}
	for _, path := range append(c.options.KwokConfig, logs) {
		configs = append(configs, configFlag(path))
	}
	args := append([]string{
		"--kubeconfig=" + c.Kubeconfig(), "--manage-all-nodes=true",
		// Renewed after a quarter of it, which an idle cluster notices.
		"--node-lease-duration-seconds=40",
		"--v=WARN", // it says each renewal else
	}, append(kubelet, configs...)...)
	c.kwok = c.process("kwok", stageControllers, nil, args)
	return nil
}

// stages gives kwok's flags for what nodes and pods do.
func (c *Cluster) stages() ([]string, error) {
	dir := filepath.Join(c.options.Assets, "stages")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("find kwok's stages, which 'make control-plane' makes: %w", err)
	}
	flags := make([]string, 0, len(entries))
	for _, e := range entries {
		flags = append(flags, configFlag(filepath.Join(dir, e.Name())))
	}
	return flags, nil
}

// configFlag names a file of kwok's. The flag takes a list in the form of CSV.
func configFlag(path string) string {
	return `--config="` + strings.ReplaceAll(path, `"`, `""`) + `"`
}

// ready probes a URL with the CA's own client certificate, as etcd demands one.
func (a *authority) ready(url string) (func(context.Context) error, error) {
	pair, err := tls.LoadX509KeyPair(a.path(serving+".crt"), a.path(serving+".key"))
	if err != nil {
		return nil, fmt.Errorf("load certificate for probes: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	client := &http.Client{
		Timeout: 2 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true,
		},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}, nil
}
