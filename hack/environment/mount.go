// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// current is the link to the version of a mounted Secret that is in force.
const current = "..data"

// mount writes the keys of a Secret into a folder as a kubelet does: each file
// is a link into a versioned folder, and one rename changes all of them at once.
func mount(dir string, data map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder for a Secret: %w", err)
	}
	version, err := os.MkdirTemp(dir, "..version-")
	if err != nil {
		return fmt.Errorf("make folder for a Secret: %w", err)
	}
	for key, value := range data {
		if err := os.WriteFile(filepath.Join(version, key), value, 0o600); err != nil {
			return fmt.Errorf("write key of a Secret: %w", err)
		}
	}
	before, err := os.Readlink(filepath.Join(dir, current))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read version of a Secret: %w", err)
	}
	next := filepath.Join(dir, current+"_next")
	_ = os.Remove(next) // one that a crash left
	err = errors.Join(os.Symlink(filepath.Base(version), next), os.Rename(next, filepath.Join(dir, current)))
	if err != nil {
		return fmt.Errorf("change version of a Secret: %w", err)
	}
	for key := range data {
		err := os.Symlink(filepath.Join(current, key), filepath.Join(dir, key))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("link key of a Secret: %w", err)
		}
	}
	if before == "" {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(dir, before)); err != nil {
		return fmt.Errorf("remove old version of a Secret: %w", err)
	}
	return nil
}
