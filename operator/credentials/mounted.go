// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kubenest/kubenest/operator/agent"
)

// pollEvery is how often the files are looked at besides their being watched: the
// watches of a busy node run out.
const pollEvery = 30 * time.Second

// Mounted reads the chart's Secret from a directory, and keeps what the hub hands
// over in the Secret SessionSecret. It implements agent.Credentials.
type Mounted struct {
	// Static.
	directory string
	secret    secretStore
	log       logr.Logger
	changed   chan struct{}

	writing sync.Mutex // held from reading to writing the Secret

	mu     sync.Mutex // never held across I/O
	seen   files      // what was read last
	loaded bool       // Load has been called
	known  stored     // what the Secret said last
	whose  string     // the cluster id that known is for
	failed bool       // the Secret could not be read last time
}

// NewMounted makes credentials of a directory and of a namespace's Secrets. Run
// watches the directory.
func NewMounted(directory string, secrets corev1client.SecretsGetter, namespace string, log logr.Logger) *Mounted {
	return &Mounted{
		directory: directory, log: log, changed: make(chan struct{}, 1),
		secret: secretStore{secrets: secrets.Secrets(namespace), namespace: namespace},
	}
}

// Changed receives when the files change.
func (m *Mounted) Changed() <-chan struct{} { return m.changed }

// Load reads the files and the Secret. If the Secret can't be read it goes on with
// what that said last: a cluster whose API server is down stays connected.
func (m *Mounted) Load(ctx context.Context) (agent.Identity, error) {
	f, err := readFiles(m.directory)
	m.noticed(f, true)
	if err != nil {
		return agent.Identity{}, err
	}
	token, err := f.chartToken(m.directory)
	if err != nil {
		return agent.Identity{}, err
	}
	more, err := m.secret.read(ctx, f.clusterID)
	more = m.remember(f.clusterID, more, err)
	identity := agent.Identity{
		HubURL: f.hubURL, ClusterID: f.clusterID,
		Tokens:      agent.Candidates(token, more.token),
		Authorities: agent.Authorities{f.ca},
	}
	if more.ca != nil {
		identity.Authorities = append(identity.Authorities, *more.ca)
	}
	return identity, nil
}

// remember keeps what the Secret said, and brings it back when it can't be read.
func (m *Mounted) remember(clusterID string, now stored, err error) stored {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.known, m.whose, m.failed = now, clusterID, false
		return now
	}
	if !m.failed {
		m.failed = true
		m.log.Error(err, "Could not read what the hub handed over, going on with what is known")
	}
	if m.whose != clusterID {
		return stored{}
	}
	return m.known
}

// StoreToken keeps a renewed token in the Secret.
func (m *Mounted) StoreToken(ctx context.Context, token agent.Token) error {
	return m.update(ctx, func(_ *files, s *stored) bool {
		if s.token != nil && s.token.Raw() == token.Raw() {
			return false
		}
		s.token = &token
		return true
	})
}

// StoreCA keeps the hub's CA bundle in the Secret.
func (m *Mounted) StoreCA(ctx context.Context, bundle string) error {
	if err := agent.CheckBundle(bundle); err != nil {
		return err
	}
	return m.update(ctx, func(f *files, s *stored) bool {
		if s.ca == nil && agent.SameBundle(f.ca, bundle) || s.ca != nil && agent.SameBundle(*s.ca, bundle) {
			return false
		}
		s.ca = &bundle
		return true
	})
}

// update changes what is stored; change reports whether there is something to
// write.
func (m *Mounted) update(ctx context.Context, change func(*files, *stored) bool) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	f, err := readFiles(m.directory)
	if err != nil {
		return err
	}
	s, err := m.secret.read(ctx, f.clusterID)
	if err != nil {
		return err
	}
	if !change(&f, &s) {
		return nil
	}
	if err := m.secret.write(ctx, f.clusterID, s); err != nil {
		return err
	}
	m.remember(f.clusterID, s, nil)
	return nil
}

// Run watches the files until ctx ends.
func (m *Mounted) Run(ctx context.Context) error {
	var (
		events  <-chan fsnotify.Event
		errs    <-chan error
		rewatch = func() {}
	)
	if watcher, err := fsnotify.NewWatcher(); err != nil {
		m.log.Error(err, "Can not watch the credentials, looking at them now and then", "every", pollEvery.String())
	} else {
		defer func() { _ = watcher.Close() }()
		events, errs = watcher.Events, watcher.Errors
		rewatch = func() {
			if len(watcher.WatchList()) == 0 { // at first, and when the directory was made anew
				_ = watcher.Add(m.directory) // if there is none, the next tick tries again
			}
		}
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		rewatch()
		m.look()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-events:
		case err := <-errs:
			m.log.Error(err, "Could not watch the credentials")
		}
	}
}

// look tells of a change that Load has not seen yet.
func (m *Mounted) look() {
	f, err := readFiles(m.directory)
	if err != nil || !m.noticed(f, false) {
		return
	}
	select {
	case m.changed <- struct{}{}:
	default: // one is waiting to be received
	}
}

// noticed reports whether the files are other than those that were read last.
// Before anybody has loaded them, nobody needs to be told.
func (m *Mounted) noticed(f files, loading bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded = m.loaded || loading; !m.loaded || m.seen == f {
		return false
	}
	m.seen = f
	return true
}
