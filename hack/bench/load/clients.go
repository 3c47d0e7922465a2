// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/kubenest/kubenest/api/wire"
)

// clients are the sessions of this process.
type clients struct {
	dialer  websocket.Dialer
	address string
	beats   [2]*websocket.PreparedMessage

	mu    sync.Mutex
	conns []*client
}

// client is one session.
type client struct {
	ws    *websocket.Conn
	pongs chan struct{}
	gone  chan struct{} // closed when it has ended
	beat  int           // which of the two comes next; owned by the one who beats
}

func newClients(address string, certificate []byte) (*clients, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		return nil, errors.New("no certificate to trust")
	}
	c := &clients{
		address: address,
		dialer: websocket.Dialer{
			TLSClientConfig:  &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			HandshakeTimeout: wire.OpeningTimeout,
			Subprotocols:     []string{wire.Subprotocol},
			ReadBufferSize:   512,
			WriteBufferPool:  &sync.Pool{},
		},
	}
	// Figures that move each time are the dear kind of heartbeat.
	for i := range c.beats {
		frame, err := wire.Encode(wire.TypeHeartbeat, wire.Heartbeat{Facts: facts(int64(i))})
		if err != nil {
			return nil, err
		}
		if c.beats[i], err = websocket.NewPreparedMessage(websocket.TextMessage, frame); err != nil {
			return nil, fmt.Errorf("prepare heartbeat: %w", err)
		}
	}
	return c, nil
}

func facts(i int64) *wire.Facts {
	nodes, cpuTotal, cpuUsed, memTotal, memUsed := int32(12), int64(96_000), 31_000+10*i, int64(48<<30), 19<<30+i<<20
	return &wire.Facts{
		KubernetesVersion: "v1.37.2", Nodes: &nodes, CPUTotal: &cpuTotal, CPUUsed: &cpuUsed,
		MemTotal: &memTotal, MemUsed: &memUsed, Source: wire.SourceMetrics,
	}
}

// connect opens a session for each token, so many at once.
func (c *clients) connect(ctx context.Context, tokens []string, parallel int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, token := range tokens {
		group.Go(func() error {
			one, err := c.open(ctx, token)
			if err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.conns = append(c.conns, one)
			return nil
		})
	}
	return group.Wait()
}

func (c *clients) open(ctx context.Context, token string) (*client, error) {
	ws, response, err := c.dialer.DialContext(ctx, "wss://"+c.address+wire.Path, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		if response != nil {
			err = fmt.Errorf("%w: %s", err, response.Status)
		}
		return nil, fmt.Errorf("open session: %w", err)
	}
	_ = response.Body.Close()
	hello, err := wire.Encode(wire.TypeHello, wire.Hello{
		Protocol: wire.Protocol, OperatorVersion: "v0.1.0", ClusterUID: uuid.NewString(), Process: uuid.NewString(),
		Time: time.Now(), Facts: *facts(0),
	})
	if err == nil {
		err = ws.WriteMessage(websocket.TextMessage, hello)
	}
	if err == nil {
		err = welcomed(ws)
	}
	if err != nil {
		_ = ws.Close()
		return nil, fmt.Errorf("open session: %w", err)
	}
	one := &client{ws: ws, pongs: make(chan struct{}, 1), gone: make(chan struct{})}
	go one.read()
	return one, nil
}

func welcomed(ws *websocket.Conn) error {
	_, frame, err := ws.ReadMessage()
	if err != nil {
		return err
	}
	e, err := wire.Decode(frame)
	if err != nil {
		return err
	}
	if e.Type != wire.TypeWelcome {
		return fmt.Errorf("no welcome but %s", e.Type)
	}
	return nil
}

// read throws away what comes; gorilla answers pings meanwhile.
func (o *client) read() {
	defer close(o.gone)
	o.ws.SetPongHandler(func(string) error {
		select {
		case o.pongs <- struct{}{}:
		default: // nobody waits
		}
		return nil
	})
	for {
		if _, _, err := o.ws.NextReader(); err != nil {
			return
		}
	}
}

func (c *clients) all() []*client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conns
}

// send beats once.
func (c *clients) send(o *client) error {
	if err := o.ws.SetWriteDeadline(time.Now().Add(wire.WriteTimeout)); err != nil {
		return err
	}
	o.beat = 1 - o.beat
	return o.ws.WritePreparedMessage(c.beats[o.beat])
}

// paceEvery is how often a paced load catches up with its rate.
const paceEvery = 5 * time.Millisecond

// pace beats at a rate, taking the sessions in turn, until ctx ends. It returns how
// many heartbeats it sent.
func (c *clients) pace(ctx context.Context, perSecond float64) (sent int, err error) {
	conns := c.all()
	ticker := time.NewTicker(paceEvery)
	defer ticker.Stop()
	start := time.Now()
	for {
		select {
		case <-ctx.Done():
			return sent, nil
		case now := <-ticker.C:
			for due := int(now.Sub(start).Seconds() * perSecond); sent < due; sent++ {
				if err := c.send(conns[sent%len(conns)]); err != nil {
					return sent, fmt.Errorf("send heartbeat: %w", err)
				}
			}
		}
	}
}

// batch is how many heartbeats a session sends before it waits for the server to
// have read them, which the pong to its ping tells.
const batch = 32

const (
	// saturating is how many sessions of a process beat at once when a server is
	// saturated: enough to keep it busy, and few enough for each to have its turn.
	saturating = 256
	// answerTimeout is how long a busy server may take to answer a ping.
	answerTimeout = 30 * time.Second
)

// saturate beats on some of the sessions as fast as the server reads, until ctx
// ends. It returns how many heartbeats the server has read.
func (c *clients) saturate(ctx context.Context) (read int64, err error) {
	var (
		group errgroup.Group
		total atomic.Int64
	)
	conns := c.all()
	for _, one := range conns[:min(saturating, len(conns))] {
		group.Go(func() error {
			for ctx.Err() == nil {
				if err := c.burst(one); err != nil {
					return err
				}
				total.Add(batch)
			}
			return nil
		})
	}
	err = group.Wait()
	return total.Load(), err
}

func (c *clients) burst(o *client) error {
	select {
	case <-o.pongs: // of another ping
	default:
	}
	for range batch {
		if err := c.send(o); err != nil {
			return fmt.Errorf("send heartbeat: %w", err)
		}
	}
	if err := o.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(wire.WriteTimeout)); err != nil {
		return fmt.Errorf("send ping: %w", err)
	}
	late := time.NewTimer(answerTimeout)
	defer late.Stop()
	select {
	case <-o.pongs:
		return nil
	case <-late.C:
		return fmt.Errorf("no answer to a ping within %v", answerTimeout)
	case <-o.gone:
		return errors.New("a session ended while it was being measured")
	}
}

// close ends all sessions, and returns when they have ended.
func (c *clients) close() {
	c.mu.Lock()
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	for _, one := range conns {
		_ = one.ws.Close()
	}
	for _, one := range conns {
		<-one.gone
	}
}
