package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hotledger/hotledger/lua"
)

// TestAWriterThatDiesBetweenStepsLosesAndDoublesNothing runs the real process, built with its traps, and lets it kill itself.
func TestAWriterThatDiesBetweenStepsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	binary := writerWithTraps(t)
	for trap, ahead := range map[string]bool{"applied": true, "published": true, "committed": false} {
		t.Run(trap, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			load := newWorkload(t, 4)
			must(t, load.SendOpening(t.Context(), w.Writer.Kafka)) // so that there is something to hold, move and undo
			load.send(t, w.Writer.Kafka, 2_000)
			w.dieAt(t, binary, trap)

			left := 0
			for shard := range 4 {
				state, err := lua.New(w.Redis).Inspect(t.Context(), shard)
				if err != nil || state.Condition != lua.Whole {
					t.Fatalf("shard %d after the crash: %+v %v", shard, state, err)
				}
				left += len(state.Outbox)
			}
			if left == 0 {
				t.Fatal("the writer died without having applied anything")
			}
			if events := w.count(t, "ledger.events"); ahead != (events == 0) {
				t.Fatalf("%d events in the log after a crash at %q", events, trap)
			}
			w.serve(t)
			load.send(t, w.Writer.Kafka, 2_000)
			w.awaitDecided(t)
			verdict := w.audit(t)
			t.Logf("%+v", verdict)
			if verdict.Transfers == 0 || verdict.Returned == 0 || verdict.Holds == 0 || verdict.Reversals == 0 {
				t.Errorf("too little was moved to prove anything: %+v", verdict)
			}
		})
	}
}

// writerWithTraps builds the service. Without HOTLEDGER_TRAP it is like any other.
func writerWithTraps(t *testing.T) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "ledger-writer")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "traps", "-o", binary, "./cmd/ledger-writer")
	build.Dir = filepath.Join(root, "ledger-writer")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with traps: %v\n%s", err, out)
	}
	return binary
}

// dieAt runs the writer's process until its trap kills it.
func (w *whole) dieAt(t *testing.T, binary, trap string) {
	t.Helper()
	process := exec.CommandContext(t.Context(), binary)
	process.Env = append(append(os.Environ(), w.Environ...), "HOTLEDGER_TRAP="+trap, "LOG_LEVEL=warn")
	process.Stderr = os.Stderr
	err := process.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the writer did not die in its trap: %v", err)
	}
}
