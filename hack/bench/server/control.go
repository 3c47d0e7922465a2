// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/kubenest/kubenest/hub/token"
)

// maxTokens bounds one answer.
const maxTokens = 100_000

// Stats of a server's process.
type Stats struct {
	// Sessions held now, and heartbeats decoded so far.
	Sessions, Heartbeats int64
	// CPU that the process has used, user's and system's.
	CPU time.Duration
	// Goroutines there are, and what heap and stacks take, in bytes.
	Goroutines       int
	HeapBytes, Stack uint64
}

// controller answers the one who measures.
type controller struct {
	sessions sessionServer
	keys     *token.Keyset
}

func (c *controller) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		stats, err := c.stats()
		answer(w, stats, err)
	})
	mux.HandleFunc("POST /settle", func(w http.ResponseWriter, _ *http.Request) {
		// Stacks shrink by half at a time, and pools let go at the second collection.
		for range 4 {
			debug.FreeOSMemory()
		}
		answer(w, struct{}{}, nil)
	})
	mux.HandleFunc("GET /tokens", func(w http.ResponseWriter, r *http.Request) {
		count, err := strconv.Atoi(r.URL.Query().Get("count"))
		if err != nil || count < 0 || count > maxTokens {
			http.Error(w, "count must be a number of up to "+strconv.Itoa(maxTokens), http.StatusBadRequest)
			return
		}
		tokens, err := mint(c.keys, count)
		answer(w, tokens, err)
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	return mux
}

func (c *controller) stats() (Stats, error) {
	sessions, heartbeats, err := c.sessions.counts()
	if err != nil {
		return Stats{}, err
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return Stats{}, fmt.Errorf("read CPU time: %w", err)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return Stats{
		Sessions: sessions, Heartbeats: heartbeats,
		CPU:        time.Duration(used.Utime.Nano() + used.Stime.Nano()),
		Goroutines: runtime.NumGoroutine(), HeapBytes: memory.HeapInuse, Stack: memory.StackInuse,
	}, nil
}

func answer(w http.ResponseWriter, value any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the asker may be gone
}

// Control talks to a server's control address.
type Control struct {
	// Address is Options.Control.
	Address string
}

// Stats of the server now.
func (c Control) Stats(ctx context.Context) (s Stats, err error) {
	err = c.ask(ctx, http.MethodGet, "/stats", &s)
	return s, err
}

// Settle has the server collect its garbage and give the memory back.
func (c Control) Settle(ctx context.Context) error {
	return c.ask(ctx, http.MethodPost, "/settle", &struct{}{})
}

// Tokens makes tokens of new clusters.
func (c Control) Tokens(ctx context.Context, count int) (tokens []string, err error) {
	err = c.ask(ctx, http.MethodGet, "/tokens?count="+strconv.Itoa(count), &tokens)
	return tokens, err
}

// Profile writes a profile of the server to a file. name is one that
// runtime/pprof knows, or "profile?seconds=…" for CPU.
func (c Control) Profile(ctx context.Context, name, file string) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	defer out.Close()
	return c.do(ctx, http.MethodGet, "/debug/pprof/"+name, func(body io.Reader) error {
		_, err := io.Copy(out, body)
		return err
	})
}

func (c Control) ask(ctx context.Context, method, path string, into any) error {
	return c.do(ctx, method, path, func(body io.Reader) error { return json.NewDecoder(body).Decode(into) })
}

func (c Control) do(ctx context.Context, method, path string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.Address+path, http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // the status says enough
		return fmt.Errorf("ask the server: %s %s: %s", path, response.Status, text)
	}
	if err := read(response.Body); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}
