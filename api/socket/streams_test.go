// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package socket_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
)

// Tests of streams run in real time: yamux keeps timers in a pool, which bubbles of
// synctest can't share.

// streaming are connections of which the server opens streams and the client accepts
// them; both are read.
type streaming struct {
	Gomega
	t              *testing.T
	server, client *socket.Conn
	accepted       chan *socket.Stream
	up, down       chan wire.Envelope // messages that came
}

func newStreaming(t *testing.T, o socket.Options) *streaming {
	t.Helper()
	f := &streaming{
		Gomega: NewWithT(t), t: t, accepted: make(chan *socket.Stream, 2*wire.MaxStreams),
		up: make(chan wire.Envelope, 100), down: make(chan wire.Envelope, 100),
	}
	a, b := webSockets(t)
	f.server = socket.New(a, o)
	f.client = socket.New(b, socket.Options{Accept: func(s *socket.Stream) { f.accepted <- s }})
	done := make(chan struct{}, 2)
	for conn, messages := range map[*socket.Conn]chan wire.Envelope{f.server: f.up, f.client: f.down} {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				e, err := conn.Read()
				if err != nil {
					conn.Wait()
					return
				}
				messages <- e
			}
		}()
	}
	t.Cleanup(func() {
		f.server.Close(wire.EndMoving, "")
		<-done
		<-done
	})
	return f
}

// open opens a stream, and gives both ends.
func (f *streaming) open() (ours, theirs *socket.Stream) {
	f.t.Helper()
	ours, err := f.server.OpenStream(f.t.Context())
	f.Expect(err).NotTo(HaveOccurred())
	f.Eventually(f.accepted).Should(Receive(&theirs))
	return ours, theirs
}

func TestStreamCarriesBytesBothWays(t *testing.T) {
	f := newStreaming(t, socket.Options{})
	ours, theirs := f.open()
	go func() { // echoes
		_, _ = io.Copy(theirs, theirs)
		_ = theirs.Close()
	}()
	sent := bytes.Repeat([]byte("0123456789abcde\n"), 100_000)
	// Like a header of yamux, which must not be taken for one.
	sent = append(sent, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9)
	go func() {
		_, _ = ours.Write(sent[:len(sent)-12])
		_, _ = ours.Write(sent[len(sent)-12:])
	}()
	got := make([]byte, len(sent))
	_, err := io.ReadFull(ours, got)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(bytes.Equal(got, sent)).To(BeTrue())

	f.Expect(ours.Close()).To(Succeed())
	f.Expect(ours.Close()).To(Succeed(), "again")
	_, err = ours.Read(make([]byte, 1))
	f.Expect(err).To(MatchError(net.ErrClosed))
}

func TestStreamWithoutAReaderHoldsNothingElseUp(t *testing.T) {
	f := newStreaming(t, socket.Options{})
	stuck, unread := f.open()
	written := make(chan int, 1)
	go func() {
		n, _ := stuck.Write(make([]byte, 4*wire.StreamWindow))
		written <- n
	}()
	other, theirs := f.open()
	go func() { _, _ = io.Copy(theirs, theirs) }()
	for i := range 20 {
		f.Expect(f.server.Send(wire.TypeGoodbye, wire.Goodbye{Reason: fmt.Sprint(i)})).To(Succeed())
		f.Eventually(f.down).Should(Receive())
		f.Expect(f.client.Send(wire.TypeGoodbye, wire.Goodbye{Reason: fmt.Sprint(i)})).To(Succeed())
		f.Eventually(f.up).Should(Receive())
		_, err := fmt.Fprintln(other, i)
		f.Expect(err).NotTo(HaveOccurred())
		line := make([]byte, len(fmt.Sprintln(i)))
		_, err = io.ReadFull(other, line)
		f.Expect(err).NotTo(HaveOccurred())
	}
	f.Consistently(written, "50ms").ShouldNot(Receive(), "its writer waits")
	f.Expect(unread.Close()).To(Succeed(), "the reader leaves")
	f.Expect(stuck.Close()).To(Succeed())
	f.Eventually(written).Should(Receive(BeNumerically("<=", wire.StreamWindow)))
	_, err := stuck.Write([]byte("more"))
	f.Expect(err).To(HaveOccurred())
}

