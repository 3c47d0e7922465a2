// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	helmcommon "helm.sh/helm/v4/pkg/chart/common"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
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
	// Chart and its version, as Helm shows them.
	Chart string
	// Name, Version and AppVersion of the chart.
	Name, Version, AppVersion string
	// Manifests of the templates, hooks among them, in the order of their files.
	Manifests []Manifest
	// Definitions are those in the chart's folder crds.
	Definitions []*unstructured.Unstructured
}

// Render makes the objects of a chart, in a process of its own: a template of one line
// can run for ever and take all memory, and nothing but the end of its process stops it.
// The program has to call Child first of all. Generated values are new each time: see
// Settle. Errors are *stack.Problem, and hold no values, except those that a chart's own
// words repeat.
func Render(ctx context.Context, packed []byte, o *Options) (*Rendering, error) {
	if len(packed) > MaxPacked {
		return nil, unavailable("the chart has over %d MiB, which is the limit", MaxPacked>>20)
	}
	j := job{Packed: packed, Release: o.Release, Namespace: o.Namespace, Revision: o.Revision, Values: o.Values}
	j.KubeVersion, j.APIVersions = o.Capabilities.KubeVersion, o.Capabilities.APIVersions
	text, err := json.Marshal(&j)
	if err != nil {
		return nil, fmt.Errorf("encode values: %w", err)
	}
	text, err = ask(ctx, text, renderTimeout)
	if err != nil {
		return nil, err
	}
	var a answer
	switch err := json.Unmarshal(text, &a); {
	case err != nil:
		return nil, fmt.Errorf("read what the chart makes: %w", err)
	case a.Problem != nil:
		return nil, a.Problem
	case a.Rendering == nil:
		return nil, errors.New("read what the chart makes: there is no answer")
	}
	return a.Rendering, nil
}

// ask runs a child, which has nothing of this process: no environment, and no open
// files. It is killed at the timeout, and when ctx ends.
func ask(ctx context.Context, text []byte, timeout time.Duration) ([]byte, error) {
	if isChild(os.Args) {
		return nil, errors.New("render chart: this process is a child, and has not called Child")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out output
	cmd := exec.CommandContext(bounded, self, childCommand) //nolint:gosec // it is this program
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{}, "/", time.Second
	cmd.Stdin, cmd.Stdout = bytes.NewReader(text), &out // what it says of its end may quote values
	err = cmd.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("render chart: %w", ctx.Err())
	case bounded.Err() != nil:
		return nil, invalid("the chart's templates take more than %s to render, which is the limit: check addonSpec.values, or ask who made the chart", timeout)
	case ended && exit.ExitCode() != exitFailed:
		return nil, invalid("the chart's templates take more than %d MiB of memory to render, which is the limit: check addonSpec.values, or ask who made the chart",
			renderMemory>>20)
	}
	return nil, fmt.Errorf("render chart: %w", err)
}

// output is what a child may say.
type output struct{ bytes.Buffer }

// Write keeps it up to the limit, which a child keeps to.
func (o *output) Write(text []byte) (int, error) {
	if o.Len()+len(text) > maxAnswer {
		return 0, errors.New("the answer is over the limit")
	}
	return o.Buffer.Write(text)
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
