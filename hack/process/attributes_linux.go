// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// attributes keep the terminal's Ctrl-C from a program, which is stopped in
// order instead, and have the kernel end it when the starting thread ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
