// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a self-contained kubeconfig (mode 0600) for a user and
// its groups, whose certificate it signs.
func (c *Cluster) WriteKubeconfig(path, user string, groups ...string) error {
	name := strings.NewReplacer(":", "-", "/", "-").Replace(user)
	certFile, keyFile, err := c.authority.client(name, user, groups...)
	if err != nil {
		return fmt.Errorf("keys of user %s: %w", user, err)
	}
	config := clientcmdapi.NewConfig()
	cluster, auth := clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server = c.url
	for _, file := range []struct {
		into *[]byte
		path string
	}{
		{&cluster.CertificateAuthorityData, c.authority.certFile()},
		{&auth.ClientCertificateData, certFile},
		{&auth.ClientKeyData, keyFile},
	} {
		if *file.into, err = os.ReadFile(file.path); err != nil {
			return fmt.Errorf("read keys of user %s: %w", user, err)
		}
	}
	context := clientcmdapi.NewContext()
	context.Cluster, context.AuthInfo = c.options.Name, user
	config.Clusters[c.options.Name] = cluster
	config.AuthInfos[user] = auth
	config.Contexts[c.options.Name] = context
	config.CurrentContext = c.options.Name
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make folder for kubeconfig: %w", err)
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig of user %s: %w", user, err)
	}
	return nil
}

// WriteServiceAccountKubeconfig writes a kubeconfig for the identity of a
// ServiceAccount, with the rights that RBAC gives it. The account need not exist.
func (c *Cluster) WriteServiceAccountKubeconfig(path, namespace, name string) error {
	return c.WriteKubeconfig(path, "system:serviceaccount:"+namespace+":"+name,
		"system:serviceaccounts", "system:serviceaccounts:"+namespace)
}
