// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed crd/bases/*.yaml policy/*.yaml
var manifests embed.FS

// kustomization is the kind of the files that kubectl -k reads.
const kustomization = "Kustomization"

// load reads the objects in a folder of the embedded files.
func load(folder string) ([]*unstructured.Unstructured, error) {
	entries, err := manifests.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read embedded %s: %w", folder, err)
	}
	var objects []*unstructured.Unstructured
	for _, entry := range entries {
		data, err := manifests.ReadFile(path.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read embedded %s: %w", entry.Name(), err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("decode embedded %s: %w", entry.Name(), err)
			}
			if len(object.Object) > 0 && object.GetKind() != kustomization {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}
