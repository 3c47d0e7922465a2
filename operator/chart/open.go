// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"

	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// MaxUnpacked is how many bytes a chart may have unpacked: one that has more is a
// mistake, or made to fill the memory.
const MaxUnpacked = 50 << 20

// Open reads a packaged chart. Rendering changes a chart, so that each rendering
// needs one of its own. Errors are *stack.Problem.
func Open(packed []byte) (*helmchart.Chart, error) {
	if len(packed) > MaxPacked {
		return nil, unavailable("the chart has over %d MiB, which is the limit", MaxPacked>>20)
	}
	if err := checkSize(packed); err != nil {
		return nil, err
	}
	c, err := loader.LoadArchive(bytes.NewReader(packed))
	if err != nil {
		return nil, invalid("the chart can not be read: %v", err)
	}
	if err := c.Validate(); err != nil {
		return nil, invalid("the chart is not valid: %v", err)
	}
	if c.Metadata.Type != "" && c.Metadata.Type != "application" {
		return nil, invalid("chart %s is a %s chart: other charts use it, and it can not be installed by itself", c.Name(), c.Metadata.Type)
	}
	if missing := missingDependencies(c); len(missing) > 0 {
		return nil, invalid("chart %s has dependencies that are not in its package: %s. Run \"helm dependency update\" in its folder, and package it again",
			c.Name(), strings.Join(missing, ", "))
	}
	return c, nil
}

// checkSize unpacks without keeping anything.
func checkSize(packed []byte) error {
	unzip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return invalid("the chart is no package as \"helm package\" makes it (a .tgz)")
	}
	size, err := io.Copy(io.Discard, io.LimitReader(unzip, MaxUnpacked+1))
	switch {
	case size > MaxUnpacked:
		return invalid("the chart has over %d MiB when it is unpacked, which is the limit", MaxUnpacked>>20)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("the chart's package is cut off: package it again")
	case err != nil:
		return invalid("the chart's package is damaged: package it again")
	}
	return nil
}

func missingDependencies(c *helmchart.Chart) []string {
	var missing []string
	for _, wanted := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(d *helmchart.Chart) bool { return d.Name() == wanted.Name }) {
			missing = append(missing, wanted.Name)
		}
	}
	return missing
}

// checkVersion refuses a chart that is for other versions of Kubernetes.
func checkVersion(c *helmchart.Chart, kubernetes string) error {
	if want := c.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, kubernetes) {
		return invalid("chart %s wants Kubernetes %s, and this cluster is %s: use another version of the chart", Title(c), want, kubernetes)
	}
	return nil
}

// Title is a chart's name and version, as Helm shows them.
func Title(c *helmchart.Chart) string { return c.Name() + "-" + c.Metadata.Version }

func invalid(format string, args ...any) *stack.Problem {
	return stack.Refuse(kubenestv1.ReasonInvalid, format, args...)
}
