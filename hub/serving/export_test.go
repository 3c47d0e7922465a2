// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubenest/kubenest/hub/secret"
)

// LookEvery is how often files are read.
const LookEvery = lookEvery

// FilesWithClock is Files by another clock.
func FilesWithClock(certFile, keyFile, caFile string, c clock.WithTicker) (*Source, error) {
	return newFiles(certFile, keyFile, caFile, c)
}

// SelfManagedWithClock is SelfManaged by another clock, with no records.
func SelfManagedWithClock(ctx context.Context, c client.WithWatch, ref types.NamespacedName, hosts []string, by clock.WithTicker) (*Source, error) {
	m := &selfManaged{
		vital: &secret.Vital{Client: c, Ref: ref, InUse: func(context.Context) (bool, error) { return false, nil }},
		hosts: hosts, clock: by,
	}
	return m.open(ctx)
}

// MakeAuthority makes the content of a CA's Secret.
func MakeAuthority(now time.Time) (map[string][]byte, error) { return makeAuthority(now) }

// Sign makes the PEM files of a serving certificate by the CA in data.
func Sign(data map[string][]byte, hosts []string, now time.Time) (cert, key []byte, err error) {
	ca, err := parseAuthority(data)
	if err != nil {
		return nil, nil, err
	}
	pair, err := ca.sign(hosts, now)
	if err != nil {
		return nil, nil, err
	}
	return encodePair(pair)
}
