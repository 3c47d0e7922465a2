// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// Options of a process that makes load.
type Options struct {
	// Server is where it connects, and Control where it takes its orders, host:port.
	Server, Control string
	// CertFile is the server's certificate.
	CertFile string
}

// Order is one thing to do, of which the first that is set is done.
type Order struct {
	// Tokens to open a session with each, Parallel at once.
	Tokens   []string `json:",omitempty"`
	Parallel int      `json:",omitempty"`
	// PerSecond heartbeats, for For.
	PerSecond float64 `json:",omitempty"`
	// For is how long to beat: at a rate if there is one, else as fast as it goes.
	For time.Duration `json:",omitempty"`
	// Close all sessions.
	Close bool `json:",omitempty"`
}

// Done is what became of an order.
type Done struct {
	// Heartbeats that were sent.
	Heartbeats int64
	// Began and Ended are by the clock of the machine.
	Began, Ended time.Time
}

// Run takes orders until ctx ends.
func Run(ctx context.Context, o Options) error {
	certificate, err := os.ReadFile(o.CertFile)
	if err != nil {
		return fmt.Errorf("read the server's certificate: %w", err)
	}
	c, err := newClients(o.Server, certificate)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Control)
	if err != nil {
		return fmt.Errorf("listen for orders: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /order", func(w http.ResponseWriter, r *http.Request) {
		var order Order
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		done, err := c.obey(r.Context(), &order)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(done) // the asker may be gone
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: wire.OpeningTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // the process ends
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve orders: %w", err)
	}
	return nil
}

func (c *clients) obey(ctx context.Context, o *Order) (done Done, err error) {
	done.Began = time.Now()
	beating, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	switch {
	case len(o.Tokens) > 0:
		err = c.connect(ctx, o.Tokens, o.Parallel)
	case len(c.all()) == 0 && !o.Close:
		err = errors.New("no session to beat with")
	case o.PerSecond > 0:
		var sent int
		sent, err = c.pace(beating, o.PerSecond)
		done.Heartbeats = int64(sent)
	case o.For > 0:
		done.Heartbeats, err = c.saturate(beating)
	case o.Close:
		c.close()
	}
	done.Ended = time.Now()
	return done, err
}

// Control gives orders to a process that makes load.
type Control struct {
	// Address is Options.Control.
	Address string
}

// Ready fails while the process does not take orders.
func (c Control) Ready(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/ready", http.NoBody, nil)
}

// Give gives an order and waits until it is done.
func (c Control) Give(ctx context.Context, o Order) (done Done, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return done, fmt.Errorf("encode order: %w", err)
	}
	err = c.do(ctx, http.MethodPost, "/order", bytes.NewReader(body), &done)
	return done, err
}

func (c Control) do(ctx context.Context, method, path string, body io.Reader, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.Address+path, body)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("order load: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // the status says enough
		return fmt.Errorf("order load: %s: %s", response.Status, bytes.TrimSpace(text))
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
