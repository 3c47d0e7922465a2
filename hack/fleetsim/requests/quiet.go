// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// AwaitQuiet waits until for a while nothing but Leases was written, and no record
// read: Kubernetes' garbage collector reads each that is new, once. The error, when
// ctx ends, says what was asked last.
func AwaitQuiet(ctx context.Context, config *rest.Config, quiet time.Duration) error {
	ticker := time.NewTicker(quiet)
	defer ticker.Stop()
	last, err := Scrape(ctx, config)
	if err != nil {
		return err
	}
	var asked Counts
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the API server does not come to rest (asked last: %v): %w", asked, context.Cause(ctx))
		}
		now, err := Scrape(ctx, config)
		if err != nil {
			return err
		}
		asked = now.Since(last).Only(func(k Kind) bool {
			return k.Write() && !k.Lease() || k.Verb == "GET" && k.Group == kubenestv1.GroupVersion.Group
		})
		if len(asked) == 0 {
			return nil
		}
		last = now
	}
}
