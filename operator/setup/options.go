// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/kubenest/kubenest/operator/agent"
)

// Options are the operator's settings.
type Options struct {
	Hub     HubOptions
	Cluster ClusterOptions
	Probes  ProbeOptions
	// LogLevel is debug, info or error.
	LogLevel string
}

// HubOptions say how the operator reaches the hub.
type HubOptions struct {
	// ConnectionDirectory holds the cluster's connection Secret, a file a key.
	ConnectionDirectory string
	// InsecurePlainHTTP allows a hub URL without TLS.
	InsecurePlainHTTP bool
	// Watchdog is how long no hub may answer before the operator counts as stuck.
	Watchdog time.Duration
}

// ClusterOptions say how the operator works with its own cluster.
type ClusterOptions struct {
	// Kubeconfig of the cluster; empty in a pod.
	Kubeconfig string
	// Config is used instead of Kubeconfig by programs that run an operator inside;
	// there is no flag for it.
	Config *rest.Config
	// Namespace holds the operator's Lease, Secret and Events.
	Namespace string
	// PodName tells this operator from others of the cluster.
	PodName string
	// QPS and Burst bound the requests to the API server.
	QPS   float64
	Burst int
}

// ProbeOptions say where metrics and health are served.
type ProbeOptions struct {
	MetricsAddress, HealthAddress string
}

const (
	// namespaceFile tells a pod its namespace.
	namespaceFile    = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	defaultNamespace = "kubenest-system"
)

// NewOptions gives the defaults.
func NewOptions() *Options {
	hostname, _ := os.Hostname() // an empty name is refused by Validate
	namespace := defaultNamespace
	if data, err := os.ReadFile(namespaceFile); err == nil {
		namespace = strings.TrimSpace(string(data))
	}
	return &Options{
		Hub: HubOptions{ConnectionDirectory: "/etc/kubenest/connection", Watchdog: agent.DefaultWatchdog},
		Cluster: ClusterOptions{
			Namespace: namespace,
			PodName:   hostname,
			// An idle operator makes about one request in 3 s. client-go's 5 would slow
			// down a start on a large cluster.
			QPS:   20,
			Burst: 40,
		},
		Probes:   ProbeOptions{MetricsAddress: ":8080", HealthAddress: ":8081"},
		LogLevel: "info",
	}
}

// FlagGroup is a titled set of flags.
type FlagGroup struct {
	Title string
	Flags *pflag.FlagSet
}

// FlagGroups binds the options to flags, in the order in which help shows them.
func (o *Options) FlagGroups() []FlagGroup {
	group := func(title string, bind func(*pflag.FlagSet)) FlagGroup {
		flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
		flags.SortFlags = false
		bind(flags)
		return FlagGroup{Title: title, Flags: flags}
	}
	return []FlagGroup{
		group("Hub", o.Hub.bind),
		group("This cluster", o.Cluster.bind),
		group("Observing", func(f *pflag.FlagSet) {
			o.Probes.bind(f)
			f.StringVar(&o.LogLevel, "log-level", o.LogLevel, "how much to log: debug, info or error")
		}),
	}
}

func (o *HubOptions) bind(f *pflag.FlagSet) {
	f.StringVar(&o.ConnectionDirectory, "credentials-dir", o.ConnectionDirectory,
		"directory with the cluster's connection Secret: token, cluster-id, hub-url and, for a private authority, ca.crt")
	f.BoolVar(&o.InsecurePlainHTTP, "insecure-plain-http", o.InsecurePlainHTTP,
		"allow a hub URL that begins with http://, over which the token can be read: only for tests")
	f.DurationVar(&o.Watchdog, "watchdog", o.Watchdog,
		"how long no hub may answer, not even with a refusal, before /healthz fails and the pod is restarted")
}

func (o *ClusterOptions) bind(f *pflag.FlagSet) {
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig of this cluster; not needed in a pod")
	f.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the operator's own Lease and Secret")
	f.StringVar(&o.PodName, "pod-name", o.PodName, "name of this pod, unique among the cluster's operators")
	f.Float64Var(&o.QPS, "kube-api-qps", o.QPS, "requests a second to the API server, sustained")
	f.IntVar(&o.Burst, "kube-api-burst", o.Burst, "requests to the API server at once")
}

func (o *ProbeOptions) bind(f *pflag.FlagSet) {
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress, "address of Prometheus metrics; 0 turns them off")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", o.HealthAddress, "address of /healthz and /readyz; 0 turns them off")
}

// Validate refuses settings that can't work, alone or together, with what to give
// instead.
func (o *Options) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if o.Hub.ConnectionDirectory == "" {
		add("--credentials-dir must be the directory in which the connection Secret is mounted")
	}
	if o.Hub.Watchdog < agent.ReadyGrace {
		add("--watchdog %v must be at least %v: attempts may be that far apart", o.Hub.Watchdog, agent.ReadyGrace)
	}
	if wrong := validation.IsDNS1123Label(o.Cluster.Namespace); len(wrong) > 0 {
		add("--namespace %q must be the name of a namespace", o.Cluster.Namespace)
	}
	if o.Cluster.PodName == "" {
		add("--pod-name must be the pod's name, or another one that no other operator of this cluster has")
	}
	if o.Cluster.QPS <= 0 || o.Cluster.Burst < 1 {
		add("--kube-api-qps and --kube-api-burst must be above zero")
	}
	checkAddress := func(flag, address string) {
		if address == off {
			return
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			add("%s %q must be host:port or :port, or 0 to turn it off", flag, address)
		}
	}
	checkAddress("--metrics-bind-address", o.Probes.MetricsAddress)
	checkAddress("--health-probe-bind-address", o.Probes.HealthAddress)
	if m := o.Probes.MetricsAddress; m != off && m == o.Probes.HealthAddress && !strings.HasSuffix(m, ":0") {
		add("--metrics-bind-address and --health-probe-bind-address must differ: both are %q", m)
	}
	switch o.LogLevel {
	case "debug", "info", "error":
	default:
		add("--log-level %q must be debug, info or error", o.LogLevel)
	}
	return errors.Join(errs...)
}
