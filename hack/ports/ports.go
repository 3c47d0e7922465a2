// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ports hands out ports of 127.0.0.1 and remembers them by name, so
// that a restarted environment keeps its URLs.
package ports

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

// The ports handed out begin here and end below what the kernel gives to
// outgoing connections. A port from that range may be somebody's when a killed
// server wants it back; and a client that keeps dialling a dead server may even
// be given the server's own port, and connect to itself.
const (
	lowest         = 10_240
	defaultHighest = 32_767
)

// Book remembers which port belongs to what.
type Book struct {
	path    string
	highest int

	mu    sync.Mutex
	ports map[string]int
	next  int
}

// Open reads the book in a file, which need not exist.
func Open(path string) (*Book, error) {
	b := &Book{path: path, highest: highest(), ports: map[string]int{}}
	start := fnv.New32a()
	_, _ = start.Write([]byte(path)) // a hash does not fail
	b.next = lowest + int(start.Sum32())%(b.highest-lowest)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case err != nil:
		return nil, fmt.Errorf("read remembered ports: %w", err)
	}
	if err := json.Unmarshal(data, &b.ports); err != nil {
		return nil, fmt.Errorf("remembered ports in %s are damaged: %w", path, err)
	}
	return b, nil
}

// Port gives the port of a name: the one it had if that is free, else another.
// To be called once a name and environment.
func (b *Book) Port(name string) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if port, ok := b.ports[name]; ok && free(port) {
		return port, nil
	}
	for range b.highest - lowest {
		port := b.next
		if b.next++; b.next > b.highest {
			b.next = lowest
		}
		if b.taken(name, port) || !free(port) {
			continue
		}
		b.ports[name] = port
		return port, b.save()
	}
	return 0, fmt.Errorf("no port between %d and %d is free on 127.0.0.1", lowest, b.highest)
}

// Address is Port as host:port.
func (b *Book) Address(name string) (string, error) {
	port, err := b.Port(name)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
}

func (b *Book) taken(name string, port int) bool {
	for other, p := range b.ports {
		if p == port && other != name {
			return true
		}
	}
	return false
}

func (b *Book) save() error {
	data, err := json.MarshalIndent(b.ports, "", "  ")
	if err != nil {
		return fmt.Errorf("encode ports: %w", err)
	}
	if err := os.WriteFile(b.path, data, 0o600); err != nil {
		return fmt.Errorf("remember ports: %w", err)
	}
	return nil
}

func free(port int) bool {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func highest() int {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return defaultHighest
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\t")
	n, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || n < lowest+1000 {
		return defaultHighest
	}
	return n - 1
}
