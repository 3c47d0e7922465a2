// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
)

// helmLog passes on what Helm logs, without what may hold values or manifests: its
// errors quote both.
type helmLog struct{ log logr.Logger }

// Enabled asks the logger.
func (h *helmLog) Enabled(context.Context, slog.Level) bool { return h.log.Enabled() }

// Handle logs the first words of the message, and what says where.
func (h *helmLog) Handle(_ context.Context, r slog.Record) error {
	words, _, _ := strings.Cut(r.Message, ":")
	values := []any{"said", words}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "name", "namespace", "kind", "gvk", "release", "count", "resources", "version", "currentVersion", "targetVersion", "timeout":
			values = append(values, a.Key, a.Value.String())
		}
		return true
	})
	h.log.Info("Helm", values...)
	return nil
}

// WithAttrs drops them: those that Helm adds this way say where, and so do the others.
func (h *helmLog) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup drops the group.
func (h *helmLog) WithGroup(string) slog.Handler { return h }

// discard is where the output of hooks goes: the pods have it.
func discard(string, string, string) io.Writer { return io.Discard }
