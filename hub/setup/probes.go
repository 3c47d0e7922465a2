// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// addProbes adds /healthz, which says that the process serves, and /readyz,
// which says that it may be sent operators.
func (h *hub) addProbes() error {
	if err := h.manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add health check: %w", err)
	}
	checks := map[string]healthz.Checker{
		"caches": func(r *http.Request) error {
			if !h.manager.GetCache().WaitForCacheSync(r.Context()) {
				return errors.New("caches are not filled yet")
			}
			return nil
		},
		"lease": func(*http.Request) error {
			if !h.keeper.CanRenew() {
				return errors.New("the replica's Lease could not be renewed for a minute: is the API server reachable")
			}
			return nil
		},
		"leaving": func(*http.Request) error {
			if h.leaving.Load() {
				return errors.New("the replica is stopping")
			}
			return nil
		},
	}
	for name, check := range checks {
		if err := h.manager.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("add readiness check %s: %w", name, err)
		}
	}
	return nil
}
