// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// fetchImage fetches a chart from a registry, always by TLS. Credentials go to the
// registry, and to the token service that it names, which is how registries log in.
func fetchImage(ctx context.Context, oci, version string, access *Access) ([]byte, error) {
	where := oci + ":" + version
	repository, err := remote.NewRepository(strings.TrimPrefix(oci, "oci://"))
	if err != nil {
		return nil, unavailable("chart.oci %s is no reference, such as oci://registry.example.com/charts/postgresql", oci)
	}
	client, err := newClient(access, true)
	if err != nil {
		return nil, err
	}
	login := &auth.Client{Client: client, Cache: auth.NewCache()}
	if access.Username+access.Password != "" {
		login.Credential = auth.StaticCredential(repository.Reference.Registry,
			auth.Credential{Username: access.Username, Password: access.Password})
	}
	repository.Client, repository.MaxMetadataBytes = login, maxManifest

	tag := strings.ReplaceAll(version, "+", "_") // as Helm does: a tag can not have a plus
	descriptor, body, err := repository.FetchReference(ctx, tag)
	if err != nil {
		return nil, refusedByRegistry(where, err, access)
	}
	defer func() { _ = body.Close() }()
	if descriptor.Size > maxManifest {
		return nil, tooLarge("the manifest", where, maxManifest)
	}
	text, err := content.ReadAll(body, descriptor)
	if err != nil {
		return nil, refusedByRegistry(where, err, access)
	}
	layer, err := chartLayer(where, text)
	if err != nil {
		return nil, err
	}
	blob, err := repository.Blobs().Fetch(ctx, *layer)
	if err != nil {
		return nil, refusedByRegistry(where, err, access)
	}
	defer func() { _ = blob.Close() }()
	data, err := content.ReadAll(io.LimitReader(blob, MaxPacked+1), *layer) // verifies size and digest
	if err != nil {
		return nil, refusedByRegistry(where, err, access)
	}
	return data, nil
}

// chartLayer finds the chart in a manifest.
func chartLayer(where string, text []byte) (*ocispec.Descriptor, error) {
	var manifest ocispec.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, unavailable("%s has a manifest that can not be read", where)
	}
	i := slices.IndexFunc(manifest.Layers, func(d ocispec.Descriptor) bool {
		return d.MediaType == helmregistry.ChartLayerMediaType || d.MediaType == helmregistry.LegacyChartLayerMediaType
	})
	switch {
	case i < 0:
		return nil, unavailable("%s is no Helm chart, but something else: check chart.oci", where)
	case manifest.Layers[i].Size > MaxPacked:
		return nil, tooLarge("the chart", where, MaxPacked)
	}
	return &manifest.Layers[i], nil
}

// refusedByRegistry says in words what a registry's error means.
func refusedByRegistry(where string, err error, access *Access) error {
	answer, answered := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case errors.Is(err, errdef.ErrNotFound), answered && answer.StatusCode == http.StatusNotFound:
		return unavailable("%s: the registry has no such chart or version: check chart.oci and chart.version", where)
	case answered:
		return refused(where, answer.StatusCode, access)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return refused(where, http.StatusUnauthorized, access)
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData), errors.Is(err, content.ErrInvalidDescriptorSize):
		return unavailable("%s: what came is not what its manifest lists: it was changed on the way, or the registry is broken", where)
	}
	return unreachable(where, err)
}
