// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

// Drained returns a channel that is closed when no message waits to be written:
// whatever is sent after that comes after what was sent before, even if that was
// large, and finds the queue empty. Once the connection has ended it need not be
// closed any more; see Done.
func (c *Conn) Drained() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	drained := c.out.drained
	if drained == nil {
		drained = make(chan struct{})
		if len(c.out.small) == 0 && len(c.out.large) == 0 {
			close(drained)
		} else {
			c.out.drained = drained
		}
	}
	return drained
}

// settle tells that no message waits.
func (q *queue) settle() {
	if q.drained != nil {
		close(q.drained)
		q.drained = nil
	}
}
