// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
)

// maxClients bounds the clients that are kept, one a namespace.
const maxClients = 512

// Clients are those that act with the rights of Projects, one a namespace. They are
// kept, and with each its pace.
type Clients[T any] struct {
	config *rest.Config
	make   func(*rest.Config) (T, error)
	made   *lru.Cache // namespace → T
}

// NewClients makes clients of one kind; config is the operator's own.
func NewClients[T any](config *rest.Config, of func(*rest.Config) (T, error)) *Clients[T] {
	return &Clients[T]{config: config, make: of, made: lru.New(maxClients)}
}

// For a Project's namespace.
func (c *Clients[T]) For(namespace string) (T, error) {
	if made, ok := c.made.Get(namespace); ok {
		return made.(T), nil
	}
	made, err := c.make(As(c.config, namespace))
	if err != nil {
		return made, fmt.Errorf("make a client for namespace %s: %w", namespace, err)
	}
	c.made.Add(namespace, made)
	return made, nil
}
