// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

// newsBudget is how much a hub is told of its own accord. It is far below what a hub
// bears, so that heartbeats and answers find room beside.
var newsBudget = socket.Budget{PerSecond: 20, Burst: 100}

// news are the topics of which a hub is to be told, each once: what there is to say
// is looked up when its turn comes, so that of many changes the newest wins and
// nothing is kept meanwhile.
type news struct {
	wake chan struct{} // holds one when something was noted

	mu       sync.Mutex
	first    []Topic // removals: somebody waits for them
	rest     []Topic
	waiting  map[Topic]bool
	awaiting map[wire.Stack]bool // removals that the hub asked for in this session
}

func newNews() *news {
	return &news{wake: make(chan struct{}, 1), waiting: map[Topic]bool{}, awaiting: map[wire.Stack]bool{}}
}

// note has the hub be told of a topic. Of removals it is told if it asked.
func (n *news) note(t Topic) {
	n.mu.Lock()
	defer n.mu.Unlock()
	removed := t.Type == wire.TypeRemoved
	if n.waiting[t] || removed && !n.awaiting[t.Stack] {
		return
	}
	n.waiting[t] = true
	if removed {
		n.first = append(n.first, t)
	} else {
		n.rest = append(n.rest, t)
	}
	wake(n.wake)
}

// await makes removals of a stack be told.
func (n *news) await(stack wire.Stack) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.awaiting[stack] = true
}

// noteRemovals notes all that were asked for and are not told yet.
func (n *news) noteRemovals() {
	n.mu.Lock()
	stacks := slices.Collect(maps.Keys(n.awaiting))
	n.mu.Unlock()
	for _, stack := range stacks {
		n.note(Topic{Type: wire.TypeRemoved, Stack: stack})
	}
}

// told ends the waiting: the hub is told once.
func (n *news) told(stack wire.Stack) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.awaiting, stack)
}

// next takes the topic whose turn it is.
func (n *news) next() (t Topic, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	queue := &n.first
	if len(*queue) == 0 {
		queue = &n.rest
	}
	if len(*queue) == 0 {
		return Topic{}, false
	}
	t = (*queue)[0]
	if *queue = (*queue)[1:]; len(*queue) == 0 {
		*queue = nil
	}
	delete(n.waiting, t)
	return t, true
}

// follow notes what the hub should know, until the session ends.
func (x *exchange) follow(ctx context.Context) {
	for {
		err := x.with.Follow(ctx, x.news.note)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended by itself")
		}
		x.session.log.Error(err, "Could not follow what is deployed here", "retryIn", retryEvery.String())
		if !pause(ctx, retryEvery, nil) {
			return
		}
	}
}

// tell sends what was noted, within the budget, and one thing after the other: the
// queue to the hub never fills with it.
func (x *exchange) tell(ctx context.Context) {
	var (
		pace    = pace{Budget: newsBudget}
		recheck = time.NewTicker(recheckEvery)
		failed  []Topic
		retry   <-chan time.Time // set while there are some
	)
	defer recheck.Stop()
	for {
		t, ok := x.news.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-x.news.wake:
			case <-recheck.C:
				x.news.noteRemovals()
			case <-retry:
				for _, t := range failed {
					x.news.note(t)
				}
				failed, retry = nil, nil
			}
			continue
		}
		size, err := x.say(ctx, t)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			x.session.log.Error(err, "Could not tell the hub what changed, trying again", "type", t.Type, "stack", t.Stack)
			if failed = append(failed, t); retry == nil {
				retry = time.After(retryEvery)
			}
			continue
		}
		if size > 0 && (!x.drained(ctx) || !pause(ctx, pace.spend(size), nil)) {
			return
		}
	}
}

// say sends what there is to say about a topic now, and returns its size.
func (x *exchange) say(ctx context.Context, t Topic) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	message, ok, err := x.with.News(ctx, t)
	if err != nil || !ok {
		return 0, err
	}
	data, err := json.Marshal(message)
	if err != nil {
		return 0, fmt.Errorf("encode %s: %w", t.Type, err)
	}
	if err := x.session.conn.Send(t.Type, json.RawMessage(data)); err != nil {
		return 0, err
	}
	if t.Type == wire.TypeRemoved {
		x.news.told(t.Stack)
	}
	return len(data), nil
}

// pace spreads messages so that they stay within a budget.
type pace struct {
	socket.Budget
	spent float64 // since at, refills included
	at    time.Time
}

// spend notes a message of a size in bytes that was sent, and returns how long to
// wait before the next one.
func (p *pace) spend(size int) time.Duration {
	now := time.Now()
	p.spent = max(0, p.spent-now.Sub(p.at).Seconds()*p.PerSecond)
	p.at = now
	// A large message costs a hub more, in chunks.
	p.spent += 1 + float64(size/wire.MaxStatus)
	over := p.spent + 1 - float64(p.Burst)
	return max(0, time.Duration(over/p.PerSecond*float64(time.Second)))
}
