//go:build traps

package writer

import (
	"os"
	"syscall"
)

// Crash points: with HOTLEDGER_TRAP=applied, the process kills itself between the apply and the commit of its first batch that
// decides anything.
const (
	trapApplied   = "applied"
	trapCommitted = "committed"
)

func hit(name string) {
	if os.Getenv("HOTLEDGER_TRAP") == name {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}
