// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// machine describes where the numbers are from, as far as the system tells.
func machine() string {
	text := fmt.Sprintf("%d cores", runtime.NumCPU())
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		text += " (" + model + ")"
	}
	if total := field("/proc/meminfo", "MemTotal"); total != "" {
		if kilobytes, err := strconv.Atoi(strings.TrimSuffix(total, " kB")); err == nil {
			text += fmt.Sprintf(", %.0f GiB", float64(kilobytes)/(1<<20))
		}
	}
	text += ", " + runtime.GOOS + "/" + runtime.GOARCH
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		text += " " + strings.TrimSpace(string(release))
	}
	return text + ", " + runtime.Version()
}

// loadAverage is what else the machine did lately; empty if it does not tell.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// resident is how much memory a process has, in bytes.
func resident(pid int) (int, error) {
	value := field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	kilobytes, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(value, "kB")))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d from /proc (%q): this needs Linux", pid, value)
	}
	return kilobytes << 10, nil
}

// field reads the first "name: value" of a file; empty if there is none.
func field(file, name string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
