// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of /proc/stat, on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cpuUse is the CPU time that was used until some moment, by the whole machine and
// by this program with the processes that it started and that have ended.
type cpuUse struct {
	at        time.Time
	all, ours time.Duration
	known     bool
}

func readCPUUse() cpuUse {
	u := cpuUse{at: time.Now()}
	var self, children syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &self) != nil || syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children) != nil {
		return u
	}
	u.ours = time.Duration(self.Utime.Nano() + self.Stime.Nano() + children.Utime.Nano() + children.Stime.Nano())
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return u
	}
	for i, field := range fields[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u
		}
		if i != 3 && i != 4 {
			u.all += time.Duration(n) * tick
		}
	}
	u.known = true
	return u
}

// othersSince is the share of the machine that others used since, in words. What
// the kernel does for nobody in particular counts as theirs.
func (u cpuUse) othersSince() string {
	now := readCPUUse()
	if !u.known || !now.known {
		return "an unknown part"
	}
	others := max(0, (now.all-u.all)-(now.ours-u.ours))
	return fmt.Sprintf("%.0f %%", 100*others.Seconds()/(now.at.Sub(u.at).Seconds()*float64(runtime.NumCPU())))
}
