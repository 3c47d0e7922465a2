// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package streams_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/streams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const frame = wire.FrameType(100)

// handler runs whatever a test says.
type handler struct {
	failure *wire.StreamAnswer
	run     streams.Run
}

func (h *handler) Prepare(context.Context, *wire.StreamHeader) (streams.Run, *wire.StreamAnswer) {
	return h.run, h.failure
}

// hub is the other end of a stream that is served in a bubble.
type hub struct {
	Gomega
	net.Conn
	reader *bufio.Reader
	frames *wire.FrameReader
	served chan struct{}
	cancel func()
}

func bubble(t *testing.T, h *handler, test func(*hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		f := &hub{Gomega: NewWithT(t), Conn: ours, reader: bufio.NewReader(ours), served: make(chan struct{}), cancel: cancel}
		f.frames = wire.NewFrameReader(f.reader)
		go func() {
			defer close(f.served)
			streams.NewMux(logr.Discard(), map[string]streams.Handler{"test": h}).Serve(ctx, theirs)
		}()
		test(f)
		_ = ours.Close()
		<-f.served
		cancel()
	})
}

func (f *hub) ask(kind string) error {
	f.Expect(wire.WriteStreamHeader(f, kind, struct{}{})).To(Succeed())
	return wire.ReadStreamAnswer(f.reader)
}

func (f *hub) next(want wire.FrameType) string {
	kind, data, err := f.frames.Next()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(kind).To(Equal(want))
	return string(data)
}

func TestServeToTheEnd(t *testing.T) {
	bubble(t, &handler{run: func(_ context.Context, w *streams.Writer) wire.StreamEnd {
		for _, text := range []string{"one", "two"} {
			_ = w.Add(func(b []byte) []byte { return wire.AppendFrame(b, frame, []byte(text)) })
		}
		return wire.StreamEnd{Reason: wire.ReasonComplete, Message: "all\nof it"}
	}}, func(f *hub) {
		f.Expect(f.ask("test")).To(Succeed())
		f.Expect(f.next(frame)).To(Equal("one"))
		time.Sleep(time.Minute) // the reader takes its time
		f.Expect(f.next(frame)).To(Equal("two"))
		f.Expect(f.next(wire.FrameEnd)).To(MatchJSON(`{"reason":"complete","message":"all of it"}`))
		synctest.Wait()
		f.Expect(f.served).NotTo(BeClosed(), "the hub closes first")
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, &handler{failure: wire.FailStream(wire.StreamBusy, "later")}, func(f *hub) {
		f.Expect(f.ask("test")).To(MatchError(wire.FailStream(wire.StreamBusy, "later")))
	})
	bubble(t, &handler{}, func(f *hub) {
		f.Expect(f.ask("other")).To(MatchError(ContainSubstring(`no streams of "other"`)))
	})
	bubble(t, &handler{}, func(f *hub) {
		begin := time.Now()
		_, err := f.Read(make([]byte, 1))
		f.Expect(err).To(MatchError(io.EOF))
		f.Expect(time.Since(begin)).To(Equal(wire.OpeningTimeout), "nothing was asked for")
	})
}

func TestSilenceIsKeptAlive(t *testing.T) {
	bubble(t, &handler{run: func(ctx context.Context, w *streams.Writer) wire.StreamEnd {
		time.Sleep(25 * time.Second)
		_ = w.Add(func(b []byte) []byte { return wire.AppendFrame(b, frame, nil) })
		<-ctx.Done()
		return wire.StreamEnd{}
	}}, func(f *hub) {
		f.Expect(f.ask("test")).To(Succeed())
		begin := time.Now()
		for _, at := range []time.Duration{10 * time.Second, 20 * time.Second} {
			f.next(wire.FrameKeepAlive)
			f.Expect(time.Since(begin)).To(Equal(at))
		}
		f.next(frame)
		f.next(wire.FrameKeepAlive)
		f.Expect(time.Since(begin)).To(Equal(35*time.Second), "counted from the last frame")
	})
}

func TestAReaderThatStopsStopsTheWriterOnly(t *testing.T) {
	added := 0
	bubble(t, &handler{run: func(ctx context.Context, w *streams.Writer) wire.StreamEnd {
		for ctx.Err() == nil {
			if w.Add(func(b []byte) []byte { return wire.AppendFrame(b, frame, make([]byte, 1000)) }) != nil {
				break
			}
			added++
		}
		return wire.StreamEnd{}
	}}, func(f *hub) {
		f.Expect(f.ask("test")).To(Succeed())
		time.Sleep(time.Hour)
		synctest.Wait()
		f.Expect(added).To(BeNumerically("<", 100), "little gathers")
		_ = f.Close() // clean cancel: it is served no longer
		<-f.served
	})
}

func TestTheSessionsEndStops(t *testing.T) {
	bubble(t, &handler{run: func(ctx context.Context, _ *streams.Writer) wire.StreamEnd {
		<-ctx.Done()
		return wire.StreamEnd{Reason: wire.ReasonStopping}
	}}, func(f *hub) {
		f.Expect(f.ask("test")).To(Succeed())
		f.cancel()
		for { // the end may get through, or not
			kind, _, err := f.frames.Next()
			if err != nil {
				f.Expect(err).To(MatchError(io.EOF))
				break
			}
			f.Expect(kind).To(Equal(wire.FrameEnd))
		}
		<-f.served
	})
}
