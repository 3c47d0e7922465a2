// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/hack/cluster"
)

const (
	adminAccount  = "admin"
	adminLifetime = 365 * 24 * 60 * 60 // seconds
)

// makeAdmin makes a ServiceAccount that may do everything.
func (e *Environment) makeAdmin(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: hubNamespace, Name: adminAccount}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubenest-development-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: hubNamespace, Name: adminAccount}},
	}
	for _, o := range []client.Object{account, binding} {
		if err := client.IgnoreAlreadyExists(e.client.Create(ctx, o)); err != nil {
			return fmt.Errorf("make an administrator: %w", err)
		}
	}
	return nil
}

// AdminToken makes a bearer token with which the management API server lets its
// bearer do everything, for a year.
func (e *Environment) AdminToken(ctx context.Context) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: hubNamespace, Name: adminAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(adminLifetime))}}
	if err := e.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("make an administrator's token: %w", err)
	}
	return request.Status.Token, nil
}

// WriteShellEnv writes the file "env" for a shell to source: what kubectl and
// curl need to work with this environment.
func (e *Environment) WriteShellEnv(ctx context.Context) (string, error) {
	token, err := e.AdminToken(ctx)
	if err != nil {
		return "", err
	}
	ca := e.folder.path("hub-ca.crt")
	if len(e.workloads) > 0 { // the hub tells its CA in connection Secrets only
		var secret corev1.Secret
		key := client.ObjectKey{Namespace: Organization, Name: e.workloads[0].SecretName()}
		if err := e.client.Get(ctx, key, &secret); err != nil {
			return "", fmt.Errorf("read the hub's CA: %w", err)
		}
		if err := writeFile(ca, secret.Data[kubenestv1.ConnectionKeyCA]); err != nil {
			return "", err
		}
	}
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	assets := quoted(e.options.Assets)
	var text strings.Builder
	fmt.Fprintf(&text, "# Written by devenv at each start. In a shell: . .kubenest/env\n")
	fmt.Fprintf(&text, "case \":$PATH:\" in *:%s:*) ;; *) PATH=%s:\"$PATH\" ;; esac\n", assets, assets)
	for _, v := range []struct{ name, value string }{
		{"KUBECONFIG", e.management.Kubeconfig()},
		{"HUB_URL", e.hub.URL()},
		{"HUB_CA", ca},
		{"TOKEN", token},
	} {
		fmt.Fprintf(&text, "%s=%s\n", v.name, quoted(v.value))
	}
	text.WriteString("export PATH KUBECONFIG HUB_URL HUB_CA TOKEN\n")
	path := e.folder.path("env")
	return path, writeFile(path, []byte(text.String()))
}

// WriteNode writes a file for "kubectl create", with which a workload cluster
// gets another node each time.
func (e *Environment) WriteNode(name string) (string, error) {
	node := cluster.Node("", e.Cluster(name).options.Region)
	node.GenerateName = name + "-extra-"
	delete(node.Labels, corev1.LabelHostname)
	data, err := yaml.Marshal(node)
	if err != nil {
		return "", fmt.Errorf("encode node: %w", err)
	}
	path := e.folder.path(name + "-node.yaml")
	return path, writeFile(path, data)
}
