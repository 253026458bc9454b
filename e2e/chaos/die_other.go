//go:build !linux

package chaos

import "syscall"

func withParent() *syscall.SysProcAttr { return nil }
