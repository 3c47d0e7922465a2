// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
)

func TestUnreadBytesAreBounded(t *testing.T) {
	g := NewWithT(t)
	c := &Conn{}
	s := &streams{conn: c}
	s.in.filled.L = &s.in
	c.streams = s // with a yamux that takes nothing
	frame := append([]byte{0, typeData, 0, 0, 0, 0, 0, 1, 0, 0, 0x7f, 0xf4}, make([]byte, 0x7ff4)...)
	g.Expect(frame).To(HaveLen(wire.MaxFrame))
	for range maxUnread / wire.MaxFrame {
		g.Expect(c.received(bytes.Clone(frame))).To(Succeed())
	}
	err := c.received(frame)
	g.Expect(err).To(MatchError(errFlooding))
	g.Expect(s.in.bytes).To(Equal(maxUnread))
	buffer := make([]byte, 100_000)
	n, err := s.Read(buffer)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(n).To(Equal(wire.MaxFrame))
	g.Expect(c.received(frame)).To(Succeed(), "there is room again")
}

// FuzzGuard cuts frames in two in all ways.
func FuzzGuard(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 'a', 'b', 'c'}, 5)
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}, 12)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if cut < 0 || cut > len(data) {
			t.Skip()
		}
		var whole, parts guard
		want, wantErr := whole.look(data)
		a, err := parts.look(data[:cut])
		b := 0
		if err == nil {
			b, err = parts.look(data[cut:])
		}
		if (err == nil) != (wantErr == nil) || a+b != want || whole.have != parts.have || whole.data != parts.data {
			t.Fatalf("cut at %d: %d, %v; whole: %d, %v", cut, a+b, err, want, wantErr)
		}
	})
}

func TestConnectionWithoutStreamsHasNone(t *testing.T) {
	g := NewWithT(t)
	c := &Conn{accept: func(*Stream) {}}
	g.Expect(c.streams).To(BeNil())
	g.Expect(c.received([]byte{0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})).To(MatchError(wire.ErrMalformed))
	c.mu.Lock()
	c.ended = &Ended{Ending: wire.EndProtocol}
	c.streams.endLocked()
	c.mu.Unlock()
	c.streams.wait()
}
