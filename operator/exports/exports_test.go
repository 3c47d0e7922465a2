// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

// parsed reads objects as a chart has made them.
func parsed(g Gomega, text string) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(document), &o.Object)).To(Succeed())
		if len(o.Object) > 0 {
			o.SetNamespace("shop")
			objects = append(objects, o)
		}
	}
	return objects
}

func typed(objects []*unstructured.Unstructured) []runtime.Object {
	var out []runtime.Object
	for _, s := range of[corev1.Service](objects, "Service") {
		out = append(out, s)
	}
	for _, s := range of[corev1.Secret](objects, "Secret") {
		for k, v := range s.StringData {
			if s.Data == nil {
				s.Data = map[string][]byte{}
			}
			s.Data[k] = []byte(v)
		}
		out = append(out, s)
	}
	return out
}

func addon(spec kubenestv1.AddonSpec) *delivery.Addon {
	return &delivery.Addon{
		Target:    stack.Target{Owner: "c1/platform/shop", Namespace: "shop", App: "shop", Project: kubenestv1.ProjectKey{Namespace: "platform", Name: "shop"}},
		Component: &kubenestv1.Component{Name: "db", Type: kubenestv1.ComponentAddon, AddonSpec: &spec},
	}
}

func values(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

const (
	postgresService = `{apiVersion: v1, kind: Service, metadata: {name: shop-db}, spec: {ports: [{name: postgres, port: 5432}]}}`
	commonPostgres  = `
{apiVersion: v1, kind: Service, metadata: {name: shop-db-postgresql-hl}, spec: {clusterIP: None, ports: [{name: tcp-postgresql, port: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: shop-db-postgresql-primary, labels: {app.kubernetes.io/component: primary}}, spec: {ports: [{name: tcp-postgresql, port: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: shop-db-postgresql-read, labels: {app.kubernetes.io/component: read}}, spec: {ports: [{name: tcp-postgresql, port: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: shop-db-metrics}, spec: {ports: [{name: http-metrics, port: 9187}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: shop-db-postgresql}, stringData: {postgres-password: admin, password: "p@ss/w:rd"}}
`
)

func TestFind(t *testing.T) {
	const external = "1.2.3.4"
	for name, test := range map[string]struct {
		spec    kubenestv1.AddonSpec
		objects string
		want    map[string]string
		failure string // words of it
		reason  string
	}{
		"a postgres as charts commonly have it, with a user of its own": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonPostgres, Values: values(`{"auth":{"username":"app","database":"shop"}}`)}, objects: commonPostgres,
			want: map[string]string{
				"host": "shop-db-postgresql-primary.shop.svc", "port": "5432", "username": "app", "password": "p@ss/w:rd", "database": "shop",
				"dsn": "postgresql://app:p%40ss%2Fw%3Ard@shop-db-postgresql-primary.shop.svc:5432/shop",
			},
		},
		"a postgres without values: the administrator": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonPostgres}, objects: commonPostgres,
			want: map[string]string{
				"host": "shop-db-postgresql-primary.shop.svc", "port": "5432", "username": "postgres", "password": "admin", "database": "postgres",
				"dsn": "postgresql://postgres:admin@shop-db-postgresql-primary.shop.svc:5432/postgres",
			},
		},
		"what the containers get comes first": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonPostgres},
			objects: postgresService + `
---
{apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {password: "1", other: "2"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: two}, stringData: {password: "3"}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: shop-db}, spec: {template: {spec: {containers: [{name: db, env: [
  {name: POSTGRES_USER, value: me}, {name: POSTGRES_DB, value: "a b"}, {name: POSTGRES_PASSWORD, valueFrom: {secretKeyRef: {name: one, key: other}}}]}]}}}}`,
			want: map[string]string{
				"host": "shop-db.shop.svc", "port": "5432", "username": "me", "password": "2", "database": "a b",
				"dsn": "postgresql://me:2@shop-db.shop.svc:5432/a%20b",
			},
		},
		"a redis": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonRedis},
			objects: `
{apiVersion: v1, kind: Service, metadata: {name: shop-db-master}, spec: {ports: [{name: tcp-redis, port: 6379}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: shop-db-replicas}, spec: {ports: [{name: tcp-redis, port: 6379}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: shop-db}, stringData: {redis-password: "a b"}}`,
			want: map[string]string{"host": "shop-db-master.shop.svc", "port": "6379", "password": "a b", "dsn": "redis://:a%20b@shop-db-master.shop.svc:6379/0"},
		},
		"a redis that is open": {
			spec:    kubenestv1.AddonSpec{Type: kubenestv1.AddonRedis},
			objects: `{apiVersion: v1, kind: Service, metadata: {name: r}, spec: {ports: [{port: 6379}]}}`,
			want:    map[string]string{"host": "r.shop.svc", "port": "6379", "dsn": "redis://r.shop.svc:6379/0"},
		},
		"a mysql, its administrator": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonMySQL, Values: values(`{"auth":{"database":"d"}}`)},
			objects: `
{apiVersion: v1, kind: Service, metadata: {name: m}, spec: {ports: [{port: 3306}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: m}, stringData: {mysql-root-password: r, mysql-password: u}}`,
			want: map[string]string{"host": "m.shop.svc", "port": "3306", "username": "root", "password": "r", "database": "d", "dsn": "mysql://root:r@m.shop.svc:3306/d"},
		},
		"a mongodb": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonMongoDB},
			objects: `
{apiVersion: v1, kind: Service, metadata: {name: m}, spec: {ports: [{name: mongodb, port: 27017}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: m}, stringData: {mongodb-root-password: r}}`,
			want: map[string]string{"host": "m.shop.svc", "port": "27017", "username": "root", "password": "r", "database": "admin", "dsn": "mongodb://root:r@m.shop.svc:27017/admin?authSource=admin"},
		},
		"a rabbitmq": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonRabbitMQ, Values: values(`{"auth":{"username":"u"}}`)},
			objects: `
{apiVersion: v1, kind: Service, metadata: {name: q}, spec: {ports: [{name: amqp, port: 5672}, {name: http-stats, port: 15672}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: q}, stringData: {rabbitmq-password: p, rabbitmq-erlang-cookie: c}}`,
			want: map[string]string{"host": "q.shop.svc", "port": "5672", "username": "u", "password": "p", "dsn": "amqp://u:p@q.shop.svc:5672"},
		},
		"a kafka": {
			spec:    kubenestv1.AddonSpec{Type: kubenestv1.AddonKafka},
			objects: `{apiVersion: v1, kind: Service, metadata: {name: k}, spec: {ports: [{name: tcp-client, port: 9092}]}}`,
			want:    map[string]string{"host": "k.shop.svc", "port": "9092", "dsn": "k.shop.svc:9092", "brokers": "k.shop.svc:9092"},
		},
		"two that could be it": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonPostgres},
			objects: `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {ports: [{port: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: two}, spec: {ports: [{port: 5432}]}}`,
			reason: kubenestv1.ReasonExportsFailed, failure: "one, two. Declare",
		},
		"two passwords": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonPostgres},
			objects: postgresService + `
---
{apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {password: "first"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: two}, stringData: {password: "second"}}`,
			reason: kubenestv1.ReasonExportsFailed, failure: "one, two. Declare export password",
		},
		"two passwords, one declared": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonPostgres, Exports: []kubenestv1.Export{{Name: "password", SecretKeyRef: &kubenestv1.SecretKeyReference{Name: "two", Key: "password"}}}},
			objects: postgresService + `
---
{apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {password: "first"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: two}, stringData: {password: "second"}}`,
			want: map[string]string{
				"host": "shop-db.shop.svc", "port": "5432", "username": "postgres", "password": "second", "database": "postgres",
				"dsn": "postgresql://postgres:second@shop-db.shop.svc:5432/postgres",
			},
		},
		"no password": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonPostgres}, objects: postgresService,
			reason: kubenestv1.ReasonExportsFailed, failure: "secretKeyRef",
		},
		"another chart, declared": {
			spec: kubenestv1.AddonSpec{Type: kubenestv1.AddonOther, Exports: []kubenestv1.Export{
				{Name: "api", ServiceRef: &kubenestv1.ServicePortReference{Name: "{{ .release }}-api"}},
				{Name: "key", SecretKeyRef: &kubenestv1.SecretKeyReference{Name: "s", Key: "k"}},
				{Name: "url", Template: "https://{{ urlquery .key }}@{{ .api }}/{{ .namespace }}/{{ .release }}"},
			}},
			objects: `{apiVersion: v1, kind: Service, metadata: {name: shop-db-api}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: "&"}}`,
			want: map[string]string{"api": "shop-db-api.shop.svc:80", "key": "&", "url": "https://%26@shop-db-api.shop.svc:80/shop/shop-db"},
		},
		"a key that is not there": {
			spec:    kubenestv1.AddonSpec{Exports: []kubenestv1.Export{{Name: "key", SecretKeyRef: &kubenestv1.SecretKeyReference{Name: "s", Key: "x"}}}},
			objects: `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: "hidden"}}`,
			reason:  kubenestv1.ReasonExportsFailed, failure: "key x of Secret s, which has k",
		},
		"a name that is none": {
			spec:    kubenestv1.AddonSpec{Type: kubenestv1.AddonRedis, Exports: []kubenestv1.Export{{Name: "dns"}}},
			objects: `{apiVersion: v1, kind: Service, metadata: {name: r}, spec: {ports: [{port: 6379}]}}`,
			reason:  kubenestv1.ReasonExportsFailed, failure: "export dns is none",
		},
		"external, without an address yet": {
			spec:    kubenestv1.AddonSpec{Type: kubenestv1.AddonRedis, Exports: []kubenestv1.Export{{Name: "dsn", External: true}}},
			objects: `{apiVersion: v1, kind: Service, metadata: {name: r}, spec: {type: LoadBalancer, ports: [{port: 6379}]}}`,
			reason:  kubenestv1.ReasonWaitingForAddress, failure: "Service r waits",
		},
		"external": {
			spec:    kubenestv1.AddonSpec{Type: kubenestv1.AddonRedis, Exports: []kubenestv1.Export{{Name: "dsn", External: true}}},
			objects: `{apiVersion: v1, kind: Service, metadata: {name: r}, spec: {type: LoadBalancer, ports: [{port: 6379}]}, status: {loadBalancer: {ingress: [{ip: ` + external + `}]}}}`,
			want:    map[string]string{"host": external, "port": "6379", "dsn": "redis://" + external + ":6379/0"},
		},
		"external, inside only": {
			spec:    kubenestv1.AddonSpec{Type: kubenestv1.AddonRedis, Exports: []kubenestv1.Export{{Name: "dsn", External: true}}},
			objects: `{apiVersion: v1, kind: Service, metadata: {name: r}, spec: {ports: [{port: 6379}]}}`,
			reason:  kubenestv1.ReasonExportsFailed, failure: "LoadBalancer",
		},
		"external by an Ingress": {
			spec: kubenestv1.AddonSpec{Exports: []kubenestv1.Export{{Name: "api", External: true, ServiceRef: &kubenestv1.ServicePortReference{Name: "a"}}}},
			objects: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 8080}]}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {tls: [{hosts: [a.example.com]}], rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 8080}}}}]}}]}}`,
			want: map[string]string{"api": "a.example.com:443"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			objects := parsed(g, test.objects)
			f := &finder{client: fake.NewSimpleClientset(typed(objects)...), addon: addon(test.spec), objects: objects, release: "shop-db"}
			got, err := f.find(t.Context())
			if test.failure != "" {
				problem, ok := errors.AsType[*stack.Problem](err)
				g.Expect(ok).To(BeTrue(), "%v", err)
				g.Expect(problem.Reason).To(Equal(test.reason))
				g.Expect(problem.Message).To(ContainSubstring(test.failure))
				g.Expect(problem.Message).NotTo(Or(ContainSubstring("hidden"), ContainSubstring("first"), ContainSubstring("second")))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(test.want))
		})
	}
}

func TestTemplatesEnd(t *testing.T) {
	for text, want := range map[string]string{
		`{{ .secret }}{{ .nothing }}`:                                             ".nothing, which is no export",
		`{{ range 1000000000 }}x{{ end }}`:                                        "range",
		`{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`:           "define",
		`{{ printf "%1000000d" 1 }}`:                                              "over 16384 bytes",
		`{{ $x := "xxxxxxxxxx" }}` + strings.Repeat(`{{ $x = print $x $x }}`, 99): "over 16384 bytes",
		`{{ index .secret 99999 }}`:                                               "fails at",
		`{{ .secret | call }}`:                                                    "fails at",
		`{{ `:                                                                     "can not be read",
	} {
		t.Run(text[:min(len(text), 30)], func(t *testing.T) {
			g := NewWithT(t)
			_, err := execute(&kubenestv1.Export{Name: "x", Template: text}, map[string]string{"secret": "hunter2"}, "r", "n")
			g.Expect(err).To(MatchError(ContainSubstring(want)))
			g.Expect(err).NotTo(MatchError(ContainSubstring("hunter2")))
		})
	}
}

func FuzzDSN(f *testing.F) {
	f.Add("user", "p@ss:w/rd?#%", "data base")
	f.Add("", "[::1]", "")
	f.Add("ü", "\x00\n", "../..")
	f.Fuzz(func(t *testing.T, username, password, database string) {
		for of, scheme := range schemes {
			values := map[string]string{"host": "h.ns.svc", "port": "1234", "username": username, "password": password, "database": database}
			text := dsn(of, values)
			u, err := url.Parse(text)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if u.Scheme != scheme || u.Host != "h.ns.svc:1234" {
				t.Fatalf("%q has scheme %s, host %s", text, u.Scheme, u.Host)
			}
			if got, _ := u.User.Password(); got != password {
				t.Fatalf("password of %q is %q", text, got)
			}
			if password != "" && u.User.Username() != username {
				t.Fatalf("username of %q is %q", text, u.User.Username())
			}
			if of == kubenestv1.AddonPostgres && strings.TrimPrefix(u.Path, "/") != database {
				t.Fatalf("database of %q is %q", text, u.Path)
			}
		}
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add("{{ .a }}")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		got, err := execute(&kubenestv1.Export{Name: "x", Template: text}, map[string]string{"a": "b"}, "r", "n")
		if err == nil && len(got) > maxText {
			t.Fatalf("%d bytes", len(got))
		}
	})
}
