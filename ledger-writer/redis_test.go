package writer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// during sends traffic in pieces, and calls disturb after each but the last one.
func (l *ledger) during(t *testing.T, commands []*ledgerv1.Command, pieces int, disturb func(piece int)) {
	t.Helper()
	for i := range pieces {
		l.send(t, commands[i*len(commands)/pieces:(i+1)*len(commands)/pieces]...)
		if i < pieces-1 {
			disturb(i)
		}
	}
}

// decided waits until the log holds at least n events.
func (l *ledger) decided(t *testing.T, n int) {
	t.Helper()
	until(t, "events", func() string {
		if got := len(l.read(t, topics.Events)); got < n {
			return fmt.Sprintf("%d of %d", got, n)
		}
		return ""
	})
}

// repeated sends commands again whose outcomes are in the log already, and checks that they are told the same ones and change nothing.
func (l *ledger) repeated(t *testing.T, before map[string]*ledgerv1.Event, commands []*ledgerv1.Command) {
	t.Helper()
	for _, c := range commands {
		again := proto.CloneOf(c)
		again.ReplyTo = "again"
		l.send(t, again)
	}
	after := l.audit(t)
	if len(after) != len(before) {
		t.Errorf("%d events became %d", len(before), len(after))
	}
	replies := l.replies(t)
	for _, c := range commands {
		id := c.GetCommandId()
		if len(replies[id]) == 0 {
			t.Errorf("nobody was told of %s", id)
		}
		for _, reply := range replies[id] {
			if reply.GetOutcome().String() != before[id].GetOutcome().String() {
				t.Errorf("%s was told %v, not its first outcome %v", id, reply.GetOutcome(), before[id].GetOutcome())
			}
		}
	}
}

func TestARedisThatComesBackEmptyIsRebuiltUnderLoad(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	commands := traffic("wipe", 3000)
	l.during(t, commands, 4, func(piece int) {
		l.decided(t, piece*500+1) // in the middle of the rest
		l.redis.Kill()
		must(t, l.redis.Restart(t.Context()))
	})
	events := l.audit(t)
	l.repeated(t, events, commands[:200])
}

// snapshot is every key of the ledger, byte for byte.
func (l *ledger) snapshot(t *testing.T) map[string]string {
	t.Helper()
	keys, err := l.rdb.Keys(t.Context(), "ledger:*").Result()
	must(t, err)
	var dumps []*goredis.StringCmd
	_, err = l.rdb.TxPipelined(t.Context(), func(p goredis.Pipeliner) error { // one moment
		for _, key := range keys {
			dumps = append(dumps, p.Dump(t.Context(), key))
		}
		return nil
	})
	if err != nil && err != goredis.Nil { //nolint:errorlint // the pipeline returns it bare; a key may be gone
		t.Fatal(err)
	}
	snapshot := map[string]string{}
	for i, key := range keys {
		if text := dumps[i].Val(); text != "" {
			snapshot[key] = text
		}
	}
	return snapshot
}

// rollback puts Redis back to a snapshot at one go, as a failover to a replica that lags does.
func (l *ledger) rollback(t *testing.T, snapshot map[string]string) {
	t.Helper()
	_, err := l.rdb.TxPipelined(t.Context(), func(p goredis.Pipeliner) error {
		p.FlushDB(t.Context())
		for key, text := range snapshot {
			p.Restore(t.Context(), key, 0, text)
		}
		return nil
	})
	must(t, err)
}

func TestARedisThatWentBackInTimeIsBroughtForwardUnderLoad(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	commands := traffic("rollback", 3000)
	l.send(t, commands[:7]...)
	l.audit(t)
	older := l.snapshot(t)
	l.during(t, commands[7:], 5, func(piece int) {
		l.decided(t, piece*400+8)
		if piece == 2 {
			older = l.snapshot(t) // perhaps with an outbox, if taken between apply and trim
			l.decided(t, piece*400+300)
		}
		l.rollback(t, older)
	})
	events := l.audit(t)
	l.repeated(t, events, commands[7:200])
}

