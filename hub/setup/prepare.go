// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/config"
	"github.com/kubenest/kubenest/hub/serving"
	"github.com/kubenest/kubenest/hub/token/store"
)

// retryEvery is how often the API server is tried while it is not there.
const retryEvery = 2 * time.Second

// patiently runs a step again until the API server is there. An error that is
// the API server's own answer is not worth a second try.
func (h *hub) patiently(ctx context.Context, what string, step func(context.Context) error) error {
	err := wait.PollUntilContextCancel(ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
		err := step(log.IntoContext(ctx, h.log))
		if err == nil {
			return true, nil
		}
		if !unavailable(err) {
			return false, err
		}
		h.log.Info("Management API server is not available, trying again", "while", what, "reason", err.Error())
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// unavailable reports whether an error may go away by waiting: nobody answered,
// or the API server said that it cannot answer now.
func unavailable(err error) bool {
	var answered apierrors.APIStatus
	if errors.As(err, &answered) {
		return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
			apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
	}
	var network net.Error
	return errors.As(err, &network)
}

// prepare applies the CRDs and policies of this version.
func (h *hub) prepare(ctx context.Context) error {
	if err := h.patiently(ctx, "apply CRDs", func(ctx context.Context) error {
		return config.ApplyCRDs(ctx, h.direct)
	}); err != nil {
		return err
	}
	return h.patiently(ctx, "apply admission policies", func(ctx context.Context) error {
		return config.ApplyPolicies(ctx, h.direct)
	})
}

// openKeys reads the signing keys, or makes them on the very first start.
func (h *hub) openKeys(ctx context.Context) error {
	return h.patiently(ctx, "open signing keys", func(ctx context.Context) error {
		keys, err := store.Open(ctx, h.direct, h.ownObject(store.DefaultSecret), h.recordsExist)
		if err != nil {
			return err
		}
		h.keys = keys
		return nil
	})
}

// recordsExist reports whether any record has an id, whose operator only the
// keys that signed its token can let in.
func (h *hub) recordsExist(ctx context.Context) (bool, error) {
	next := ""
	for {
		var page kubenestv1.ManagedClusterList
		if err := h.direct.List(ctx, &page, client.Limit(500), client.Continue(next)); err != nil {
			return false, fmt.Errorf("list clusters: %w", err)
		}
		for i := range page.Items {
			if page.Items[i].Status.ClusterID != "" || page.Items[i].Spec.ClusterID != "" {
				return true, nil
			}
		}
		if next = page.Continue; next == "" {
			return false, nil
		}
	}
}

// openTLS opens the serving certificate: from files, or of the hub's own CA.
func (h *hub) openTLS(ctx context.Context) error {
	o := &h.options.Server
	switch {
	case o.PlainHTTP:
		h.log.Info("Serving without TLS: only a proxy that terminates it may reach this address", "address", o.Address)
		return nil
	case o.CertFile != "":
		source, err := serving.Files(o.CertFile, o.KeyFile, o.CAFile)
		if err != nil {
			return err
		}
		h.tls = source
		return nil
	}
	return h.patiently(ctx, "open the hub's own CA", func(ctx context.Context) error {
		source, err := serving.SelfManaged(ctx, h.direct, h.ownObject(serving.DefaultSecret), o.hosts(), h.recordsExist)
		if err != nil {
			return err
		}
		h.tls = source
		return nil
	})
}

func (h *hub) ownObject(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: h.options.Cluster.Namespace, Name: name}
}
