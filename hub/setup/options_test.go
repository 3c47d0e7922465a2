// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
)

// valid are options that a hub could run with.
func valid() *Options {
	o := NewOptions()
	o.Server.ExternalURL = "https://hub.example.com"
	o.Cluster.ReplicaName = "hub-0"
	return o
}

func TestValidate(t *testing.T) {
	NewWithT(t).Expect(valid().Validate()).To(Succeed())
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"no URL":                        {func(o *Options) { o.Server.ExternalURL = "" }, "--external-url must be the https URL"},
		"a URL of plain http":           {func(o *Options) { o.Server.ExternalURL = "http://hub.example.com" }, "no https scheme"},
		"a URL with a password":         {func(o *Options) { o.Server.ExternalURL = "https://me:secret@hub.example.com" }, "neither user, query nor fragment"},
		"a certificate without its key": {func(o *Options) { o.Server.CertFile = "tls.crt" }, "go together"},
		"a CA without a certificate":    {func(o *Options) { o.Server.CAFile = "ca.crt" }, "--tls-ca-file without --tls-cert-file"},
		"TLS files and no TLS":          {func(o *Options) { o.Server.CertFile, o.Server.KeyFile, o.Server.PlainHTTP = "a", "b", true }, "contradict"},
		"a proxy that is no network":    {func(o *Options) { o.Server.TrustedProxies = []string{"10.0.0.1"} }, "is not a network such as"},
		"the PROXY protocol of anybody": {func(o *Options) { o.Server.ProxyProtocol = true }, "--proxy-protocol needs --trusted-proxies"},
		"a grace below three beats":     {func(o *Options) { o.Session.Timing.DeadAfter = 35 * time.Second }, "three heartbeats (3 × 12s = 36s)"},
		"a replica name with a slash":   {func(o *Options) { o.Cluster.ReplicaName = "a/b" }, "--replica-name"},
		"no namespace":                  {func(o *Options) { o.Cluster.Namespace = "" }, "--namespace"},
		"no requests at all":            {func(o *Options) { o.Cluster.QPS = 0 }, "--kube-api-qps"},
		"a negative drain":              {func(o *Options) { o.Session.DrainTimeout = -1 }, "--drain-timeout"},
		"an unknown log level":          {func(o *Options) { o.LogLevel = "loud" }, "debug, info or error"},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid()
			c.change(o)
			err := o.Validate()
			g := NewWithT(t)
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			g.Expect(err).NotTo(MatchError(ContainSubstring("secret")))
		})
	}
}

func TestValidateNamesAllThatIsWrong(t *testing.T) {
	o := valid()
	o.Server.ExternalURL, o.LogLevel = "", "loud"
	NewWithT(t).Expect(o.Validate()).To(MatchError(And(ContainSubstring("--external-url"), ContainSubstring("--log-level"))))
}

func TestFlags(t *testing.T) {
	g := NewWithT(t)
	o := NewOptions()
	flags := pflag.NewFlagSet("hub", pflag.ContinueOnError)
	for _, group := range o.FlagGroups() {
		g.Expect(group.Title).NotTo(BeEmpty())
		group.Flags.VisitAll(func(f *pflag.Flag) { g.Expect(f.Usage).NotTo(BeEmpty(), f.Name) })
		flags.AddFlagSet(group.Flags)
	}
	g.Expect(flags.Parse([]string{
		"--external-url=https://hub.example.com:8443", "--listen-address=127.0.0.1:8443", "--heartbeat-interval=1s", "--dead-after=4s",
		"--trusted-proxies=10.0.0.0/8,fd00::/8", "--replica-name=hub-3", "--kube-api-qps=50",
	})).To(Succeed())
	g.Expect(o.Validate()).To(Succeed())
	g.Expect(o.Server.Address).To(Equal("127.0.0.1:8443"))
	g.Expect(o.Server.hosts()).To(Equal([]string{"hub.example.com"}))
	g.Expect(o.Session.Timing.Heartbeat).To(Equal(time.Second))
	g.Expect(o.Server.trustedProxies()).To(HaveLen(2))
	g.Expect(o.Cluster.ReplicaName).To(Equal("hub-3"))
}
