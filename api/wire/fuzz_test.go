// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubenest/kubenest/api/wire"
)

// seed adds the golden messages.
func seed(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds in testdata: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// FuzzDecode feeds frames to the envelope and to the message that it names.
func FuzzDecode(f *testing.F) {
	seed(f)
	f.Add([]byte(`{"v":1,"type":"heartbeat","data":null}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		envelope, err := wire.Decode(frame)
		if err != nil {
			wantMalformed(t, err)
			return
		}
		readBack(t, envelope.Type, envelope.Data)
	})
}

// FuzzRead feeds data to every message.
func FuzzRead(f *testing.F) {
	for _, message := range samples() {
		data, err := json.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind := range samples() {
			readBack(t, kind, data)
		}
	})
}

// readBack checks that what was read once can be sent and read again.
func readBack(t *testing.T, kind wire.Type, data []byte) {
	t.Helper()
	message := blank(kind)
	if err := (wire.Envelope{Type: kind, Data: data}).Read(message); err != nil {
		wantMalformed(t, err)
		return
	}
	frame, err := wire.Encode(kind, message)
	if err != nil {
		// A time of year 10,000 can be read and not written; no hub sends one on.
		return
	}
	again, err := wire.Decode(frame)
	if err != nil {
		t.Fatalf("decode what was encoded: %v", err)
	}
	if err := again.Read(blank(kind)); err != nil {
		t.Fatalf("read what was read before: %v", err)
	}
}

func wantMalformed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, wire.ErrMalformed) {
		t.Fatalf("error is not ErrMalformed: %v", err)
	}
}

// FuzzAssembler adds chunks whose fields are taken from the input, four bytes
// each, and watches the limits.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte{1, 0, 0, 9, 1, 1, 1, 9})
	f.Add([]byte{1, 0, 0, 9, 2, 0, 0, 9, 3, 0, 0, 9})
	f.Fuzz(func(t *testing.T, input []byte) {
		var a wire.Assembler
		want := map[int64][]byte{}
		for ; len(input) >= 4; input = input[4:] {
			c := &wire.Chunk{ID: int64(input[0]), Index: int(input[1]), Last: input[2]%2 == 1, Data: bytes.Repeat(input[2:3], int(input[3])<<12)}
			message, complete, err := a.Add(c)
			if err != nil {
				wantMalformed(t, err)
				return // the connection is closed
			}
			want[c.ID] = append(want[c.ID], c.Data...)
			if complete != c.Last {
				t.Fatalf("complete is %v, last is %v", complete, c.Last)
			}
			if complete {
				if !bytes.Equal(message, want[c.ID]) {
					t.Fatalf("message %d of %d bytes, want %d", c.ID, len(message), len(want[c.ID]))
				}
				delete(want, c.ID)
			}
			held := 0
			for _, data := range want {
				held += len(data)
			}
			if held > wire.MaxMessage || len(want) > wire.MaxAssemblies {
				t.Fatalf("%d bytes of %d messages are held", held, len(want))
			}
		}
	})
}
