// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/kubenest/kubenest/api/socket"
)

// acceptor has each stream of a session served; nil if this operator takes none.
func (a *Agent) acceptor(ctx context.Context) func(*socket.Stream) {
	if a.o.Streams == nil {
		return nil
	}
	return func(stream *socket.Stream) {
		ctx, cancel := context.WithCancel(ctx)
		a.metrics.streams.Inc()
		a.metrics.streamsAccepted.Inc()
		a.streams.Go(func() { // the session's end does not wait for this
			select {
			case <-stream.Done():
				cancel()
			case <-ctx.Done():
			}
		})
		a.streams.Go(func() {
			defer a.metrics.streams.Dec()
			defer cancel()
			a.o.Streams(ctx, stream)
			_ = stream.Close() // if it fails, the session has ended
		})
	}
}
