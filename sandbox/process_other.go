//go:build !linux

package sandbox

import "syscall"

// dieWithParent: only Linux can tie a child's life to its parent's; elsewhere an engine outlives a parent that is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }
