// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package process

import "syscall"

// attributes keep the terminal's Ctrl-C from a program, which is stopped in
// order instead. Only Linux can end it together with its parent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
