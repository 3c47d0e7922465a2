// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// cursor is up to where a container's log has been sent.
type cursor struct {
	time  time.Time
	lines int // of exactly that time, up to there
}

// sent notes a line.
func (c *cursor) sent(at time.Time) {
	switch {
	case at.IsZero(): // it is not of the container
	case at.Equal(c.time):
		c.lines++
	default:
		c.time, c.lines = at, 1
	}
}

// sieve holds back what comes before a cursor.
type sieve struct {
	after   cursor
	seen    int // lines of exactly the cursor's time
	passing bool
}

func newSieve(after cursor) *sieve { return &sieve{after: after, passing: after.time.IsZero()} }

// pass reports whether a line comes after the cursor. After the cursor's own line,
// all do: times need not rise.
func (s *sieve) pass(at time.Time) bool {
	switch {
	case s.passing:
		return true
	case at.IsZero() || at.Before(s.after.time):
		return false
	case at.Equal(s.after.time) && s.seen < s.after.lines:
		s.seen++
		s.passing = s.seen == s.after.lines
		return false
	}
	s.passing = true
	return true
}

// copyLines sends the lines of a log that come after a cursor, which it moves along.
// A line may be of any length and hold any bytes. It reports whether anything was
// sent, and why it stopped: nil at the end of the log.
func copyLines(log io.Reader, at *cursor, send func(*wire.LogText) error) (sent bool, err error) {
	reader := bufio.NewReaderSize(log, wire.MaxLogText)
	sieve := newSieve(*at)
	for {
		piece, err := reader.ReadSlice('\n')
		if len(piece) == 0 {
			return sent, endOf(err)
		}
		stamp, text := cutTime(piece)
		pass, begun := sieve.pass(stamp), false
		for {
			more, broken := errors.Is(err, bufio.ErrBufferFull), !whole(err)
			if broken {
				text = nil // the line comes again when the log is opened again
			}
			if pass && (!broken || begun) {
				if sending := send(&wire.LogText{Time: stamp, Text: bytes.TrimSuffix(text, []byte("\n")), More: more}); sending != nil {
					return sent, sending
				}
				sent, begun = true, true
			}
			if !more {
				break
			}
			text, err = reader.ReadSlice('\n')
		}
		if pass && whole(err) {
			at.sent(stamp)
		}
		if err != nil {
			return sent, endOf(err)
		}
	}
}

// whole reports whether a piece that was read with an error may be sent.
func whole(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull)
}

func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// longestTime is the longest that Kubernetes writes, with its zone.
const longestTime = len("2006-01-02T15:04:05.999999999+07:00")

// cutTime takes the time off a line's beginning. It is zero, and the text whole, if
// there is none: kubelets put messages of their own into logs.
func cutTime(line []byte) (stamp time.Time, text []byte) {
	space := bytes.IndexByte(line[:min(len(line), longestTime+1)], ' ')
	if space < 0 {
		return time.Time{}, line
	}
	stamp, err := time.Parse(time.RFC3339Nano, string(line[:space]))
	if err != nil {
		return time.Time{}, line
	}
	return stamp.UTC(), line[space+1:]
}
