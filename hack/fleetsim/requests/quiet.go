// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
)

// AwaitQuiet waits until nothing but Leases was written for a while. The error, when
// ctx ends, says what was written last.
func AwaitQuiet(ctx context.Context, config *rest.Config, quiet time.Duration) error {
	ticker := time.NewTicker(quiet)
	defer ticker.Stop()
	last, err := Scrape(ctx, config)
	if err != nil {
		return err
	}
	var written Counts
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the API server does not come to rest (written last: %v): %w", written, context.Cause(ctx))
		}
		now, err := Scrape(ctx, config)
		if err != nil {
			return err
		}
		written = now.Since(last).Only(func(k Kind) bool { return k.Write() && !k.Lease() })
		if len(written) == 0 {
			return nil
		}
		last = now
	}
}
