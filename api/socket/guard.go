// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"encoding/binary"
	"fmt"

	"github.com/kubenest/kubenest/api/wire"
)

// The header of a yamux frame: version, type, flags (2 bytes), stream id and length
// (4 bytes each).
const (
	headerBytes = 12

	typeData   = 0
	typeWindow = 1
	typeGoAway = 3

	flagSYN = 1
)

// guard looks at the headers of yamux frames before yamux does. A ping would cost a
// goroutine, and a stream that nobody accepts its buffers: neither is ever sent by
// kubenest.
type guard struct {
	accepts bool

	header [headerBytes]byte
	have   int    // bytes of header
	data   uint32 // bytes of the present frame still to come
}

// look tells how many of the frames that begin in some bytes carry no data: windows
// bound the others.
func (g *guard) look(b []byte) (bare int, err error) {
	for len(b) > 0 {
		if g.data > 0 {
			n := min(int(g.data), len(b))
			g.data -= uint32(n)
			b = b[n:]
			continue
		}
		n := copy(g.header[g.have:], b)
		g.have += n
		if b = b[n:]; g.have < headerBytes {
			break
		}
		g.have = 0
		if err := g.check(); err != nil {
			return bare, err
		}
		if g.data == 0 {
			bare++
		}
	}
	return bare, nil
}

func (g *guard) check() error {
	kind, flags, length := g.header[1], binary.BigEndian.Uint16(g.header[2:]), binary.BigEndian.Uint32(g.header[8:])
	switch {
	case g.header[0] != 0, kind != typeData && kind != typeWindow && kind != typeGoAway:
		return fmt.Errorf("%w: yamux frame of version %d and type %d", wire.ErrMalformed, g.header[0], kind)
	case flags&flagSYN != 0 && !g.accepts:
		return fmt.Errorf("%w: the peer opened a stream", wire.ErrMalformed)
	case kind == typeData && length > wire.StreamWindow:
		return fmt.Errorf("%w: yamux frame of %d bytes", wire.ErrMalformed, length)
	case kind == typeData:
		g.data = length
	}
	return nil
}

// announcesData reports whether some bytes that yamux writes are the header of a
// frame whose data comes next.
func announcesData(b []byte) bool {
	return len(b) == headerBytes && b[0] == 0 && b[1] == typeData && binary.BigEndian.Uint32(b[8:]) > 0
}
