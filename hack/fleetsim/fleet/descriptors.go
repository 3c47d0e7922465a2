// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"syscall"
)

// reserved is how many file descriptors a process needs besides its sessions'.
const reserved = 256

// CheckDescriptors fails if this process may not open a connection for each of so
// many clusters, and says how many it may.
func CheckDescriptors(clusters int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	room := int(min(limit.Cur, 1<<30)) - reserved
	if clusters > room {
		return fmt.Errorf("%d clusters need as many connections, and this process may open %d files, enough for %d: "+
			"take several processes with fewer clusters each, or raise the limit (ulimit -n)", clusters, limit.Cur, max(room, 0))
	}
	return nil
}
