// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

func TestDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := conns(t, socket.Options{}, socket.Options{})
		closed := func() bool {
			select {
			case <-c.Drained():
				return true
			default:
				return false
			}
		}
		if !closed() {
			t.Error("a connection with nothing to send is not drained")
		}
		for range 2 { // the pipe holds nothing back: it is written when it is read
			large := wire.Goodbye{Reason: strings.Repeat("x", 3*wire.MaxFrame)}
			if err := c.Send(wire.TypeGoodbye, large); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if closed() {
				t.Error("drained while a large message waits")
			}
			drained := c.Drained()
			if _, err := s.Read(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case <-drained:
			default:
				t.Error("not drained though all was read")
			}
		}
	})
}