func TestClosingEndsReading(t *testing.T) {
	f := newStreaming(t, socket.Options{})
	for name, end := range map[string]func(ours, theirs *socket.Stream) error{
		net.ErrClosed.Error(): func(ours, _ *socket.Stream) error { return ours.Close() },
		io.EOF.Error():        func(_, theirs *socket.Stream) error { return theirs.Close() },
	} {
		ours, theirs := f.open()
		read := make(chan error, 1)
		go func() {
			_, err := ours.Read(make([]byte, 1))
			read <- err
		}()
		f.Consistently(read, "20ms").ShouldNot(Receive())
		f.Expect(end(ours, theirs)).To(Succeed())
		f.Eventually(read).Should(Receive(MatchError(name)))
	}
}

func TestStreamsAreCapped(t *testing.T) {
	f := newStreaming(t, socket.Options{})
	var ours, theirs []*socket.Stream
	for range wire.MaxStreams {
		o, a := f.open()
		ours, theirs = append(ours, o), append(theirs, a)
	}
	_, err := f.server.OpenStream(t.Context())
	f.Expect(err).To(MatchError(socket.ErrTooManyStreams))
	f.Expect(ours[3].Close()).To(Succeed())
	f.Expect(theirs[3].Close()).To(Succeed())
	f.Eventually(func() error {
		_, err := f.server.OpenStream(t.Context())
		return err
	}).Should(Succeed())
}

func TestStreamsEndWithTheirConnection(t *testing.T) {
	f := newStreaming(t, socket.Options{})
	ours, theirs := f.open()
	reads := make(chan error, 1)
	go func() {
		_, err := ours.Read(make([]byte, 1))
		reads <- err
	}()
	writes := make(chan error, 1)
	go func() {
		_, err := ours.Write(make([]byte, 2*wire.StreamWindow))
		writes <- err
	}()
	f.Consistently(reads, "20ms").ShouldNot(Receive())
	f.server.Close(wire.EndRevoked, "")
	var err error
	f.Eventually(reads).Should(Receive(MatchError(ContainSubstring("revoked"))))
	f.Eventually(writes).Should(Receive(&err))
	var ended *socket.Ended
	f.Expect(errors.As(err, &ended)).To(BeTrue(), "%v", err)
	f.Expect(ended.Ending).To(Equal(wire.EndRevoked))
	f.Eventually(func() error {
		_, err := theirs.Read(make([]byte, wire.StreamWindow))
		return err
	}).Should(MatchError(ContainSubstring("revoked")))
	f.Expect(ours.Done()).To(BeClosed())
	_, err = f.server.OpenStream(t.Context())
	f.Expect(err).To(MatchError(ContainSubstring("revoked")))
	f.Expect(ours.Close()).To(Succeed())
}

func TestOnlyOneEndOpensStreams(t *testing.T) {
	f := newStreaming(t, socket.Options{})
	_, err := f.client.OpenStream(t.Context())
	f.Expect(err).To(MatchError(ContainSubstring("opens none")))
}

func TestOpeningAStreamCanBeGivenUp(t *testing.T) {
	g := NewWithT(t)
	a, _ := webSockets(t) // nobody reads at the other end
	s := socket.New(a, socket.Options{})
	// What waits before it fills all the room there is.
	first, err := s.OpenStream(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	var written atomic.Int64
	go func() {
		for {
			n, err := first.Write(make([]byte, 1000))
			if err != nil {
				return
			}
			written.Add(int64(n))
		}
	}()
	g.Eventually(written.Load).Should(BeNumerically(">", wire.MaxFrame-2000))
	g.Consistently(func() bool {
		before := written.Load()
		time.Sleep(10 * time.Millisecond)
		return written.Load() == before
	}, "50ms").Should(BeTrue(), "there is no room any more")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := s.OpenStream(ctx)
		failed <- err
	}()
	time.AfterFunc(50*time.Millisecond, cancel)
	g.Eventually(failed).Should(Receive(MatchError(context.Canceled)))
	s.Close(wire.EndLost, "")
	s.Wait()
}

