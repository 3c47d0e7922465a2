// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package ports_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/hack/ports"
)

func open(g *WithT, path string) *ports.Book {
	g.THelper()
	book, err := ports.Open(path)
	g.Expect(err).NotTo(HaveOccurred())
	return book
}

func address(g *WithT, book *ports.Book, name string) string {
	g.THelper()
	a, err := book.Address(name)
	g.Expect(err).NotTo(HaveOccurred())
	return a
}

func TestRemembersUnlessTaken(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "ports.json")
	first := open(g, path)
	hub, store := address(g, first, "hub"), address(g, first, "store")
	g.Expect(hub).NotTo(Equal(store))

	g.Expect(address(g, open(g, path), "hub")).To(Equal(hub))

	other, err := net.Listen("tcp", hub)
	g.Expect(err).NotTo(HaveOccurred())
	defer other.Close()
	again := open(g, path)
	g.Expect(address(g, again, "store")).To(Equal(store))
	g.Expect(address(g, again, "hub")).NotTo(BeElementOf(hub, store))
}

func TestDamagedBookIsAnError(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "ports.json")
	g.Expect(os.WriteFile(path, []byte("{"), 0o600)).To(Succeed())
	_, err := ports.Open(path)
	g.Expect(err).To(MatchError(ContainSubstring("damaged")))
}
