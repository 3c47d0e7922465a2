// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxName bounds a replica's name, as pods' names are bounded.
const maxName = 253

// ID is one incarnation of a replica.
type ID struct {
	// Name is the replica's, such as its pod's.
	Name string
	// Boot is drawn anew each time the replica starts.
	Boot string
}

// New draws an ID for a replica that starts.
func New(name string) ID {
	return ID{Name: name, Boot: strings.ToLower(rand.Text()[:16])}
}

// Parse reads what String wrote.
func Parse(s string) (ID, error) {
	name, boot, ok := strings.Cut(s, "/")
	if !ok || name == "" || boot == "" || len(name) > maxName || strings.Contains(boot, "/") {
		return ID{}, fmt.Errorf("%.320q is not a replica's id, name/boot", s)
	}
	return ID{Name: name, Boot: boot}, nil
}

// String is "name/boot", as status.session.replica has it.
func (id ID) String() string { return id.Name + "/" + id.Boot }

// leaseName is the name of a replica's Lease. Names that are no Kubernetes
// names are made fit, and stay distinct by a hash.
func leaseName(name string) string {
	const prefix, longest = "replica-", 200
	fit := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, name), "-")
	if fit == name && len(fit) <= longest {
		return prefix + fit
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + strings.Trim(fit[:min(len(fit), longest)]+"-"+hex.EncodeToString(sum[:4]), "-")
}
