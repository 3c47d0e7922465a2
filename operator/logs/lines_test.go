// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
)

var second = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func stamp(nanos int) string {
	return second.Add(time.Duration(nanos)).Format("2006-01-02T15:04:05.000000000Z07:00")
}

// copied are the texts that come through, with "…" where a line goes on.
func copied(log io.Reader, at *cursor) (texts []string, err error) {
	_, err = copyLines(log, at, func(t *wire.LogText) error {
		text := string(t.Text)
		if t.More {
			text += "…"
		}
		texts = append(texts, text)
		return nil
	})
	return texts, err
}

func TestLinesOfAllKinds(t *testing.T) {
	long := strings.Repeat("long ", 40_000)
	for name, tc := range map[string]struct {
		log  string
		want []string
		last int // nanoseconds of the cursor
	}{
		"plain":            {stamp(1) + " a\n" + stamp(2) + " b\n", []string{"a", "b"}, 2},
		"empty lines":      {stamp(1) + " \n" + stamp(2) + " b\n", []string{"", "b"}, 2},
		"binary":           {stamp(1) + " \x1b[31mred\x00\xff\r\n", []string{"\x1b[31mred\x00\xff\r"}, 1},
		"no break at last": {stamp(1) + " a\n" + stamp(2) + " b", []string{"a", "b"}, 2},
		"kubelet's words":  {stamp(1) + " a\nfailed to watch file: too many open files\n", []string{"a", "failed to watch file: too many open files"}, 1},
		"nothing":          {"", nil, 0},
	} {
		g := NewWithT(t)
		var at cursor
		got, err := copied(strings.NewReader(tc.log), &at)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(Equal(tc.want), name)
		if tc.last > 0 {
			g.Expect(at.time).To(BeTemporally("==", second.Add(time.Duration(tc.last))), name)
		}
	}
	g := NewWithT(t)
	var at cursor
	pieces, err := copied(iotest.OneByteReader(strings.NewReader(stamp(1)+" "+long+"\n"+stamp(2)+" next\n")), &at)
	g.Expect(err).NotTo(HaveOccurred())
	whole := strings.ReplaceAll(strings.Join(pieces, ""), "…", "")
	g.Expect(whole).To(Equal(long + "next"))
	g.Expect(len(pieces)).To(BeNumerically(">", 12), "it is split")
	g.Expect(at.lines).To(Equal(1))
}

func TestResumingLosesAndRepeatsNothing(t *testing.T) {
	var all []string
	var log strings.Builder
	for i := range 50 {
		text := fmt.Sprintf("line %d", i)
		log.WriteString(stamp(i/3) + " " + text + "\n") // three lines have one time
		all = append(all, text)
	}
	for cut := range 50 {
		g := NewWithT(t)
		var at cursor
		stop := errors.New("cut")
		var got []string
		_, err := copyLines(strings.NewReader(log.String()), &at, func(t *wire.LogText) error {
			if len(got) == cut {
				return stop
			}
			got = append(got, string(t.Text))
			return nil
		})
		g.Expect(err).To(MatchError(stop))
		rest, err := copied(strings.NewReader(log.String()), &at)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(append(got, rest...)).To(Equal(all), "cut after %d", cut)
	}
}

func TestALineThatBreaksOffComesAgain(t *testing.T) {
	g := NewWithT(t)
	var at cursor
	broken := io.MultiReader(strings.NewReader(stamp(1)+" a\n"+stamp(2)+" hal"), iotest.ErrReader(io.ErrUnexpectedEOF))
	got, err := copied(broken, &at)
	g.Expect(err).To(MatchError(io.ErrUnexpectedEOF))
	g.Expect(got).To(Equal([]string{"a"}))
	got, err = copied(strings.NewReader(stamp(1)+" a\n"+stamp(2)+" half\n"), &at)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal([]string{"half"}))
}

func TestTimesOutOfOrderAreNotHeldBack(t *testing.T) {
	g := NewWithT(t)
	at := cursor{time: second.Add(5), lines: 1}
	got, err := copied(strings.NewReader(stamp(5)+" read\n"+stamp(4)+" late\n"+stamp(6)+" new\n"), &at)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal([]string{"late", "new"}))
}

func FuzzCopyLines(f *testing.F) {
	f.Add([]byte(stamp(1)+" a\n"+stamp(2)+" b"), 1)
	f.Fuzz(func(t *testing.T, log []byte, nanos int) {
		at := cursor{time: second.Add(time.Duration(nanos)), lines: 1}
		size := 0
		if _, err := copyLines(strings.NewReader(string(log)), &at, func(t *wire.LogText) error {
			size += len(t.Text)
			return nil
		}); err != nil || size > len(log) {
			t.Fatalf("%d bytes of %d: %v", size, len(log), err)
		}
	})
}
