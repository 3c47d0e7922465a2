// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

const (
	// maxLog is the size beyond which a log is put aside before the next start.
	maxLog = 16 << 20
	// tailBytes bounds what Tail reads.
	tailBytes = 8 << 10
	maxLine   = 400
)

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("put a large log aside: %w", err)
		}
	}
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// Tail gives the last lines of the log, each cut to a readable length.
func (p *Process) Tail(lines int) string {
	file, err := os.Open(p.spec.LogFile)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer file.Close()
	if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
		_, _ = file.Seek(0, io.SeekStart) // a short log is read whole
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return fmt.Sprintf("(log cannot be read: %v)", err)
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		if len(line) > maxLine {
			line = strings.ToValidUTF8(line[:maxLine], "") + "…"
		}
		all[i] = "    " + line
	}
	return strings.Join(all, "\n")
}

// Log gives what the log holds from a byte offset on, and the offset of its end.
// A log that was not written yet is empty.
func (p *Process) Log(from int64) (text string, end int64, err error) {
	file, err := os.Open(p.spec.LogFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return "", 0, err
	}
	data, err := io.ReadAll(file)
	return string(data), from + int64(len(data)), err
}
