// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kubenest/kubenest/api/wire"
)

// Options are the hub's settings.
type Options struct {
	Server  ServerOptions
	Session SessionOptions
	Cluster ClusterOptions
	Probes  ProbeOptions
	// LogLevel is debug, info or error.
	LogLevel string
}

// ServerOptions say where the hub listens and what it is called.
type ServerOptions struct {
	// Address to listen on, host:port.
	Address string
	// ExternalURL is the https URL under which operators reach the hub.
	ExternalURL string
	// CertFile, KeyFile and CAFile hold the serving certificate, its key and the CA
	// bundle for operators. Without them the hub makes its own CA.
	CertFile, KeyFile, CAFile string
	// PlainHTTP serves without TLS, for a proxy that terminates it.
	PlainHTTP bool
	// TrustedProxies (CIDR) may name a client's address, in X-Forwarded-For and with
	// the PROXY protocol.
	TrustedProxies []string
	// ProxyProtocol expects the PROXY protocol, version 1 or 2, of TrustedProxies.
	ProxyProtocol bool
}

// SessionOptions steer the sessions with operators.
type SessionOptions struct {
	Timing wire.Timing
	// DrainTimeout bounds how long a stopping replica waits for its sessions to
	// move to others.
	DrainTimeout time.Duration
}

// ClusterOptions say how the hub works with the management cluster.
type ClusterOptions struct {
	// Kubeconfig of the management cluster; empty in a pod.
	Kubeconfig string
	// Namespace holds the hub's own Leases and Secrets.
	Namespace string
	// ReplicaName tells this replica from others: the pod's name.
	ReplicaName string
	// QPS and Burst bound the requests to the API server.
	QPS   float64
	Burst int
}

// ProbeOptions say where metrics and health are served.
type ProbeOptions struct {
	MetricsAddress, HealthAddress string
}

// namespaceFile tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// NewOptions gives the defaults.
func NewOptions() *Options {
	hostname, _ := os.Hostname() // an empty name is refused by Validate
	return &Options{
		Server:  ServerOptions{Address: ":8443"},
		Session: SessionOptions{Timing: wire.DefaultTiming, DrainTimeout: 20 * time.Second},
		Cluster: ClusterOptions{
			Namespace:   ownNamespace("kubenest-system"),
			ReplicaName: hostname,
			QPS:         200,
			Burst:       400,
		},
		Probes:   ProbeOptions{MetricsAddress: ":8080", HealthAddress: ":8081"},
		LogLevel: "info",
	}
}

func ownNamespace(fallback string) string {
	if data, err := os.ReadFile(namespaceFile); err == nil {
		return strings.TrimSpace(string(data))
	}
	return fallback
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
		group("Serving", o.Server.bind),
		group("Sessions", o.Session.bind),
		group("Management cluster", o.Cluster.bind),
		group("Observing", func(f *pflag.FlagSet) {
			o.Probes.bind(f)
			f.StringVar(&o.LogLevel, "log-level", o.LogLevel, "how much to log: debug, info or error")
		}),
	}
}

func (o *ServerOptions) bind(f *pflag.FlagSet) {
	f.StringVar(&o.ExternalURL, "external-url", o.ExternalURL, "https URL under which operators reach the hub, such as https://hub.example.com (required)")
	f.StringVar(&o.Address, "listen-address", o.Address, "address to listen on for operators")
	f.StringVar(&o.CertFile, "tls-cert-file", o.CertFile, "file with the serving certificate, reloaded when it changes; without it the hub makes a CA of its own and keeps it in a Secret")
	f.StringVar(&o.KeyFile, "tls-key-file", o.KeyFile, "file with the serving certificate's key")
	f.StringVar(&o.CAFile, "tls-ca-file", o.CAFile, "file with the CA bundle that operators shall check the certificate against; leave it out for a public authority")
	f.BoolVar(&o.PlainHTTP, "insecure-plain-http", o.PlainHTTP, "serve without TLS: only behind a proxy that terminates it")
	f.StringSliceVar(&o.TrustedProxies, "trusted-proxies", o.TrustedProxies, "networks (CIDR) of proxies and balancers that are believed when they name a client's address")
	f.BoolVar(&o.ProxyProtocol, "proxy-protocol", o.ProxyProtocol, "expect the PROXY protocol of connections from --trusted-proxies")
}

