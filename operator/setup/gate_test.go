// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
)

// behind are deployments that answer something that nothing else does.
type behind struct{}

var (
	errBehind   = errors.New("said by what is behind")
	gateStack   = wire.Stack{Namespace: "acme", Name: "shop"}
	gateDeliver = &wire.Deliver{Stack: gateStack, Delivery: wire.Delivery{UID: "u", Generation: 7, Digest: "d"}}
	gateTopic   = agent.Topic{Type: wire.TypeReport, Stack: gateStack}
)

func (behind) Inventory(context.Context) (wire.Inventory, error) {
	return wire.Inventory{Stacks: []wire.Held{{Stack: gateStack}}}, errBehind
}

func (behind) Deliver(_ context.Context, d *wire.Deliver) wire.Delivered {
	return wire.Delivered{Stack: d.Stack, Message: errBehind.Error()}
}

func (behind) Remove(_ context.Context, r *wire.Remove) error {
	return errors.Join(errBehind, errors.New(r.Stack.String()))
}

func (behind) Follow(_ context.Context, note func(agent.Topic)) error {
	note(gateTopic)
	return errBehind
}

func (behind) News(_ context.Context, t agent.Topic) (message any, ok bool, err error) {
	return t, true, errBehind
}

// gateCalls are all methods of a gate. Each says what came back.
func gateCalls(g *gate) map[string]func(context.Context) (got any, err error) {
	return map[string]func(context.Context) (any, error){
		"Inventory": func(ctx context.Context) (any, error) { return g.Inventory(ctx) },
		"Deliver": func(ctx context.Context) (any, error) {
			delivered := g.Deliver(ctx, gateDeliver)
			return delivered, errors.New(delivered.Message)
		},
		"Remove": func(ctx context.Context) (any, error) {
			return nil, g.Remove(ctx, &wire.Remove{Stack: gateStack})
		},
		"Follow": func(ctx context.Context) (any, error) {
			var noted []agent.Topic
			err := g.Follow(ctx, func(t agent.Topic) { noted = append(noted, t) })
			return noted, err
		},
		"News": func(ctx context.Context) (any, error) {
			message, ok, err := g.News(ctx, gateTopic)
			if !ok {
				return nil, err
			}
			return message, err
		},
	}
}

// answers of calls that may have to wait.
type answers struct {
	mu   sync.Mutex
	got  map[string]any
	errs map[string]error
}

// callAll makes all calls, and returns at once.
func callAll(ctx context.Context, g *gate) *answers {
	a := &answers{got: map[string]any{}, errs: map[string]error{}}
	for name, call := range gateCalls(g) {
		go func() {
			got, err := call(ctx)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.got[name], a.errs[name] = got, err
		}()
	}
	return a
}

// those returns the names of the calls that were answered, once all others wait.
func (a *answers) those() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.errs))
}

var everyCall = []string{"Deliver", "Follow", "Inventory", "News", "Remove"}

func expectBehind(g *WithT, a *answers) {
	g.Expect(a.those()).To(Equal(everyCall))
	for name, err := range a.errs {
		g.Expect(err).To(MatchError(ContainSubstring(errBehind.Error())), name)
	}
	g.Expect(a.got).To(Equal(map[string]any{
		"Inventory": wire.Inventory{Stacks: []wire.Held{{Stack: gateStack}}},
		"Deliver":   wire.Delivered{Stack: gateStack, Message: errBehind.Error()},
		"Remove":    nil,
		"Follow":    []agent.Topic{gateTopic},
		"News":      gateTopic,
	}))
	g.Expect(a.errs["Remove"]).To(MatchError(ContainSubstring(gateStack.String())))
}

func TestGateHoldsEverythingUntilItOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		gate := newGate()
		early := callAll(t.Context(), gate)
		g.Expect(early.those()).To(BeEmpty())
		gate.open(behind{})
		expectBehind(g, early)
		gate.open(nil) // the first one counts
		expectBehind(g, callAll(t.Context(), gate))
	})
}

func TestGateLetsGoWhenASessionEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		errEnded := errors.New("the session has ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := callAll(ctx, newGate())
		g.Expect(calls.those()).To(BeEmpty())
		cancel(errEnded)
		g.Expect(calls.those()).To(Equal(everyCall))
		for name, err := range calls.errs {
			g.Expect(err).To(MatchError(ContainSubstring(errEnded.Error())), name)
		}
		g.Expect(calls.errs["Inventory"]).To(MatchError(errEnded), "its cause can be asked for")
		g.Expect(calls.got["News"]).To(BeNil())
		g.Expect(calls.got["Deliver"]).To(And(
			HaveField("Stack", gateDeliver.Stack), HaveField("Delivery", gateDeliver.Delivery),
			HaveField("Failure", wire.DeliveryUnavailable),
		), "the hub sends it again")
	})
}
