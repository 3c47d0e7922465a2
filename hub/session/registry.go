// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"sync"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// Kind of an Event.
type Kind string

// Kinds of events.
const (
	// Opened: a session was welcomed.
	Opened Kind = "opened"
	// FactsChanged: the operator told of other facts than before.
	FactsChanged Kind = "factsChanged"
	// Closed: the session ended. Each session that opened closes, once.
	Closed Kind = "closed"
)

// Event tells that something happened to a session. It is a hint: two sessions'
// events, and those of one session's facts, can overtake each other. Registry has
// the state.
type Event struct {
	ClusterID string
	Kind      Kind
	// Info is the session's state then.
	Info Info
	// Ended is set if the session closed.
	Ended *End
}

// End is how a session ended.
type End struct {
	// SessionID and Epoch name the session.
	SessionID string
	Epoch     int64
	// Ending is why.
	Ending wire.Ending
	// Message is what the side that ended it had to say; it may be empty, and it may
	// be the operator's words.
	Message string
	// LastHeard is when its last frame came, At when it ended.
	LastHeard, At time.Time
	// Age is how long it lasted.
	Age time.Duration
}

// Registry knows the sessions held here, one a cluster, and how the last ones
// ended. All methods are safe for concurrent use.
type Registry struct {
	metrics *metrics

	mu          sync.Mutex
	live        map[string]*session
	ends        map[string]End
	trust       string
	subscribers []*func(Event) // replaced, never changed
}

func newRegistry(m *metrics) *Registry {
	return &Registry{metrics: m, live: map[string]*session{}, ends: map[string]End{}}
}

// Lookup returns the session of a cluster, if one is held here.
func (r *Registry) Lookup(clusterID string) (Info, bool) {
	held, ok := r.session(clusterID)
	if !ok {
		return Info{}, false
	}
	return held.snapshot(), true
}

// Snapshot returns all sessions held here, in no order.
func (r *Registry) Snapshot() []Info {
	held := r.sessions()
	infos := make([]Info, len(held))
	for i, s := range held {
		infos[i] = s.snapshot()
	}
	return infos
}

// Len is the number of sessions held here.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)
}

// Subscribe has f called for each event, until cancel. f must not block: it is
// called by the goroutine that reads the session, without locks. Events of before
// are not told; Snapshot after Subscribe has what they made.
func (r *Registry) Subscribe(f func(Event)) (cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers = append(slices.Clone(r.subscribers), &f)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.subscribers = slices.DeleteFunc(slices.Clone(r.subscribers), func(g *func(Event)) bool { return g == &f })
	}
}

// LastEnd is how the last session of a cluster held here ended. It is kept until
// Forget, or until the next session opens here.
func (r *Registry) LastEnd(clusterID string) (End, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end, ok := r.ends[clusterID]
	return end, ok
}

// Forget drops what LastEnd knows of a session.
func (r *Registry) Forget(clusterID, sessionID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends[clusterID].SessionID == sessionID {
		delete(r.ends, clusterID)
	}
}

// Close ends a session, and reports whether it was held here. It does not wait:
// the session is gone when Closed is told. Another session of the cluster is left
// alone.
func (r *Registry) Close(clusterID, sessionID string, e wire.Ending, message string) bool {
	held, ok := r.session(clusterID)
	if !ok || held.info.SessionID != sessionID {
		return false
	}
	held.conn.Close(e, message)
	return true
}

func (r *Registry) session(clusterID string) (*session, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, ok := r.live[clusterID]
	return held, ok
}

func (r *Registry) sessions() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessionsLocked()
}

func (r *Registry) sessionsLocked() []*session {
	held := make([]*session, 0, len(r.live))
	for _, s := range r.live {
		held = append(held, s)
	}
	return held
}

// add registers a session and has it welcomed with the CA bundle in force, unless
// one with a higher epoch came first. It returns the session that it replaced.
func (r *Registry) add(s *session, welcome func(trust string)) (replaced *session, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, epoch := s.info.ClusterID, s.info.Epoch
	replaced = r.live[id]
	if replaced != nil && replaced.info.Epoch >= epoch || r.ends[id].Epoch > epoch {
		return nil, false
	}
	r.live[id] = s
	delete(r.ends, id)
	r.metrics.held.Set(float64(len(r.live)))
	welcome(r.trust)
	return replaced, true
}

// remove takes a session out, if it is still the cluster's.
func (r *Registry) remove(s *session, end End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := s.info.ClusterID
	if r.live[id] != s {
		return
	}
	delete(r.live, id)
	r.ends[id] = end
	r.metrics.held.Set(float64(len(r.live)))
}

// setTrust sets the bundle for welcomes, and returns the sessions that were
// welcomed with another.
func (r *Registry) setTrust(bundle string) []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trust == bundle {
		return nil
	}
	r.trust = bundle
	return r.sessionsLocked()
}

// tell calls the subscribers.
func (r *Registry) tell(e Event) {
	r.mu.Lock()
	subscribers := r.subscribers
	r.mu.Unlock()
	for _, f := range subscribers {
		(*f)(e)
	}
}
