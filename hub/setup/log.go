// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"log"
	"strings"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// quietLog takes net/http's log. Anybody who can reach the port can cause these
// lines, a port scan as well as a health check of a balancer, so they are debug.
func quietLog(to logr.Logger) *log.Logger {
	return log.New(httpLog{to}, "", 0)
}

type httpLog struct{ to logr.Logger }

func (l httpLog) Write(line []byte) (int, error) {
	l.to.V(1).Info("Connection failed", "reason", strings.TrimSpace(string(line)))
	return len(line), nil
}

// Logger makes the program's logger: JSON lines on standard error. An unknown
// level, which Validate refuses, logs everything.
func Logger(level string) logr.Logger {
	l, err := zapcore.ParseLevel(level)
	if err != nil {
		l = zapcore.DebugLevel
	}
	return zap.New(zap.Level(l), zap.UseDevMode(false), func(o *zap.Options) { o.TimeEncoder = zapcore.RFC3339TimeEncoder })
}
