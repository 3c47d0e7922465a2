// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package shop_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	helmcommon "helm.sh/helm/v4/pkg/chart/common"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/chart"
)

var update = flag.Bool("update", false, "package the charts again: go test ./config/samples/shop -update")

const (
	packaged = "chart-postgres.yaml"
	source   = "charts/postgres"
	key      = "postgres-0.1.0.tgz"
)

const configMap = `# Copyright 2026 The kubenest Authors.
# SPDX-License-Identifier: Apache-2.0

# The chart in charts/postgres, packaged by "go test ./config/samples/shop -update". For a chart of your own:
#   helm package mychart && kubectl create configmap mychart --from-file=mychart-1.0.0.tgz
#   kubectl label configmap mychart kubenest.io/chart=true
apiVersion: v1
kind: ConfigMap
metadata:
  name: chart-postgres
  namespace: platform
  labels:
    kubenest.io/chart: "true"
binaryData:
  %s: %s
`

func TestMain(m *testing.M) {
	if code, ok := chart.Child(context.Background(), os.Args, os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// files of the chart, by their path in its package.
func files(g Gomega) map[string]string {
	found := map[string]string{}
	g.Expect(filepath.WalkDir(source, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		inside, _ := filepath.Rel(filepath.Dir(source), name)
		found[filepath.ToSlash(inside)] = string(text)
		return err
	})).To(Succeed())
	return found
}

// pack makes the same bytes of the same files.
func pack(g Gomega, files map[string]string) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	names := []string{"postgres/Chart.yaml", "postgres/values.yaml"}
	for name := range files {
		if path.Dir(name) != "postgres" {
			names = append(names, name)
		}
	}
	g.Expect(names).To(HaveLen(len(files)))
	slices.Sort(names[2:])
	for _, name := range names {
		g.Expect(archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Format: tar.FormatUSTAR})).To(Succeed())
		_, err := io.WriteString(archive, files[name])
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(archive.Close()).To(Succeed())
	g.Expect(zip.Close()).To(Succeed())
	return out.Bytes()
}

func TestPackagedChartIsTheSource(t *testing.T) {
	g := NewWithT(t)
	want := files(g)
	if *update {
		text := fmt.Sprintf(configMap, key, base64.StdEncoding.EncodeToString(pack(g, want)))
		g.Expect(os.WriteFile(packaged, []byte(text), 0o644)).To(Succeed())
	}
	text, err := os.ReadFile(packaged)
	g.Expect(err).NotTo(HaveOccurred())
	var m corev1.ConfigMap
	g.Expect(yaml.UnmarshalStrict(text, &m)).To(Succeed())
	g.Expect(m.Labels).To(HaveKeyWithValue(kubenestv1.ChartLabel, "true"))
	g.Expect(m.BinaryData).To(HaveLen(1))

	zip, err := gzip.NewReader(bytes.NewReader(m.BinaryData[key]))
	g.Expect(err).NotTo(HaveOccurred())
	archive := tar.NewReader(zip)
	got := map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(archive)
		g.Expect(err).NotTo(HaveOccurred())
		got[header.Name] = string(content)
	}
	g.Expect(got).To(Equal(want), "package it again: go test ./config/samples/shop -update")

	c, err := chart.Open(m.BinaryData[key])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chart.Title(c)).To(Equal("postgres-0.1.0"))

	for _, values := range []map[string]any{nil, {"persistence": map[string]any{"enabled": true}, "resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}}} {
		rendering, err := chart.Render(t.Context(), m.BinaryData[key], &chart.Options{
			Release: "shop-postgres", Namespace: "shop", Revision: 1, Values: values, Capabilities: helmcommon.DefaultCapabilities,
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(rendering.Manifests).To(HaveLen(3))
		for i := range rendering.Manifests {
			g.Expect(rendering.Manifests[i].Object.GetName()).To(Equal("shop-postgres"))
		}
	}
}

func TestSamplesAreStrict(t *testing.T) {
	g := NewWithT(t)
	for file, into := range map[string]any{"project.yaml": &kubenestv1.Project{}, "shop.yaml": &kubenestv1.App{}} {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(yaml.UnmarshalStrict(text, into)).To(Succeed(), file)
	}
}
