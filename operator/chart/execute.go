// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"path"
	"slices"
	"strings"

	helmcommon "helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"

	"github.com/kubenest/kubenest/operator/stack"
)

// capabilities of the cluster. What Helm works out of a version does not travel.
func (j *job) capabilities() *helmcommon.Capabilities {
	c := helmcommon.DefaultCapabilities.Copy()
	c.KubeVersion, c.APIVersions = j.KubeVersion, j.APIVersions
	if parsed, err := helmcommon.ParseKubeVersion(j.KubeVersion.Version); err == nil {
		c.KubeVersion = *parsed
	}
	return c
}

// render makes the objects of a chart, in the child.
func (j *job) render(ctx context.Context) (*Rendering, error) {
	c, err := Open(j.Packed)
	if err != nil {
		return nil, err
	}
	capabilities := j.capabilities()
	if err := checkVersion(c, capabilities.KubeVersion.String()); err != nil {
		return nil, err
	}
	r := &Rendering{Chart: Title(c), Name: c.Name(), Version: c.Metadata.Version, AppVersion: c.Metadata.AppVersion}
	files, err := j.execute(ctx, c, capabilities)
	if err != nil {
		return nil, err
	}
	size := 0
	names := make([]string, 0, len(files))
	for name, text := range files {
		size += len(text)
		names = append(names, name)
	}
	if size > MaxRendered {
		return nil, tooMuch(r.Chart)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") || strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		objects, err := Parse(name, files[name])
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			r.Manifests = append(r.Manifests, Manifest{File: name, Object: object})
		}
	}
	for _, crd := range c.CRDObjects() {
		objects, err := Parse(crd.Filename, string(crd.File.Data))
		if err != nil {
			return nil, err
		}
		r.Definitions = append(r.Definitions, objects...)
	}
	if len(r.Manifests)+len(r.Definitions) > maxObjects {
		return nil, invalid("chart %s makes over %d objects, which is the limit", r.Chart, maxObjects)
	}
	return r, nil
}

func tooMuch(chart string) *stack.Problem {
	return invalid("chart %s makes over %d MiB of objects, or objects of over %d values, which are the limits", chart, MaxRendered>>20, maxParts)
}

// execute runs the templates.
func (j *job) execute(ctx context.Context, c *helmchart.Chart, capabilities *helmcommon.Capabilities) (map[string]string, error) {
	values, err := CopyValues(j.Values)
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, invalid("the dependencies of chart %s can not be worked out: %v", c.Name(), err)
	}
	render, err := util.ToRenderValuesWithSchemaValidation(c, values, helmcommon.ReleaseOptions{
		Name: j.Release, Namespace: j.Namespace, Revision: j.Revision, IsInstall: j.Revision == 1, IsUpgrade: j.Revision > 1,
	}, capabilities, false)
	if err != nil {
		return nil, invalid("addonSpec.values do not fit chart %s: %s", c.Name(), Concealed(err, j.Values))
	}
	e := engine.Engine{CustomTemplateFuncs: functions()}
	files, err := e.RenderWithContext(ctx, c, render)
	if err != nil {
		return nil, invalid("the templates of chart %s fail: %s. Check addonSpec.values, or ask who made the chart", Title(c), Concealed(err, j.Values))
	}
	return files, nil
}
