// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	helmregistry "helm.sh/helm/v4/pkg/registry"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// site serves files by TLS to whoever has the password.
type site struct {
	*httptest.Server
	ca       []byte
	password string
	requests atomic.Int32
	leaked   atomic.Bool // credentials came though none are wanted
	files    map[string]func(http.ResponseWriter)
}

func serve(t *testing.T, password string) *site {
	t.Helper()
	s := &site{password: password, files: map[string]func(http.ResponseWriter){}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		username, given, sent := r.BasicAuth()
		s.leaked.Store(s.leaked.Load() || (sent && s.password == ""))
		if s.password != "" && (username != "me" || given != s.password) {
			w.Header().Set("Www-Authenticate", `Basic realm="charts"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		file, ok := s.files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		file(w)
	}))
	t.Cleanup(s.Close)
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s
}

func (s *site) put(path string, data []byte) {
	s.files[path] = func(w http.ResponseWriter) { _, _ = w.Write(data) }
}

// index lists a chart of some digest under a URL.
func (s *site) index(at, digest string) {
	s.put("/stable/index.yaml", fmt.Appendf(nil, "apiVersion: v1\nentries:\n  c:\n  - version: 1.0.0\n    digest: %q\n    urls: [%q]\n  - version: 0.9.0\n    urls: [x]\n", digest, at))
}

func (s *site) chart(version string) *kubenestv1.Chart {
	return &kubenestv1.Chart{Repo: s.URL + "/stable", Name: "c", Version: version}
}

// image puts a chart into the registry.
func (s *site) image(name, tag string, layer []byte, mediaType string) {
	config := []byte("{}")
	manifest, _ := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": map[string]any{"mediaType": helmregistry.ConfigMediaType, "digest": "sha256:" + checksum(config), "size": len(config)},
		"layers": []any{map[string]any{"mediaType": mediaType, "digest": "sha256:" + checksum(layer), "size": len(layer)}},
	})
	for _, ref := range []string{tag, "sha256:" + checksum(manifest)} {
		s.files["/v2/"+name+"/manifests/"+ref] = func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", "sha256:"+checksum(manifest))
			_, _ = w.Write(manifest)
		}
	}
	s.put("/v2/"+name+"/blobs/sha256:"+checksum(layer), layer)
}

func (s *site) oci(name string) string {
	u, _ := url.Parse(s.URL)
	return "oci://" + u.Host + "/" + name
}

func TestFetchFromRepository(t *testing.T) {
	g := NewWithT(t)
	packed := pack(t, nil)
	s := serve(t, "s3cret")
	s.index("charts/c-1.0.0.tgz", checksum(packed))
	s.put("/stable/charts/c-1.0.0.tgz", packed)
	access := &Access{Username: "me", Password: "s3cret", CA: s.ca}
	f := NewFetcher()
	g.Expect(f.Fetch(t.Context(), s.chart("1.0.0"), access)).To(Equal(packed))
	before := s.requests.Load()
	g.Expect(f.Fetch(t.Context(), s.chart("1.0.0"), access)).To(Equal(packed))
	g.Expect(s.requests.Load()).To(Equal(before), "it is kept")

	_, err := f.Fetch(t.Context(), s.chart("1.0.0"), &Access{CA: s.ca})
	reason, words := problem(t, err)
	g.Expect(reason).To(Equal(kubenestv1.ReasonChartUnavailable))
	g.Expect(words).To(And(ContainSubstring("401"), ContainSubstring("chart.secretRef"), ContainSubstring(s.URL)), "nobody gets what others have fetched")

	_, err = f.Fetch(t.Context(), s.chart("1.0.0"), &Access{Username: "me", Password: "wr0ng", CA: s.ca})
	_, words = problem(t, err)
	g.Expect(words).To(ContainSubstring("not accepted"))
	g.Expect(words).NotTo(Or(ContainSubstring("wr0ng"), ContainSubstring("s3cret")))

	_, err = f.Fetch(t.Context(), s.chart("1.0.0"), &Access{Username: "me", Password: "s3cret"})
	_, words = problem(t, err)
	g.Expect(words).To(ContainSubstring("ca.crt"))
	_, err = f.Fetch(t.Context(), s.chart("1.0.0"), &Access{CA: []byte("none")})
	_, words = problem(t, err)
	g.Expect(words).To(ContainSubstring("no certificate"))
	_, err = f.Fetch(t.Context(), s.chart("2.0.0"), access)
	_, words = problem(t, err)
	g.Expect(words).To(ContainSubstring("no version 2.0.0 of chart c: it has 1.0.0, 0.9.0"))
	_, err = f.Fetch(t.Context(), s.chart("0.9.0"), access)
	_, words = problem(t, err)
	g.Expect(words).To(ContainSubstring("404"))
}

func TestFetchWaitsForNobodyElsesRepository(t *testing.T) {
	g, slow, s := NewWithT(t), serve(t, ""), serve(t, "")
	packed := pack(t, nil)
	s.index("c.tgz", checksum(packed))
	s.put("/stable/c.tgz", packed)
	asked, answer := make(chan struct{}), make(chan struct{})
	slow.files["/stable/index.yaml"] = func(http.ResponseWriter) {
		close(asked)
		<-answer
	}
	f, ended := NewFetcher(), make(chan error, 1)
	go func() {
		_, err := f.Fetch(t.Context(), slow.chart("1.0.0"), &Access{CA: slow.ca})
		ended <- err
	}()
	<-asked
	g.Expect(f.Fetch(t.Context(), s.chart("1.0.0"), &Access{CA: s.ca})).To(Equal(packed))
	close(answer)
	g.Expect(<-ended).To(HaveOccurred())
}

func TestFetchRefuses(t *testing.T) {
	packed := pack(t, nil)
	t.Run("another chart than the index lists", func(t *testing.T) {
		g, s := NewWithT(t), serve(t, "")
		s.index("c.tgz", checksum([]byte("other")))
		s.put("/stable/c.tgz", packed)
		_, err := NewFetcher().Fetch(t.Context(), s.chart("1.0.0"), &Access{CA: s.ca})
		_, words := problem(t, err)
		g.Expect(words).To(ContainSubstring("not the one that its repository lists"))
	})
	t.Run("to send credentials elsewhere", func(t *testing.T) {
		g, s, other := NewWithT(t), serve(t, "pw"), serve(t, "")
		other.put("/c.tgz", packed)
		s.index(other.URL+"/c.tgz", "")
		g.Expect(NewFetcher().Fetch(t.Context(), s.chart("1.0.0"), &Access{Username: "me", Password: "pw", CA: s.ca})).To(Equal(packed))
		g.Expect(other.requests.Load()).To(BeEquivalentTo(1))
		g.Expect(other.leaked.Load()).To(BeFalse())
	})
	t.Run("to follow without TLS", func(t *testing.T) {
		g, s := NewWithT(t), serve(t, "")
		s.index("c.tgz", "")
		s.files["/stable/c.tgz"] = func(w http.ResponseWriter) {
			w.Header().Set("Location", strings.Replace(s.URL, "https", "http", 1))
			w.WriteHeader(http.StatusFound)
		}
		_, err := NewFetcher().Fetch(t.Context(), s.chart("1.0.0"), &Access{CA: s.ca})
		_, words := problem(t, err)
		g.Expect(words).To(ContainSubstring("without TLS"))
	})
	t.Run("a chart without end", func(t *testing.T) {
		g, s := NewWithT(t), serve(t, "")
		s.index("c.tgz", "")
		s.put("/stable/c.tgz", make([]byte, MaxPacked+1))
		_, err := NewFetcher().Fetch(t.Context(), s.chart("1.0.0"), &Access{CA: s.ca})
		_, words := problem(t, err)
		g.Expect(words).To(ContainSubstring("over 10 MiB"))
	})
	t.Run("what is no index", func(t *testing.T) {
		g, s := NewWithT(t), serve(t, "")
		s.put("/stable/index.yaml", []byte("<html>"))
		_, err := NewFetcher().Fetch(t.Context(), s.chart("1.0.0"), &Access{CA: s.ca})
		_, words := problem(t, err)
		g.Expect(words).To(ContainSubstring("no index"))
	})
	t.Run("to repeat what another service says", func(t *testing.T) {
		g := NewWithT(t)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		g.Expect(err).NotTo(HaveOccurred())
		defer listener.Close()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "-ERR hunter2 is the password\r\n\r\n")
				_ = conn.Close()
			}
		}()
		for _, scheme := range []string{"http", "https"} {
			_, err = NewFetcher().Fetch(t.Context(), &kubenestv1.Chart{Repo: scheme + "://" + listener.Addr().String(), Name: "c", Version: "1.0.0"}, &Access{})
			_, words := problem(t, err)
			g.Expect(words).To(ContainSubstring("can not be reached"))
			g.Expect(words).NotTo(ContainSubstring("hunter2"))
		}
	})
	t.Run("nobody at all", func(t *testing.T) {
		g, s := NewWithT(t), serve(t, "")
		s.Close()
		_, err := NewFetcher().Fetch(t.Context(), s.chart("1.0.0"), &Access{})
		_, words := problem(t, err)
		g.Expect(words).To(ContainSubstring("can not be reached"))
	})
}

func TestFetchImage(t *testing.T) {
	g := NewWithT(t)
	packed := pack(t, nil)
	s := serve(t, "s3cret")
	s.image("charts/c", "1.0.0_build", packed, helmregistry.ChartLayerMediaType)
	s.image("charts/c", "2.0.0", []byte("something"), "text/plain")
	access := &Access{Username: "me", Password: "s3cret", CA: s.ca}
	f := NewFetcher()
	at := func(version string) *kubenestv1.Chart {
		return &kubenestv1.Chart{OCI: s.oci("charts/c"), Version: version}
	}
	g.Expect(f.Fetch(t.Context(), at("1.0.0+build"), access)).To(Equal(packed))
	for version, want := range map[string]string{"2.0.0": "no Helm chart", "3.0.0": "no such chart or version"} {
		_, err := f.Fetch(t.Context(), at(version), access)
		reason, words := problem(t, err)
		g.Expect(reason).To(Equal(kubenestv1.ReasonChartUnavailable))
		g.Expect(words).To(And(ContainSubstring(want), ContainSubstring(s.oci("charts/c")+":"+version)))
	}
	_, err := f.Fetch(t.Context(), at("2.0.0"), &Access{CA: s.ca})
	_, words := problem(t, err)
	g.Expect(words).To(ContainSubstring("wants credentials"))
	_, err = f.Fetch(t.Context(), at("2.0.0"), &Access{Username: "me", Password: "wr0ng", CA: s.ca})
	_, words = problem(t, err)
	g.Expect(words).To(ContainSubstring("not accepted"))
	g.Expect(words).NotTo(ContainSubstring("wr0ng"))

	s.put("/v2/charts/c/blobs/sha256:"+checksum(packed), []byte(strings.Repeat("x", len(packed))))
	_, err = NewFetcher().Fetch(t.Context(), at("1.0.0+build"), access)
	_, words = problem(t, err)
	g.Expect(words).To(ContainSubstring("changed on the way"))
}

func TestCacheIsBounded(t *testing.T) {
	g := NewWithT(t)
	c := newCache()
	for i := range 10 {
		c.put(fmt.Sprint(i), make([]byte, cacheSize/4))
	}
	g.Expect(c.size).To(BeNumerically("<=", cacheSize))
	_, ok := c.get("0")
	g.Expect(ok).To(BeFalse())
	_, ok = c.get("9")
	g.Expect(ok).To(BeTrue())
}
