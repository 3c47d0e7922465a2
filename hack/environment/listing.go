// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/kubenest/kubenest/hack/process"
)

// listing is the file that says which process is what.
type listing struct {
	path string

	mu      sync.Mutex
	removed bool
}

func (l *listing) update(processes []*process.Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed {
		return
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "PID\tNAME\tLOG") // a Builder does not fail
	for _, p := range processes {
		if pid := p.PID(); pid != 0 {
			_, _ = fmt.Fprintf(table, "%d\t%s\t%s\n", pid, p.Name(), p.LogFile())
		}
	}
	_ = table.Flush()
	_ = writeFile(l.path, []byte(text.String())) // nothing depends on it; the next change tries again
}

func (l *listing) remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removed = true
	_ = os.Remove(l.path)
}