func TestARedisRestoredWithAnOutboxThatIsCommittedSinceIsBroughtForward(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.send(t, payments("a")...)
	first := l.byHand(t, l.writer(t))
	b := first.applied()
	applied := l.snapshot(t)
	must(t, first.publish(t.Context(), b))
	must(t, first.commit(t.Context(), nil))
	first.trim(t.Context(), b)
	first.crash()

	l.rollback(t, applied) // at the log's end, with entries that are committed
	second := l.writer(t)
	stop := start(t, second)
	l.send(t, credit("c2", "a", "1"))
	l.audit(t)
	must(t, stop())

	l.rollback(t, applied) // behind the log, with the same entries
	l.run(t)
	l.send(t, credit("c3", "a", "1"))
	events := l.audit(t)
	if got := events["c3"].GetOutcome().GetAfter().GetBalance(); got != "42" {
		t.Errorf("balance %s", got)
	}
	l.repeated(t, events, []*ledgerv1.Command{debit("d1", "a", "60"), debit("d2", "a", "60"), credit("c2", "a", "1")})
}

func TestAForkedRedisIsRebuilt(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"behind the log": 1, "at the log's position": 2, "ahead of the log": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := setup(t)
			stop := l.run(t)
			l.send(t, open("a"), credit("c1", "a", "100"))
			l.audit(t)
			before := l.snapshot(t)
			l.send(t, debit("d1", "a", "10"), debit("d2", "a", "20"))
			l.audit(t)
			must(t, stop())

			l.rollback(t, before)
			shard := topics.ShardOf("a", shards)
			head, err := l.store.Head(t.Context(), shard)
			must(t, err)
			for i := range others { // another writer, which nobody fenced
				c := credit(fmt.Sprintf("other-%d", i), "a", "1000")
				r := l.store.Apply(t.Context(), lua.Call{Shard: shard, Expected: head.Head, Now: time.Now(), Commands: []lua.Command{{
					Command: c, Fingerprint: lua.FingerprintOf(c), Body: record(t, c).Value,
				}}})
				must(t, r.Err)
				head.Head = r.Head
			}
			l.run(t)
			l.send(t, debit("d3", "a", "70"))
			after := l.audit(t)
			if o := after["d3"].GetOutcome(); o.GetAfter().GetBalance() != "0" {
				t.Errorf("d3: %v", o)
			}
			if after, err := l.store.Head(t.Context(), shard); err != nil || after.Generation == head.Generation {
				t.Errorf("the shard was not rebuilt: %v, %v", after, err)
			}
			l.repeated(t, after, []*ledgerv1.Command{debit("d1", "a", "10"), debit("d2", "a", "20")})
		})
	}
}

