// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubenest/kubenest/hub/secret"
)

// DefaultSecret is the usual name of the CA's Secret, in the hub's namespace.
const DefaultSecret = "kubenest-hub-ca" //nolint:gosec // a name

// Keys of the Secret.
const (
	// KeyCertificate and KeyPrivateKey are the CA that signs.
	KeyCertificate = corev1.TLSCertKey
	KeyPrivateKey  = corev1.TLSPrivateKeyKey
	// KeyBundle holds every CA that operators are to accept, the signing one
	// included.
	KeyBundle = "ca.crt"
)

// selfManaged makes serving certificates of a CA that is kept in a Secret.
type selfManaged struct {
	vital *secret.Vital
	hosts []string
	clock clock.WithTicker

	mu sync.Mutex // between the follower and the renewal
	ca *authority
}

// SelfManaged makes a Source of the hub's own CA. The CA is made once, into the
// Secret ref, and shared by all replicas; the serving certificate is made by
// each replica in memory, for hosts (names or IP addresses), and renewed.
//
// It refuses to start when the Secret is unusable, or is gone although
// recordsExist says that operators rely on it. c must not be a cached client.
func SelfManaged(
	ctx context.Context, c client.WithWatch, ref types.NamespacedName, hosts []string, recordsExist func(context.Context) (bool, error),
) (*Source, error) {
	m := &selfManaged{
		vital: &secret.Vital{Client: c, Ref: ref, Holds: "the hub's own CA", InUse: recordsExist},
		hosts: hosts, clock: clock.RealClock{},
	}
	return m.open(ctx)
}

func (m *selfManaged) open(ctx context.Context) (*Source, error) {
	if len(m.hosts) == 0 {
		return nil, errors.New("no host to make a serving certificate for: set the URL that operators dial")
	}
	m.vital.Make = func() (map[string][]byte, error) { return makeAuthority(m.clock.Now()) }
	held, err := m.vital.Open(ctx)
	if err != nil {
		return nil, err
	}
	ca, err := parseAuthority(held.Data)
	if err != nil {
		return nil, fmt.Errorf("the hub's own CA in Secret %s cannot be used: %w; correct the Secret, or restore it from a backup", m.vital.Ref, err)
	}
	s := &Source{run: m.run}
	return s, m.sign(ca, s, loggerFrom(ctx))
}

func (m *selfManaged) run(ctx context.Context, s *Source) error {
	log := loggerFrom(ctx).WithValues("secret", m.vital.Ref.String())
	var renewal sync.WaitGroup
	renewal.Go(func() { m.renew(ctx, s, log) })
	defer renewal.Wait()
	m.vital.Follow(ctx, func(held *corev1.Secret) { m.changed(held, s, log) })
	return nil
}

// renew makes a new serving certificate after two thirds of the present one's
// life. It looks once an hour, which also notices a clock that was set.
func (m *selfManaged) renew(ctx context.Context, s *Source, log logr.Logger) {
	ticker := m.clock.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		leaf := s.state.Load().certificate.Leaf
		if m.clock.Now().Before(leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)) {
			continue
		}
		m.mu.Lock()
		if err := m.sign(m.ca, s, log); err != nil {
			log.Error(err, "Serving certificate could not be renewed, trying again in an hour", "notAfter", leaf.NotAfter)
		}
		m.mu.Unlock()
	}
}

func (m *selfManaged) changed(held *corev1.Secret, s *Source, log logr.Logger) {
	if held == nil {
		log.Error(errors.New("the Secret was deleted"),
			"The hub's own CA is gone: the hub goes on with what it has, but cannot start again without it. Restore the Secret")
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ca, err := parseAuthority(held.Data)
	switch {
	case err != nil:
	case m.ca.signsAs(ca):
		m.ca = ca
		s.swap(&state{certificate: s.state.Load().certificate, bundle: ca.bundle}, log)
	default:
		err = m.sign(ca, s, log)
	}
	if err != nil {
		log.Error(err, "The changed CA cannot be used: the hub goes on with what it has. Correct the Secret before the hub starts again")
	}
}

// sign makes a serving certificate and puts it in force, with the CA's bundle.
func (m *selfManaged) sign(ca *authority, s *Source, log logr.Logger) error {
	now := m.clock.Now()
	certificate, err := ca.sign(m.hosts, now)
	if err != nil {
		return err
	}
	if left := ca.certificate.NotAfter.Sub(now); left < 365*24*time.Hour {
		log.Info("The hub's own CA expires: add the next one to the bundle in its Secret, then sign with it",
			"notAfter", ca.certificate.NotAfter, "days", int(left.Hours()/24))
	}
	m.ca = ca
	s.swap(&state{certificate: certificate, bundle: ca.bundle}, log)
	return nil
}
