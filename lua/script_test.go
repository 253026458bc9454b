package lua

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func TestEveryShardSurvivesAFlushOfTheScripts(t *testing.T) {
	t.Parallel()
	rdb := client(t, 3, addrs...)
	shards := make([]*bench, 8)
	for i := range shards {
		shards[i] = setupOn(t, rdb)
	}
	for round := range 5 {
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		applyToAll(t, shards, round)
	}
	auditRounds(t, shards, 5)
}

// applyToAll opens an account in round 0 and then credits 1, on every shard.
func applyToAll(t *testing.T, shards []*bench, round int) {
	t.Helper()
	for _, b := range shards {
		c := b.credit("a", "1")
		if round == 0 {
			c = b.open("a", "")
		}
		r := b.store.Apply(t.Context(), b.call(c, c))
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if r.Decisions[0].Kind != Decided || r.Decisions[1].Kind != Remembered || r.Head.Position != uint64(round+1) {
			t.Errorf("shard %d, round %d: %+v", b.shard, round, r)
		}
		b.head = r.Head
	}
}

func auditRounds(t *testing.T, shards []*bench, rounds int) {
	t.Helper()
	want := fmt.Sprintf("%d %d USD/2", rounds-1, rounds)
	for _, b := range shards {
		if events := b.log(); len(events) != rounds || b.record("a") != want {
			t.Errorf("shard %d: %d events and %q, not %d and %q", b.shard, len(events), b.record("a"), rounds, want)
		}
	}
}

func TestNothingIsLostOrDoubledWhileTheScriptsAreFlushedAgainAndAgain(t *testing.T) {
	t.Parallel()
	const rounds, flushes = 60, 400
	rdb := client(t, 3, addrs...)
	shards := make([]*bench, 4)
	for i := range shards {
		shards[i] = setupOn(t, rdb)
	}
	var flusher sync.WaitGroup
	flusher.Go(func() { // ends by itself
		for range flushes {
			if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for round := range rounds {
		applyToAll(t, shards, round)
	}
	flusher.Wait()
	auditRounds(t, shards, rounds)
	for _, b := range shards {
		b.ok(rdb.ScriptFlush(t.Context()).Err())
		b.rebuild("g2", b.log()...)
		b.whole()
	}
}

// A row says whether its command is the only one of its account. It decides how, not what.
func TestWhichAccountsHaveOneCommandIsNotTakenOnTrust(t *testing.T) {
	t.Parallel()
	for _, claim := range []uint16{0, alone} {
		b := busy(t, setup(t))
		b.apply(b.open("d", "-5"), b.open("c", "-5"), b.credit("d", "7"))
		call := b.call(b.debit("a", "1"), b.debit("d", "1"), b.debit("d", "10"), b.debit("d", "1"), b.debit("d", "2"), b.credit("a", "3"), b.credit("d", "1"), b.debit("c", "5"), as("h", b.hold("d", "1", 0)), b.debit("c", "1"), b.debit("d", "1"), b.credit("d", "1"))
		args := call.args(0)
		rows, _ := args[8].([]byte)
		for row := range slices.Chunk(rows, rowBytes) {
			binary.BigEndian.PutUint16(row, binary.BigEndian.Uint16(row)&^alone|claim)
		}
		reply, err := b.rawRun(args)
		b.ok(err)
		r := call.result(reply)
		b.ok(r.Err)
		b.said(r.Decisions, "applied -1 99@3", "applied -1 6@3", "applied -10 -4@4", "applied -1 -5@5", "INSUFFICIENT_FUNDS 0 -5@5", "applied 3 102@4", "applied 1 -4@6", "applied -5 -5@2", "applied 0 -4@7",
			"INSUFFICIENT_FUNDS 0 -5@2", "INSUFFICIENT_FUNDS 0 -4@7", "applied 1 -3@8")
		if got := b.record("a") + ", " + b.record("d") + ", " + b.record("c"); got != "102 4 USD/2 -5 active, -3:1 8 USD/2 -5 active, -5 2 USD/2 -5 active" {
			t.Errorf("claiming %d: records %q", claim, got)
		}
	}
}

func TestTheSameCallAgainAfterALostReplyIsOutOfSync(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	call := b.call(b.credit("a", "1"), b.debit("a", "900"))
	b.run(call)
	b.refused("sent again", call, ErrOutOfSync)
	b.refused("sent again", call, ErrOutOfSync)
	call.Expected = b.head
	b.untouched("from the head that Inspect gave", func() {
		b.said(b.run(call), "remembered applied 1 101@3", "remembered INSUFFICIENT_FUNDS 0 101@3")
	})
}

// Fifty callers with one id: one is decided, whatever the others believe.
func TestConcurrentCopiesOfACommandHaveOneOutcome(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	call := b.call(b.debit("a", "60"))
	results := make([]Result, 50)
	var callers sync.WaitGroup
	for i := range results {
		callers.Go(func() { results[i] = b.store.Apply(t.Context(), call) })
	}
	callers.Wait()
	decided := 0
	for _, r := range results {
		switch {
		case r.Err == nil && r.Decisions[0].Kind == Decided:
			decided++
			b.head = r.Head
		case !errors.Is(r.Err, ErrOutOfSync):
			t.Errorf("%+v", r)
		}
	}
	if got := b.record("a"); decided != 1 || got != "40 3 USD/2 -5 active" {
		t.Errorf("decided %d times, record %q", decided, got)
	}
	b.whole()
}

func TestCallsThatCanNotBeRightAreNotSent(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	closed := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = closed.Close() })
	nowhere := New(closed)
	early := b.call(b.credit("a", "1"))
	early.Now = early.Now.AddDate(-100, 0, 0)
	for what, call := range map[string]Call{
		"too many":   b.call(slices.Repeat(list(b.credit("a", "1")), CommandsMax+1)...),
		"no id":      b.call(&ledgerv1.Command{Account: "a"}),
		"no account": b.call(&ledgerv1.Command{CommandId: "x"}),
		"early":      early,
	} {
		want := b.store.Apply(t.Context(), call).Err
		got := nowhere.Apply(t.Context(), call).Err
		if want == nil || got == nil || want.Error() != got.Error() {
			t.Errorf("%s: %v where there is a Redis, %v where there is none", what, want, got)
		}
	}
	if _, err := b.store.Replay(t.Context(), b.shard, b.point(), make([]*ledgerv1.Event, EventsMax+1), "g2"); err == nil || errors.Is(err, ErrOutOfSync) {
		t.Errorf("%d events in one replay: %v", EventsMax+1, err)
	}
	b.whole()
}