func (o *SessionOptions) bind(f *pflag.FlagSet) {
	f.DurationVar(&o.Timing.Heartbeat, "heartbeat-interval", o.Timing.Heartbeat, "how often operators beat")
	f.DurationVar(&o.Timing.DeadAfter, "dead-after", o.Timing.DeadAfter, "silence after which a session is given up, at least three heartbeats")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "how long a stopping replica waits for its sessions to move to other replicas")
}

func (o *ClusterOptions) bind(f *pflag.FlagSet) {
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig of the management cluster; not needed in a pod")
	f.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the hub's own Leases and Secrets")
	f.StringVar(&o.ReplicaName, "replica-name", o.ReplicaName, "name of this replica, unique among the hub's: the pod's name")
	f.Float64Var(&o.QPS, "kube-api-qps", o.QPS, "requests a second to the management API server, sustained")
	f.IntVar(&o.Burst, "kube-api-burst", o.Burst, "requests to the management API server at once")
}

func (o *ProbeOptions) bind(f *pflag.FlagSet) {
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress, "address of Prometheus metrics; 0 turns them off")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", o.HealthAddress, "address of /healthz and /readyz; 0 turns them off")
}

// Validate refuses settings that cannot work, alone or together, with what to
// give instead.
func (o *Options) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if err := o.Server.validateURL(); err != nil {
		errs = append(errs, err)
	}
	if (o.Server.CertFile == "") != (o.Server.KeyFile == "") {
		add("--tls-cert-file and --tls-key-file go together: give both, or neither to have the hub make its own")
	}
	if o.Server.CAFile != "" && o.Server.CertFile == "" && !o.Server.PlainHTTP {
		add("--tls-ca-file without --tls-cert-file: the hub's own certificate is from its own CA")
	}
	if o.Server.PlainHTTP && o.Server.CertFile != "" {
		add("--insecure-plain-http and --tls-cert-file contradict each other")
	}
	if _, err := o.Server.trustedProxies(); err != nil {
		errs = append(errs, err)
	}
	if o.Server.ProxyProtocol && len(o.Server.TrustedProxies) == 0 {
		add("--proxy-protocol needs --trusted-proxies: anybody could name any address otherwise")
	}
	if err := o.Session.Timing.Validate(); err != nil {
		add("--heartbeat-interval and --dead-after: %w", err)
	}
	if o.Session.DrainTimeout < 0 {
		add("--drain-timeout %v must not be negative", o.Session.DrainTimeout)
	}
	if o.Cluster.ReplicaName == "" || strings.Contains(o.Cluster.ReplicaName, "/") {
		add("--replica-name %q must be a name without a slash: give the pod's", o.Cluster.ReplicaName)
	}
	if o.Cluster.Namespace == "" {
		add("--namespace must not be empty")
	}
	if o.Cluster.QPS <= 0 || o.Cluster.Burst < 1 {
		add("--kube-api-qps and --kube-api-burst must be above zero")
	}
	switch o.LogLevel {
	case "debug", "info", "error":
	default:
		add("--log-level %q must be debug, info or error", o.LogLevel)
	}
	return errors.Join(errs...)
}

func (o *ServerOptions) validateURL() error {
	const want = "--external-url must be the https URL under which operators reach the hub, such as https://hub.example.com"
	u, err := url.Parse(o.ExternalURL)
	switch {
	case o.ExternalURL == "":
		return errors.New(want)
	case err != nil:
		return fmt.Errorf("%s: %w", want, err)
	case u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%s: %q has no https scheme or no host", want, o.ExternalURL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s: it may hold neither user, query nor fragment", want)
	}
	return nil
}

// hosts are the names that a certificate of the hub's own is for.
func (o *ServerOptions) hosts() []string {
	u, err := url.Parse(o.ExternalURL)
	if err != nil {
		return nil
	}
	return []string{u.Hostname()}
}

func (o *ServerOptions) trustedProxies() ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(o.TrustedProxies))
	for _, s := range o.TrustedProxies {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("--trusted-proxies: %q is not a network such as 10.0.0.0/8: %w", s, err)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}