func TestMessagesGoBeforeStreams(t *testing.T) {
	g := NewWithT(t)
	a, client := webSockets(t)
	s := socket.New(a, socket.Options{})
	stream, err := s.OpenStream(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	go func() { _, _ = stream.Write(make([]byte, wire.StreamWindow)) }()
	read := func() (kind, size int) {
		kind, data, err := client.ReadMessage()
		g.Expect(err).NotTo(HaveOccurred())
		return kind, len(data)
	}
	sizes := 0
	for sizes < wire.StreamWindow/2 {
		kind, size := read()
		g.Expect(kind).To(Equal(websocket.BinaryMessage))
		g.Expect(size).To(BeNumerically("<=", wire.MaxFrame))
		sizes += size
	}
	g.Expect(s.Send(wire.TypeGoodbye, wire.Goodbye{Reason: strings.Repeat("x", 2*wire.MaxFrame)})).To(Succeed())
	g.Expect(s.Send(wire.TypeGoodbye, wire.Goodbye{})).To(Succeed())
	kinds := ""
	for range 6 {
		kind, _ := read()
		kinds += map[int]string{websocket.BinaryMessage: "s", websocket.TextMessage: "m"}[kind]
	}
	g.Expect(kinds).To(MatchRegexp("^s?mmmms+$"), "at most the frame that is being written goes before")
	s.Close(wire.EndLost, "")
	s.Wait()
}

// header of a yamux frame.
func header(kind byte, flags uint16, id, length uint32) []byte {
	h := []byte{0, kind}
	h = binary.BigEndian.AppendUint16(h, flags)
	h = binary.BigEndian.AppendUint32(h, id)
	return binary.BigEndian.AppendUint32(h, length)
}

func TestBrokenRulesOfStreams(t *testing.T) {
	window := func(id uint32) []byte {
		return append(header(0, 0, id, wire.StreamWindow), make([]byte, wire.StreamWindow)...)
	}
	for name, tc := range map[string]struct {
		send   []byte
		ending wire.Ending
	}{
		"a ping":                    {header(2, 1, 0, 1), wire.EndProtocol},
		"a stream of the peer's":    {header(1, 1, 2, 0), wire.EndProtocol},
		"another version":           {append([]byte{1}, header(1, 0, 1, 0)[1:]...), wire.EndProtocol},
		"an unknown type":           {header(9, 0, 1, 0), wire.EndProtocol},
		"a frame over the window":   {header(0, 0, 1, wire.StreamWindow+1), wire.EndProtocol},
		"two windows unread":        {append(window(1), window(1)...), wire.EndProtocol},
		"many frames without data":  {bytes.Repeat(header(1, 0, 1, 0), 2000), wire.EndFlooding},
		"many empty data frames":    {bytes.Repeat(header(0, 0, 1, 0), 2000), wire.EndFlooding},
		"closed twice":              {append(header(1, 4, 1, 0), header(1, 4, 1, 0)...), wire.EndProtocol},
		"gone away for some reason": {header(3, 0, 0, 1), wire.EndProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, client := webSockets(t)
			s := socket.New(a, socket.Options{Budget: socket.Budget{PerSecond: 1, Burst: 50}})
			go func() { // takes what it is told
				for {
					if _, _, err := client.ReadMessage(); err != nil {
						_ = client.Close()
						return
					}
				}
			}()
			stream, err := s.OpenStream(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			go func() {
				for data := tc.send; len(data) > 0; {
					n := min(len(data), wire.MaxFrame)
					if client.WriteMessage(websocket.BinaryMessage, data[:n]) != nil {
						return
					}
					data = data[n:]
				}
			}()
			wantEnded(g, s, tc.ending)
			s.Wait()
			_, err = stream.Read(make([]byte, 1))
			for err == nil {
				_, err = stream.Read(make([]byte, wire.StreamWindow))
			}
			g.Expect(err).To(MatchError(ContainSubstring(string(tc.ending))))
		})
	}
}
