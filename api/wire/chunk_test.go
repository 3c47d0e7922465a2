// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
)

// split returns all frames of a message.
func split(g *WithT, message []byte, id int64) (frames [][]byte) {
	next := wire.Split(message, id)
	for {
		frame, err := next()
		g.Expect(err).NotTo(HaveOccurred())
		if frame == nil {
			return frames
		}
		g.Expect(len(frame)).To(BeNumerically("<=", wire.MaxFrame))
		frames = append(frames, frame)
	}
}

// chunkOf reads the chunk in a frame.
func chunkOf(g *WithT, frame []byte) *wire.Chunk {
	envelope, err := wire.Decode(frame)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(envelope.Type).To(Equal(wire.TypeChunk))
	var c wire.Chunk
	g.Expect(envelope.Read(&c)).To(Succeed())
	return &c
}

func TestSplitAndAssemble(t *testing.T) {
	for _, size := range []int{wire.MaxFrame + 1, 3 * wire.MaxFrame, wire.MaxMessage} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			g := NewWithT(t)
			message := bytes.Repeat([]byte("kubenest"), size/8+1)[:size]
			var a wire.Assembler
			frames := split(g, message, 1<<60)
			g.Expect(len(frames)).To(BeNumerically(">", 1))
			for i, frame := range frames {
				got, complete, err := a.Add(chunkOf(g, frame))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(complete).To(Equal(i == len(frames)-1))
				if complete {
					g.Expect(bytes.Equal(got, message)).To(BeTrue())
				}
			}
		})
	}
}

func TestSplitLeavesWhatFits(t *testing.T) {
	for _, size := range []int{1, 100, wire.MaxFrame} {
		g := NewWithT(t)
		message := bytes.Repeat([]byte("x"), size)
		g.Expect(split(g, message, 1)).To(Equal([][]byte{message}))
	}
}

func TestAssemblerTakesTurns(t *testing.T) {
	g := NewWithT(t)
	var a wire.Assembler
	for round := range 3 { // what is complete makes room
		for i := range 3 {
			for id := range int64(wire.MaxAssemblies) {
				message, complete, err := a.Add(&wire.Chunk{ID: id, Index: i, Last: i == 2, Data: []byte{byte('a' + id), byte('0' + i)}})
				g.Expect(err).NotTo(HaveOccurred(), "round %d", round)
				g.Expect(complete).To(Equal(i == 2))
				if complete {
					g.Expect(string(message)).To(Equal(fmt.Sprintf("%[1]c0%[1]c1%[1]c2", 'a'+id)))
				}
			}
		}
	}
}

func TestAssemblerRefuses(t *testing.T) {
	begin := func(id int64) *wire.Chunk { return &wire.Chunk{ID: id, Data: []byte("x")} }
	for name, tc := range map[string]struct {
		chunks []*wire.Chunk
		want   string
	}{
		"an empty chunk":      {[]*wire.Chunk{{ID: 1}}, "empty chunk of message 1"},
		"a missing beginning": {[]*wire.Chunk{{ID: 1, Index: 1, Data: []byte("x")}}, "message 1 begins with chunk 1"},
		"a negative index":    {[]*wire.Chunk{{ID: 1, Index: -1, Data: []byte("x")}}, "begins with chunk -1"},
		"a gap":               {[]*wire.Chunk{begin(1), {ID: 1, Index: 2, Data: []byte("x")}}, "chunk 2 of message 1, want 1"},
		"a chunk twice":       {[]*wire.Chunk{begin(1), begin(1)}, "chunk 0 of message 1, want 1"},
		"too many under way":  {[]*wire.Chunk{begin(1), begin(2), begin(3)}, "more than 2 chunked messages under way"},
		"a message too large": {[]*wire.Chunk{{ID: 1, Data: make([]byte, wire.MaxMessage)}, {ID: 1, Index: 1, Data: []byte("x")}}, "over 4194304 bytes"},
		"two together too large": {
			[]*wire.Chunk{{ID: 1, Data: make([]byte, wire.MaxMessage/2)}, {ID: 2, Data: make([]byte, wire.MaxMessage/2+1)}},
			"over 4194304 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var a wire.Assembler
			var err error
			for i, c := range tc.chunks {
				g.Expect(err).NotTo(HaveOccurred(), "chunk %d", i-1)
				_, _, err = a.Add(c)
			}
			g.Expect(err).To(MatchError(wire.ErrMalformed))
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}
