// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"container/list"
	"sync"
)

// cacheSize is how many bytes of charts are kept in memory.
const cacheSize = 32 << 20

// cache keeps the charts that were used last. Their versions never change, so that
// what is in it stays right.
type cache struct {
	mu     sync.Mutex
	size   int
	recent *list.List // of *cached, the last used first
	byKey  map[string]*list.Element
}

type cached struct {
	key  string
	data []byte
}

func newCache() *cache {
	return &cache{recent: list.New(), byKey: map[string]*list.Element{}}
}

func (c *cache) get(key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cached).data, true
}

func (c *cache) put(key string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.remove(e)
	}
	c.byKey[key] = c.recent.PushFront(&cached{key: key, data: data})
	c.size += len(data)
	for c.size > cacheSize && c.recent.Len() > 1 {
		c.remove(c.recent.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	old := c.recent.Remove(e).(*cached)
	delete(c.byKey, old.key)
	c.size -= len(old.data)
}
