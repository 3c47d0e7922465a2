// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kubenest/kubenest/api/socket"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

// BenchmarkSessionMemory measures what a held session costs the hub between two
// heartbeats, TLS included. The operators are in a process of their own.
//
//	go test ./hub/session -run '^$' -bench SessionMemory -benchtime 1x
func BenchmarkSessionMemory(b *testing.B) {
	const sessions, beats = 2000, 3
	server, hub, authority := overTLS(b, session.Options{})
	var changes atomic.Int64
	all := make(chan struct{})
	server.Registry().Subscribe(func(e session.Event) {
		if e.Kind == session.FactsChanged && changes.Add(1) == sessions*beats {
			close(all)
		}
	})
	tokens := make([]string, sessions)
	for i := range tokens {
		tokens[i] = authority.Issue(identity(fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)))
	}
	before := measure()
	for b.Loop() {
		stop := operators(b, hub.Listener.Addr().String(), beats, tokens)
		<-all
		after := measure()
		opened := float64(server.Registry().Len())
		b.ReportMetric(float64(after.heap-before.heap+after.stack-before.stack)/opened, "B/session")
		b.ReportMetric(float64(after.heap-before.heap)/opened, "heap-B/session")
		b.ReportMetric(float64(after.stack-before.stack)/opened, "stack-B/session")
		b.ReportMetric(float64(after.resident-before.resident)/opened, "resident-B/session")
		b.ReportMetric(float64(after.goroutines-before.goroutines)/opened, "goroutines/session")
		b.ReportMetric(opened, "sessions")
		stop()
	}
}

type usage struct{ heap, stack, resident, goroutines int }

// measure collects first, thrice: stacks shrink by half at a time, and pools let go
// of what they hold at the second.
func measure() usage {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := usage{heap: int(m.HeapAlloc), stack: int(m.StackInuse), goroutines: runtime.NumGoroutine()}
	statm, _ := os.ReadFile("/proc/self/statm") // elsewhere it stays unknown
	if fields := bytes.Fields(statm); len(fields) > 1 {
		pages, _ := strconv.Atoi(string(fields[1]))
		u.resident = pages * os.Getpagesize()
	}
	return u
}

// Orders of the other process: where the hub is, and how often to beat.
const (
	hubVariable   = "KUBENEST_TEST_HUB"
	beatsVariable = "KUBENEST_TEST_BEATS"
)

// operators connects one for each token, in another process.
func operators(b *testing.B, hub string, beats int, tokens []string) (stop func()) {
	b.Helper()
	child := exec.CommandContext(b.Context(), os.Args[0], "-test.run", "^TestOperatorsOfTheBenchmark$")
	child.Env = append(os.Environ(), hubVariable+"="+hub, beatsVariable+"="+strconv.Itoa(beats))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err == nil {
		_, err = fmt.Fprintln(in, strings.Join(tokens, "\n")+"\n")
	}
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		_ = in.Close()
		_ = child.Wait()
	}
}

// TestOperatorsOfTheBenchmark is the other process of BenchmarkSessionMemory. It
// ends when its standard input does.
func TestOperatorsOfTheBenchmark(t *testing.T) {
	hub, beats := os.Getenv(hubVariable), 0
	if _, err := fmt.Sscan(os.Getenv(beatsVariable), &beats); err != nil {
		t.Skip("only as the other process of BenchmarkSessionMemory")
	}
	var connecting, reading sync.WaitGroup
	places := make(chan struct{}, 32)
	conns := make(chan *socket.Conn, 1<<16)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "" {
		token := lines.Text()
		places <- struct{}{}
		connecting.Go(func() {
			defer func() { <-places }()
			c, err := dial(t.Context(), hub, token)
			if err != nil {
				t.Error(err)
				return
			}
			conns <- c
			reading.Go(func() {
				defer c.Wait()
				for err == nil {
					_, err = c.Read()
				}
			})
			for i := range beats {
				_ = c.Send(wire.TypeHeartbeat, wire.Heartbeat{Facts: &wire.Facts{
					KubernetesVersion: "v1.37.2", Nodes: new(int32(i)), CPUTotal: new(int64(96_000)), CPUUsed: new(int64(i)),
					MemTotal: new(int64(48 << 30)), MemUsed: new(int64(1 << 30)), Source: wire.SourceMetrics,
				}})
			}
		})
	}
	connecting.Wait()
	lines.Scan() // until the benchmark closes it
	close(conns)
	for c := range conns {
		c.Close(wire.EndGoodbye, "")
	}
	reading.Wait()
}
