// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	helmcommon "helm.sh/helm/v4/pkg/chart/common"

	"github.com/kubenest/kubenest/operator/stack"
)

func TestMain(m *testing.M) {
	if code, ok := Child(context.Background(), os.Args, os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// pack packages a chart called c.
func pack(tb testing.TB, files map[string]string) []byte {
	tb.Helper()
	g := NewWithT(tb)
	all := map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n"}
	maps.Copy(all, files)
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		g.Expect(archive.WriteHeader(&tar.Header{Name: "c/" + name, Mode: 0o644, Size: int64(len(all[name]))})).To(Succeed())
		_, err := io.WriteString(archive, all[name])
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(archive.Close()).To(Succeed())
	g.Expect(zip.Close()).To(Succeed())
	return out.Bytes()
}

func options(values map[string]any) *Options {
	c := helmcommon.DefaultCapabilities.Copy()
	c.KubeVersion = helmcommon.KubeVersion{Version: "v1.37.0", Major: "1", Minor: "37"}
	return &Options{Release: "shop-db", Namespace: "shop", Revision: 1, Values: values, Capabilities: c}
}

// problem is the reason and the words of an error.
func problem(tb testing.TB, err error) (string, string) {
	tb.Helper()
	p, ok := errors.AsType[*stack.Problem](err)
	if !ok {
		tb.Fatalf("no Problem: %v", err)
	}
	return p.Reason, p.Message
}
