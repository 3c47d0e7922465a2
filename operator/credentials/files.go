// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/agent"
)

// files is what a connection Secret says, as mounted.
type files struct {
	token, clusterID, hubURL, ca string
}

// readFiles reads all keys from the same version of the Secret: kubelet swaps a
// symlink, and two reads through it might be from two versions.
func readFiles(directory string) (files, error) {
	current := directory
	if data, err := filepath.EvalSymlinks(filepath.Join(directory, "..data")); err == nil {
		current = data
	}
	var f files
	for _, key := range []struct {
		name string
		into *string
		need bool
	}{
		{kubenestv1.ConnectionKeyToken, &f.token, true},
		{kubenestv1.ConnectionKeyClusterID, &f.clusterID, true},
		{kubenestv1.ConnectionKeyHubURL, &f.hubURL, true},
		{kubenestv1.ConnectionKeyCA, &f.ca, false},
	} {
		content, err := os.ReadFile(filepath.Join(current, key.name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && !key.need:
		case err != nil:
			return files{}, fmt.Errorf("read the credentials: %w; the directory must hold the keys of the cluster's "+
				"connection Secret: token, cluster-id, hub-url and, for a private authority, ca.crt", err)
		}
		*key.into = strings.TrimSpace(string(content))
		if key.need && *key.into == "" {
			return files{}, fmt.Errorf("read the credentials: %s is empty; it must hold the key %q of the cluster's connection Secret",
				filepath.Join(directory, key.name), key.name)
		}
	}
	return f, nil
}

// chartToken is the token that the files hold.
func (f *files) chartToken(directory string) (agent.Token, error) {
	where := filepath.Join(directory, kubenestv1.ConnectionKeyToken)
	token, err := agent.ParseToken(f.token)
	if err != nil {
		return agent.Token{}, fmt.Errorf("read the token in %s: %w", where, err)
	}
	if token.Subject != f.clusterID {
		return agent.Token{}, fmt.Errorf("the token in %s is for cluster %q, but %s says %q: take both from one connection Secret",
			where, token.Subject, kubenestv1.ConnectionKeyClusterID, f.clusterID)
	}
	return token, nil
}