func TestDamagedKeysAreRebuilt(t *testing.T) {
	t.Parallel()
	shard := topics.ShardOf("a", shards)
	keys := lua.LiveKeys(shard)
	damages := map[string]func(context.Context, goredis.UniversalClient) error{
		"account not readable": func(ctx context.Context, rdb goredis.UniversalClient) error {
			return rdb.HSet(ctx, lua.AccountsKey(shard), "a", "100 1 nonsense").Err()
		},
		"account with a huge sequence": func(ctx context.Context, rdb goredis.UniversalClient) error {
			return rdb.HSet(ctx, lua.AccountsKey(shard), "a", "100 1000000000000000 EUR/2").Err()
		},
		"a field of the head": func(ctx context.Context, rdb goredis.UniversalClient) error {
			return rdb.HDel(ctx, lua.HeadKey(shard), "turned").Err()
		},
		"all keys": func(ctx context.Context, rdb goredis.UniversalClient) error { return rdb.Del(ctx, keys...).Err() },
		"head position": func(ctx context.Context, rdb goredis.UniversalClient) error {
			return rdb.HSet(ctx, lua.HeadKey(shard), "position", "1e3").Err()
		},
		"head chain": func(ctx context.Context, rdb goredis.UniversalClient) error {
			return rdb.HSet(ctx, lua.HeadKey(shard), "chain", "nonsense").Err()
		},
		"a foreign entry in the outbox": func(ctx context.Context, rdb goredis.UniversalClient) error {
			return rdb.XAdd(ctx, &goredis.XAddArgs{Stream: lua.OutboxKey(shard), ID: "9999999999999-0", Values: []string{"a", "b"}}).Err()
		},
	}
	for _, key := range keys {
		damages["deleted "+key] = func(ctx context.Context, rdb goredis.UniversalClient) error { return rdb.Del(ctx, key).Err() }
		damages["another type at "+key] = func(ctx context.Context, rdb goredis.UniversalClient) error { return rdb.Set(ctx, key, "x", 0).Err() }
		damages["another list at "+key] = func(ctx context.Context, rdb goredis.UniversalClient) error {
			if err := rdb.Del(ctx, key).Err(); err != nil {
				return err
			}
			return rdb.LPush(ctx, key, "x").Err()
		}
	}
	l := setup(t, "LEDGER_WRITER_IDLE_CHECK=1h") // what traffic meets, not what the idle check finds
	l.run(t)
	commands := []*ledgerv1.Command{open("a"), credit("c", "a", "100"), debit("d", "a", "1000")}
	l.send(t, commands...)
	l.audit(t)
	for name, damage := range damages {
		before, err := l.store.Head(t.Context(), shard)
		must(t, err)
		if err := damage(t.Context(), l.rdb); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		next := credit("after "+name, "a", "1")
		commands = append(commands, next)
		l.send(t, next)
		events := l.audit(t)
		if got, want := events[next.GetCommandId()].GetOutcome().GetAfter().GetBalance(), fmt.Sprint(100+len(commands)-3); got != want {
			t.Errorf("%s: balance %s, want %s", name, got, want)
		}
		if after, err := l.store.Head(t.Context(), shard); err != nil || after.Generation == before.Generation {
			t.Errorf("%s: the shard was not rebuilt: %v, %v", name, after, err)
		}
	}
	l.repeated(t, l.audit(t), commands)
}

func TestAWipeOrRollbackOfAnIdleShardIsHealed(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	l.send(t, open("a"))
	l.audit(t)
	older := l.snapshot(t)
	l.send(t, credit("c", "a", "5"))
	l.audit(t)
	for name, disturb := range map[string]func(){
		"wiped":       func() { must(t, l.rdb.FlushAll(t.Context()).Err()) },
		"rolled back": func() { l.rollback(t, older) },
		"restarted":   func() { must(t, l.redis.Restart(t.Context())) },
	} {
		disturb()
		l.audit(t) // which waits until Redis is at the log's head again
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

func TestScriptsFlushedAllTheTimeChangeNothing(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	ctx, cancel := context.WithCancel(t.Context())
	var flushing sync.WaitGroup
	flushing.Go(func() {
		for ctx.Err() == nil {
			_ = l.rdb.ScriptFlush(ctx).Err()
		}
	})
	commands := traffic("flush", 3000)
	l.during(t, commands, 6, func(piece int) { l.decided(t, piece*300+1) })
	l.decided(t, 1500)
	cancel()
	flushing.Wait()
	l.audit(t)
	if n := len(l.letters(t)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

func TestAFullRedisDelaysAndRejectsNothing(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	commands := traffic("full", 1000)
	l.send(t, commands[:300]...)
	l.decided(t, 100)
	must(t, l.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	l.send(t, commands[300:]...)
	until(t, "refused by Redis", func() string {
		info, err := l.rdb.Info(t.Context(), "errorstats").Result()
		if err != nil || !strings.Contains(info, "errorstat_OOM") {
			return fmt.Sprintf("not (%v)", err)
		}
		return ""
	})
	must(t, l.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	for id, e := range l.audit(t) {
		switch r := e.GetOutcome().GetReason(); r {
		case 0, ledgerv1.Reason_REASON_INSUFFICIENT_FUNDS, ledgerv1.Reason_REASON_HOLD_UNKNOWN, ledgerv1.Reason_REASON_NOT_REVERSIBLE:
		default:
			t.Errorf("%s: %s", id, r)
		}
	}
}
