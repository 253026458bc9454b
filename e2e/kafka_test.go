package e2e

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/hotledger/hotledger/e2e/stack"
	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/schemas/topics"
)

// impatient services notice sooner that one of them is gone.
var impatient = []string{"LEDGER_WRITER_SESSION_TIMEOUT=6s", "LEDGER_WRITER_TRANSACTION_TIMEOUT=4s", "LEDGER_WRITER_REDIS_BUDGET=3s"}

// TestALedgerOnApacheKafka runs on the real broker what the other tests run on the embedded one.
func TestALedgerOnApacheKafka(t *testing.T) {
	t.Parallel()
	w := setupOn(t, stack.Options{Apache: true}, impatient...)
	if _, err := w.StartProjector(); err != nil {
		t.Fatal(err)
	}
	binary := writerWithTraps(t)
	l := newWorkload(t, 4)
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"a careless workload is audited", func(t *testing.T) { w.serveWhile(t, func() { w.careless(t, l) }) }},
		{"the writer dies after the apply", func(t *testing.T) { w.crashAndGoOn(t, l, binary, "applied") }},
		{"the writer dies after the commit", func(t *testing.T) { w.crashAndGoOn(t, l, binary, "committed") }},
		{"the broker dies under load", func(t *testing.T) {
			w.serveWhile(t, func() {
				w.under(t, l, func() {
					w.engines.Apache.Kill()
					must(t, w.engines.Apache.Restart(bounded(t)))
				})
			})
		}},
		{"a writer sleeps past its transaction and wakes up", func(t *testing.T) { w.zombie(t, l, binary) }},
	} {
		if !t.Run(test.name, test.run) {
			return // what follows would stand on a broken ledger
		}
	}
}

// serveWhile runs a writer of this process during do.
func (w *whole) serveWhile(t *testing.T, do func()) {
	t.Helper()
	stop, err := w.StartWriter()
	must(t, err)
	do()
	must(t, stop())
}

// careless lets a workload through, poison included, and has it audited and reconciled.
func (w *whole) careless(t *testing.T, l load) {
	t.Helper()
	l.open(t, w)
	poisoned := l.send(t, w.Writer.Kafka, 10_000)
	w.awaitDecided(t)
	verdict := w.audit(t)
	t.Logf("%d commands, %d events, %d accounts, %d poison records", verdict.Commands, verdict.Events, verdict.Accounts, poisoned)
	if got := w.count(t, topics.DeadLetters); got < poisoned {
		t.Errorf("%d dead letters for %d poison records", got, poisoned)
	}
	w.reconcileClean(t)
}

// crashAndGoOn lets a writer die in a trap, on whatever the ledger holds, and another one take over.
func (w *whole) crashAndGoOn(t *testing.T, l load, binary, trap string) {
	t.Helper()
	before := w.count(t, topics.Events)
	l.send(t, w.Writer.Kafka, 2_000)
	w.dieAt(t, binary, trap)
	left := 0
	for shard := range 4 {
		state, err := lua.New(w.Redis).Inspect(t.Context(), shard)
		if err != nil || state.Condition == lua.Broken {
			t.Fatalf("shard %d after the crash: %+v %v", shard, state, err)
		}
		left += len(state.Outbox)
	}
	if left == 0 {
		t.Error("the writer died without having applied anything")
	}
	if more := w.count(t, topics.Events) - before; (trap == "applied") != (more == 0) {
		t.Errorf("%d more events in the log after a crash at %q", more, trap)
	}
	w.serveWhile(t, func() {
		l.send(t, w.Writer.Kafka, 2_000)
		w.awaitDecided(t)
		w.awaitRedis(t)
		w.audit(t)
	})
}

// zombie stops a writer's process with a batch under way until another one has taken over its shards, and lets it go on: what it commits
// then must be refused.
func (w *whole) zombie(t *testing.T, l load, binary string) {
	t.Helper()
	process := exec.CommandContext(t.Context(), binary)
	process.Env = append(append(os.Environ(), w.Environ...), "LEDGER_WRITER_INSTANCE_ID=zombie-"+t.Name(), "LOG_LEVEL=warn")
	process.Stderr = os.Stderr
	must(t, process.Start())
	w.under(t, l, func() {
		must(t, w.engines.Redis.Pause()) // with commands on their way to it
		must(t, process.Process.Signal(syscall.SIGSTOP))
		must(t, w.engines.Redis.Resume())
		stop, err := w.StartWriter()
		must(t, err)
		w.advance(t) // the other one has the shards
		must(t, process.Process.Signal(syscall.SIGCONT))
		w.advance(t)
		must(t, stop()) // and the first one takes them back, as a member like any other
	})
	must(t, process.Process.Signal(syscall.SIGTERM))
	must(t, process.Wait())
}
