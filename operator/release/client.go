// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"helm.sh/helm/v4/pkg/action"
	helmcommon "helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// Helm has one name for all its writes in a process. With the operator's, drift is
// corrected by the manager that owns the fields.
func init() { kube.ManagedFieldsManager = kubenestv1.FieldManagerOperator }

var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

// rights are clients with the rights of one Project.
type rights struct {
	config    *rest.Config
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
	namespace string
}

// newRights makes clients whose calls all end when ctx does: Helm itself passes no
// context on.
func newRights(ctx context.Context, config *rest.Config, namespace string) (*rights, error) {
	config = stack.As(config, namespace)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &bound{ctx: ctx.Done(), request: withContext(ctx), err: ctx.Err, next: next}
	})
	r := &rights{config: config, namespace: namespace}
	var err error
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make client for namespace %s: %w", namespace, err)
	}
	if r.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make client for namespace %s: %w", namespace, err)
	}
	if r.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make client for namespace %s: %w", namespace, err)
	}
	r.discovery = memory.NewMemCacheClient(r.client.Discovery())
	r.mapper = restmapper.NewDeferredDiscoveryRESTMapper(r.discovery)
	return r, nil
}

// bound ends requests with a context that is not theirs.
type bound struct {
	ctx     <-chan struct{}
	request func(*http.Request) *http.Request
	err     func() error
	next    http.RoundTripper
}

func withContext(ctx context.Context) func(*http.Request) *http.Request {
	return func(r *http.Request) *http.Request {
		if r.Context().Done() == nil {
			return r.WithContext(ctx)
		}
		return r
	}
}

func (b *bound) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-b.ctx:
		return nil, b.err()
	default:
	}
	return b.next.RoundTrip(b.request(r))
}

// ToRESTConfig, ToDiscoveryClient, ToRESTMapper and ToRawKubeConfigLoader make rights
// a getter as Helm wants one.
func (r *rights) ToRESTConfig() (*rest.Config, error) { return r.config, nil }

// ToDiscoveryClient is for Helm.
func (r *rights) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return r.discovery, nil
}

// ToRESTMapper is for Helm.
func (r *rights) ToRESTMapper() (meta.RESTMapper, error) { return r.mapper, nil }

// ToRawKubeConfigLoader is for Helm, which asks it for the namespace.
func (r *rights) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, &clientcmd.ConfigOverrides{
		Context: clientcmdapi.Context{Namespace: r.namespace},
	})
}

// helm is Helm with these rights.
func (r *rights) helm(log logr.Logger) *action.Configuration {
	handler := &helmLog{log: log.V(1)}
	client := kube.New(r)
	client.Namespace = r.namespace
	client.SetLogger(handler)
	secrets := driver.NewSecrets(&records{r.client.CoreV1().Secrets(r.namespace)})
	secrets.SetLogger(handler)
	releases := storage.Init(secrets)
	releases.SetLogger(handler)
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(handler))
	configuration.RESTClientGetter, configuration.KubeClient, configuration.Releases = r, client, releases
	configuration.HookOutputFunc = discard
	return configuration
}

// capabilities are those of the cluster, as templates see them.
func (r *rights) capabilities() (*helmcommon.Capabilities, error) {
	version, err := r.discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask for the cluster's version: %w", err)
	}
	parsed, err := helmcommon.ParseKubeVersion(version.GitVersion)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's version: %w", err)
	}
	versions, err := action.GetVersionSet(r.discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask for the cluster's APIs: %w", err)
	}
	c := helmcommon.DefaultCapabilities.Copy()
	c.KubeVersion, c.APIVersions = *parsed, versions
	return c, nil
}
