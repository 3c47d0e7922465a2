// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// stateFormat is raised when a state folder of the one before cannot be used.
const stateFormat = 1

const (
	lockFile    = "lock"
	stateFile   = "state.json"
	listingFile = "pids"
)

// ErrReset is wrapped by errors that a fresh start mends.
var ErrReset = errors.New("start afresh with 'make clean', or 'bin/devenv run --reset'")

// folder is a locked state folder.
type folder struct {
	dir  string
	lock *os.File
	// resumed is whether there was state already.
	resumed bool
}

// state is what a folder says about itself.
type state struct {
	Format     int    `json:"format"`
	Kubernetes string `json:"kubernetes"`
}

// openFolder locks a state folder, which is made if need be, and checks that
// this program can go on with what is in it.
func openFolder(ctx context.Context, o *Options) (*folder, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for the state: %w", err)
	}
	lock, err := acquire(o.Dir)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: o.Dir, lock: lock}
	if err := f.check(ctx, o.Assets); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func acquire(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of the state folder: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		_ = lock.Close()
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	if err != nil {
		holder, _ := io.ReadAll(lock) // the message does without it
		_ = lock.Close()
		return nil, fmt.Errorf("an environment runs in %s already, as process %s: stop it with Ctrl-C in its terminal or with 'kill %[2]s'",
			dir, strings.TrimSpace(string(holder)))
	}
	err = errors.Join(lock.Truncate(0), write(lock, fmt.Sprintf("%d\n", os.Getpid())))
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("write lock of the state folder: %w", err)
	}
	return lock, nil
}

// Listing is the table of the processes of the environment that runs in a
// folder.
func Listing(dir string) (string, error) {
	none := fmt.Errorf("no environment runs in %s: start one with 'make run'", dir)
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err != nil {
		return "", none
	}
	if lock, err := acquire(dir); err == nil {
		_ = lock.Close()
		return "", none // one that was killed left its table
	}
	data, err := os.ReadFile(filepath.Join(dir, listingFile))
	if err != nil {
		return "", fmt.Errorf("read processes: %w", err)
	}
	return string(data), nil
}

func write(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

func (f *folder) close() { _ = f.lock.Close() } // which unlocks it

func (f *folder) path(elements ...string) string {
	return filepath.Join(append([]string{f.dir}, elements...)...)
}

// check reads what the folder says about itself, or writes it into an empty one.
func (f *folder) check(ctx context.Context, assets string) error {
	kubernetes, err := kubernetesVersion(ctx, assets)
	if err != nil {
		return err
	}
	now := state{Format: stateFormat, Kubernetes: kubernetes}
	data, err := os.ReadFile(f.path(stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.checkEmpty(); err != nil {
			return err
		}
		return f.save(now)
	case err != nil:
		return fmt.Errorf("read state: %w", err)
	}
	f.resumed = true
	var was state
	if err := json.Unmarshal(data, &was); err != nil {
		return fmt.Errorf("the state in %s is damaged (%s: %w): %w", f.dir, stateFile, err, ErrReset)
	}
	if was.Format != now.Format || minor(was.Kubernetes) != minor(now.Kubernetes) {
		return fmt.Errorf("the state in %s is of another version (format %d with Kubernetes %s, this is format %d with %s): %w",
			f.dir, was.Format, was.Kubernetes, now.Format, now.Kubernetes, ErrReset)
	}
	return f.save(now)
}

func (f *folder) checkEmpty() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("read state folder: %w", err)
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			return fmt.Errorf("%s holds other things (%s) and no state of an environment: give another folder with --dir", f.dir, e.Name())
		}
	}
	return nil
}

func (f *folder) save(s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	return writeFile(f.path(stateFile), data)
}

// Reset removes the state in a folder. It refuses a folder in which an
// environment runs, and one that holds anything else.
func Reset(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := acquire(dir)
	if err != nil {
		return err
	}
	f := &folder{dir: dir, lock: lock}
	defer f.close()
	if _, err := os.Stat(f.path(stateFile)); err != nil {
		return f.checkEmpty()
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read state folder: %w", err)
	}
	for _, e := range entries {
		if e.Name() == lockFile || e.Name() == stateFile {
			continue
		}
		if err := os.RemoveAll(f.path(e.Name())); err != nil {
			return fmt.Errorf("reset state: %w", err)
		}
	}
	// Last, so that a reset that was interrupted can be repeated.
	if err := os.Remove(f.path(stateFile)); err != nil {
		return fmt.Errorf("reset state: %w", err)
	}
	return nil
}

func kubernetesVersion(ctx context.Context, assets string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(assets, "kube-apiserver"), "--version")
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("ask kube-apiserver for its version: %w", err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "Kubernetes ")), nil
}

// minor cuts v1.37.2 to v1.37.
func minor(version string) string {
	if i := strings.LastIndexByte(version, '.'); strings.Count(version, ".") == 2 {
		return version[:i]
	}
	return version
}

// writeFile replaces a file that nobody else may read, as a whole.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make folder of %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
