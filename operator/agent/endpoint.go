// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/kubenest/kubenest/api/wire"
)

// Endpoint is where to dial for a hub URL as people write it, with or without a
// path and a trailing slash. The error says what is expected, and does not repeat
// a user name or password.
func Endpoint(hubURL string, insecurePlainHTTP bool) (*url.URL, error) {
	const expected = "expected something like https://hub.example.com or https://example.com/kubenest"
	text := strings.TrimSpace(hubURL)
	if text == "" {
		return nil, errors.New("hub URL is empty: " + expected)
	}
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "@"):
		return nil, errors.New("hub URL must not hold a user name or password: the operator proves itself with its token; " + expected)
	case err != nil:
		return nil, errors.New("hub URL can not be read: " + expected)
	case !strings.Contains(text, "://"):
		return nil, fmt.Errorf("hub URL %q has no scheme: %s", text, expected)
	case u.Host == "" || u.Hostname() == "":
		return nil, fmt.Errorf("hub URL %q has no host: %s", text, expected)
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return nil, fmt.Errorf("hub URL must not have anything behind its path, no \"?\" and no \"#\": %s", expected)
	}
	var scheme string
	switch strings.ToLower(u.Scheme) {
	case "https", "wss":
		scheme = "wss"
	case "http", "ws":
		if !insecurePlainHTTP {
			return nil, fmt.Errorf("hub URL %q is not encrypted: use https://, since the operator sends its token there "+
				"(for a test on one machine, --insecure-plain-http allows it)", text)
		}
		scheme = "ws"
	default:
		return nil, fmt.Errorf("hub URL %q begins with %s://: %s", text, u.Scheme, expected)
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	path = strings.TrimSuffix(path, wire.Path) // somebody copied the endpoint itself
	endpoint, err := url.Parse(scheme + "://" + u.Host + path + wire.Path)
	if err != nil {
		return nil, errors.New("hub URL can not be read: " + expected)
	}
	return endpoint, nil
}
