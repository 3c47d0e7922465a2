// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	helmcommon "helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
)

// Limits of what a chart may make.
const (
	// MaxRendered is how many bytes all objects of a chart may have.
	MaxRendered = 5 << 20
	// maxObjects is how many objects a chart may have.
	maxObjects = 1000
)

// Annotations of Helm's hooks.
const hookAnnotation = "helm.sh/hook"

// Options say for which release a chart is rendered.
type Options struct {
	Release   string
	Namespace string
	// Revision of the release that this will be, counted from 1.
	Revision int
	Values   map[string]any
	// Capabilities of the cluster.
	Capabilities *helmcommon.Capabilities
	// Config to look things up with.
	Config *rest.Config
}

// Manifest is one object that a chart makes.
type Manifest struct {
	// File is the template that it comes from.
	File   string
	Object *unstructured.Unstructured
}

// HookEvents are those that a manifest is a hook for; none for all others.
func (m *Manifest) HookEvents() []string {
	text, ok := m.Object.GetAnnotations()[hookAnnotation]
	if !ok {
		return nil
	}
	var events []string
	for event := range strings.SplitSeq(text, ",") {
		events = append(events, strings.ToLower(strings.TrimSpace(event)))
	}
	return events
}

// Rendering is what a chart makes.
type Rendering struct {
	// Chart and its version.
	Chart string
	// Manifests of the templates, hooks among them, in the order of their files.
	Manifests []Manifest
	// Definitions are those in the chart's folder crds.
	Definitions []*unstructured.Unstructured
}

// Render makes the objects of a chart. Generated values are new each time: see
// Settle. Errors are *stack.Problem, and hold no values, except those that a chart's
// own words repeat.
func Render(ctx context.Context, packed []byte, o *Options) (*Rendering, error) {
	c, err := Open(packed)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(c, o.Capabilities.KubeVersion.String()); err != nil {
		return nil, err
	}
	files, err := execute(ctx, c, o)
	if err != nil {
		return nil, err
	}
	r := &Rendering{Chart: Title(c)}
	size := 0
	names := make([]string, 0, len(files))
	for name, text := range files {
		size += len(text)
		names = append(names, name)
	}
	if size > MaxRendered {
		return nil, invalid("chart %s makes over %d MiB of objects, which is the limit", r.Chart, MaxRendered>>20)
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

// execute runs the templates.
func execute(ctx context.Context, c *helmchart.Chart, o *Options) (map[string]string, error) {
	values, err := CopyValues(o.Values)
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, invalid("the dependencies of chart %s can not be worked out: %v", c.Name(), err)
	}
	render, err := util.ToRenderValuesWithSchemaValidation(c, values, helmcommon.ReleaseOptions{
		Name: o.Release, Namespace: o.Namespace, Revision: o.Revision, IsInstall: o.Revision == 1, IsUpgrade: o.Revision > 1,
	}, o.Capabilities, false)
	if err != nil {
		return nil, invalid("addonSpec.values do not fit chart %s: %s", c.Name(), Concealed(err, o.Values))
	}
	e := engine.Engine{}
	if o.Config != nil {
		e = engine.New(o.Config)
	}
	e.CustomTemplateFuncs = Functions()
	files, err := e.RenderWithContext(ctx, c, render)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("render chart %s: %w", c.Name(), ctx.Err())
	case err != nil:
		return nil, invalid("the templates of chart %s fail: %s. Check addonSpec.values, or ask who made the chart", Title(c), Concealed(err, o.Values))
	}
	return files, nil
}

// Parse reads the objects of one rendered file, or of a release's manifest. Lists are taken apart, and a Secret's
// stringData becomes its data, so that it can be compared.
func Parse(file, text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := releaseutil.SplitManifests(text)
	keys := make([]string, 0, len(documents))
	for key := range documents {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return len(a)*1e6 - len(b)*1e6 + strings.Compare(a, b) }) // manifest-2 before manifest-10
	for _, key := range keys {
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(documents[key]), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, invalid("%s makes something that is no YAML%s: check addonSpec.values, or ask who made the chart", file, lineOf(err))
			}
			if len(object.Object) == 0 {
				continue
			}
			more, err := flatten(file, object)
			if err != nil {
				return nil, err
			}
			objects = append(objects, more...)
		}
	}
	return objects, nil
}

func flatten(file string, o *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if o.GetKind() == "" || o.GetAPIVersion() == "" {
		return nil, invalid("%s makes an object without kind or apiVersion", file)
	}
	if o.IsList() {
		var objects []*unstructured.Unstructured
		err := o.EachListItem(func(item runtime.Object) error {
			each, ok := item.(*unstructured.Unstructured)
			if !ok {
				return invalid("%s makes a list of something that is no object", file)
			}
			more, err := flatten(file, each)
			objects = append(objects, more...)
			return err
		})
		return objects, err
	}
	if o.GetName() == "" && o.GetGenerateName() == "" {
		return nil, invalid("%s makes a %s without a name", file, o.GetKind())
	}
	if o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" {
		encodeSecret(o)
	}
	return []*unstructured.Unstructured{o}, nil
}

// encodeSecret does to stringData what the API server does.
func encodeSecret(o *unstructured.Unstructured) {
	plain, found, err := unstructured.NestedStringMap(o.Object, "stringData")
	if err != nil || !found {
		return // the API server says what is wrong with it
	}
	data, _, err := unstructured.NestedMap(o.Object, "data")
	if err != nil {
		return
	}
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range plain {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	o.Object["data"] = data
	delete(o.Object, "stringData")
}
