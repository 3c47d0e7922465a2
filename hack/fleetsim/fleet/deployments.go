// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
)

// Delivered tells of a StackDeploy that came to a simulated cluster.
type Delivered struct {
	// Cluster is the member's name.
	Cluster string
	// App is the App's name, empty of a Project's namespace.
	App string
	// At is when it came.
	At time.Time
}

// deployments plays what an operator does with StackDeploys: it keeps them, and says
// at once that everything of them runs.
type deployments struct {
	cluster string
	told    func(Delivered) // may be nil

	mu     sync.Mutex
	stacks map[wire.Stack]*simulated
	note   func(agent.Topic) // set while somebody follows
}

type simulated struct {
	delivery wire.Delivery
	spec     kubenestv1.StackDeploySpec
}

func newDeployments(cluster string, told func(Delivered)) *deployments {
	return &deployments{cluster: cluster, told: told, stacks: map[wire.Stack]*simulated{}}
}

// Inventory of what was delivered.
func (d *deployments) Inventory(context.Context) (wire.Inventory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	inventory := wire.Inventory{Stacks: []wire.Held{}}
	for name, s := range d.stacks {
		inventory.Stacks = append(inventory.Stacks, wire.Held{Stack: name, Delivery: s.delivery})
	}
	return inventory, nil
}

// Deliver keeps a StackDeploy.
func (d *deployments) Deliver(_ context.Context, m *wire.Deliver) wire.Delivered {
	answer := wire.Delivered{Stack: m.Stack, Delivery: m.Delivery}
	s := &simulated{delivery: m.Delivery}
	if err := json.Unmarshal(m.Spec, &s.spec); err != nil {
		answer.Failure, answer.Message = wire.DeliveryInvalid, "the spec can not be read"
		return answer
	}
	if d.told != nil {
		d.told(Delivered{Cluster: d.cluster, App: s.spec.App, At: time.Now()})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stacks[m.Stack] = s
	d.noteLocked(agent.Topic{Type: wire.TypeReport, Stack: m.Stack})
	return answer
}

// Remove forgets a StackDeploy.
func (d *deployments) Remove(_ context.Context, m *wire.Remove) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.stacks, m.Stack)
	d.noteLocked(agent.Topic{Type: wire.TypeRemoved, Stack: m.Stack})
	return nil
}

// Follow notes all that there is, and what changes.
func (d *deployments) Follow(ctx context.Context, note func(agent.Topic)) error {
	d.mu.Lock()
	d.note = note
	for name := range d.stacks {
		note(agent.Topic{Type: wire.TypeReport, Stack: name})
	}
	d.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (d *deployments) noteLocked(t agent.Topic) {
	if d.note != nil {
		d.note(t)
	}
}

// News says that a StackDeploy runs, or is gone.
func (d *deployments) News(_ context.Context, t agent.Topic) (message any, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, held := d.stacks[t.Stack]
	switch {
	case t.Type == wire.TypeRemoved:
		return wire.Removed{Stack: t.Stack}, !held, nil
	case t.Type != wire.TypeReport || !held:
		return nil, false, nil
	}
	status, err := json.Marshal(s.status(t.Stack))
	if err != nil {
		return nil, false, fmt.Errorf("encode the state of %s: %w", t.Stack, err)
	}
	return wire.Report{Stack: t.Stack, Delivery: s.delivery, Status: status}, true, nil
}

// status of a StackDeploy of which everything runs.
func (s *simulated) status(name wire.Stack) kubenestv1.StackDeployStatus {
	reason := kubenestv1.ReasonRunning
	if s.spec.NamespaceSettings != nil {
		reason = kubenestv1.ReasonNamespaceReady
	}
	status := kubenestv1.StackDeployStatus{
		Phase:              kubenestv1.AppRunning,
		ObservedGeneration: s.delivery.Generation,
		Source: &kubenestv1.StackSource{
			Namespace: name.Namespace, Name: name.Name,
			UID: s.delivery.UID, Generation: s.delivery.Generation, Digest: s.delivery.Digest,
		},
		Conditions: []metav1.Condition{{
			Type: kubenestv1.ConditionReady, Status: metav1.ConditionTrue, Reason: reason,
			ObservedGeneration: s.delivery.Generation, LastTransitionTime: metav1.Now(),
		}},
	}
	for i := range s.spec.Components {
		c := &s.spec.Components[i]
		component := kubenestv1.ComponentStatus{Name: c.Name, Type: c.Type, Phase: kubenestv1.AppRunning, Reason: kubenestv1.ReasonRunning}
		if w := c.WorkloadSpec; w != nil {
			component.Image, component.ReadyReplicas, component.DesiredReplicas = w.Image, new(int32(1)), new(int32(1))
		}
		status.Components = append(status.Components, component)
	}
	return status
}
