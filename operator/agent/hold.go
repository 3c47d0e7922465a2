// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// maxWithin bounds how long a hub may put off that the agent moves.
const maxWithin = 10 * time.Minute

// hold keeps a session, and its successors when the hub asks to move, until the
// last one has ended. It reports whether the last one held long enough to trust
// the way to the hub.
func (a *Agent) hold(ctx context.Context, s *session, cuts *pattern) (held bool) {
	a.metrics.connected.Inc()
	defer a.metrics.connected.Dec()
	for s != nil {
		now := time.Now()
		a.metrics.lastConnected.Set(float64(now.Unix()))
		a.status.welcomed(&s.welcome, now)
		next := a.serve(ctx, s)
		held = s.held()
		a.report(s, cuts, next != nil)
		s = next
	}
	a.status.ended(time.Now())
	return held
}

// serve waits until a session is over, and returns its successor if there is one.
func (a *Agent) serve(ctx context.Context, s *session) *session {
	moving, settle := context.WithCancel(ctx)
	defer settle()
	var next chan *session // non-nil while the agent moves
	if a.recheck {         // credentials changed while the agent moved here
		a.recheck = false
		if a.retargeted(ctx, s) {
			s.log.Info("Credentials changed meanwhile, moving to a session with the new ones")
			next = a.move(ctx, moving, 0)
		}
	}
	for {
		select {
		case <-ctx.Done():
			const reason = "the operator stops"
			s.leave(wire.EndGoodbye, reason)
			if next != nil {
				if n := <-next; n != nil {
					n.leave(wire.EndGoodbye, reason)
				}
			}
			return nil
		case m := <-s.moving:
			if next == nil {
				within := min(max(time.Duration(m.Within)*time.Millisecond, 0), maxWithin)
				s.log.Info("The hub asks to move", "reason", wire.Shorten(m.Reason, wire.MaxText), "within", within.String())
				next = a.move(ctx, moving, share(within, a.o.Chance()))
			}
		case <-a.o.Credentials.Changed():
			if next != nil {
				a.recheck = true // the move may have loaded the old ones
			} else if a.retargeted(ctx, s) {
				s.log.Info("Credentials changed, moving to a session with the new ones")
				next = a.move(ctx, moving, 0)
			}
		case n := <-next:
			if n != nil {
				s.leave(wire.EndMoving, "moved to session "+n.welcome.Session)
				return n
			}
			next = nil
		case <-s.done:
			settle()
			if next == nil {
				return nil
			}
			return <-next // the hub may have ended this one because the next was claimed
		}
	}
}

// move opens the next session while another one still holds. When moving ends, an
// attempt under way is brought to its end, but no other begins.
func (a *Agent) move(ctx, moving context.Context, after time.Duration) chan *session {
	next := make(chan *session, 1)
	go func() {
		var (
			wait  backoff
			voice voice
		)
		for pause(moving, after, nil) {
			s, err := a.connect(ctx)
			if err == nil {
				next <- s
				return
			}
			after = wait.next(asRefusal(err), a.o.Chance())
			voice.say(a.log, err, "retryIn", after.Round(time.Millisecond).String(), "meanwhile", "the present session goes on")
		}
		next <- nil
	}()
	return next
}

// retargeted reports whether the credentials lead elsewhere than to this session.
func (a *Agent) retargeted(ctx context.Context, s *session) bool {
	identity, err := a.o.Credentials.Load(ctx)
	if err != nil {
		s.log.Error(err, "Credentials changed, but can not be used; the session goes on with the old ones")
		return false
	}
	return !identity.sameTarget(&s.identity)
}

// report logs and counts how a session ended.
func (a *Agent) report(s *session, cuts *pattern, moved bool) {
	age := time.Since(s.opened)
	a.metrics.endings.WithLabelValues(string(s.ended.Ending)).Inc()
	values := []any{"ending", s.ended.Ending, "age", age.Round(time.Millisecond).String()}
	if s.ended.Text != "" {
		values = append(values, "text", redact(s.ended.Text, s.token))
	}
	switch {
	case moved, s.ended.Ending.Planned(), s.ended.Ending == wire.EndGoodbye:
		cuts.clear()
		s.log.Info("Session ended as planned", values...)
		return
	case s.ended.Ending == wire.EndLost:
		if hint := cuts.add(age); hint != "" {
			values = append(values, "hint", hint)
		}
	default:
		cuts.clear()
	}
	s.log.Error(s.ended.Err, "Session ended", values...)
}
