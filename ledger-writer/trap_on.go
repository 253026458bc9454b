//go:build traps

package writer

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Crash points: with HOTLEDGER_TRAP=applied, the process kills itself between the apply and the commit of its first batch that
// decides anything; with HOTLEDGER_TRAP=applied:3, of its third.
const (
	trapApplied   = "applied"   // between the apply and the first record of the transaction
	trapPublished = "published" // the broker has all records of the transaction, not the commit
	trapCommitted = "committed" // between the commit and the trim
	trapInspected = "inspected" // of a recovery: Redis is read, the log is not
	trapSettled   = "settled"   // of a recovery: the outbox is published and committed, not trimmed
	trapReplaying = "replaying" // of a recovery: between two steps of a replay, or after the last
	trapBuilding  = "building"  // of a recovery: between two chunks of a rebuild, or before the swap
	trapSwapped   = "swapped"   // of a recovery: a rebuilt shard is live, and no command was polled again
)

var trapHits atomic.Int64

func hit(name string) {
	wanted, count, _ := strings.Cut(os.Getenv("HOTLEDGER_TRAP"), ":")
	if wanted != name {
		return
	}
	if n, _ := strconv.ParseInt(count, 10, 64); trapHits.Add(1) < n {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
