// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // known_hosts hashes names with it; nothing is proven by that
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys are the keys of known_hosts. They are kept in memory, since a pod's file
// system may be read-only.
type hostKeys []hostKey

type hostKey struct {
	patterns []string
	key      ssh.PublicKey
	revoked  bool
}

var errUnknownHost = errors.New("knownHosts has no key of the host, or another one")

// parseKnownHosts reads the lines of a known_hosts file. Those of certificate
// authorities are left out: nothing here checks certificates.
func parseKnownHosts(content []byte) (hostKeys, error) {
	var keys hostKeys
	for len(bytes.TrimSpace(content)) > 0 {
		marker, hosts, key, _, rest, err := ssh.ParseKnownHosts(content)
		if err != nil {
			return nil, fmt.Errorf("read known hosts: %w", err)
		}
		content = rest
		if marker == "cert-authority" {
			continue
		}
		keys = append(keys, hostKey{patterns: hosts, key: key, revoked: marker == "revoked"})
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no host key in it")
	}
	return keys, nil
}

// check is an ssh.HostKeyCallback.
func (k hostKeys) check(host string, _ net.Addr, key ssh.PublicKey) error {
	found := false
	for _, known := range k {
		same := bytes.Equal(known.key.Marshal(), key.Marshal())
		switch {
		case same && known.revoked:
			return errors.New("knownHosts says that the host's key is revoked")
		case same && known.matches(host):
			found = true
		}
	}
	if !found {
		return errUnknownHost
	}
	return nil
}

// algorithms of the keys that are known of a host: it has to show one of those.
func (k hostKeys) algorithms(host string) []string {
	var algorithms []string
	for _, known := range k {
		if known.revoked || !known.matches(host) {
			continue
		}
		names := []string{known.key.Type()}
		if known.key.Type() == ssh.KeyAlgoRSA {
			names = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, name := range names {
			if !slices.Contains(algorithms, name) {
				algorithms = append(algorithms, name)
			}
		}
	}
	return algorithms
}

// matches says whether a line is about a host, <name>:<port>.
func (k *hostKey) matches(host string) bool {
	host = strings.ToLower(knownhosts.Normalize(host))
	matched := false
	for _, pattern := range k.patterns {
		if strings.HasPrefix(pattern, "|1|") {
			matched = matched || hashMatches(pattern, host)
			continue
		}
		pattern, negated := strings.CutPrefix(strings.ToLower(pattern), "!")
		if !strings.ContainsAny(pattern, "*?") {
			pattern = knownhosts.Normalize(pattern)
		}
		// path.Match knows brackets, which here are part of an address.
		escaped := strings.NewReplacer("[", `\[`, "]", `\]`).Replace(pattern)
		if ok, err := path.Match(escaped, host); err != nil || !ok {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// hashMatches compares a name with |1|<salt>|<hash>.
func hashMatches(pattern, host string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	want, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(host))
	return hmac.Equal(mac.Sum(nil), want)
}
