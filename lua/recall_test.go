package lua

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// forgeEntry changes the last entry of the outbox: {"before", "position chain", "now", ms, "known", numbers, "bodies", bodies}.
func (b *bench) forgeEntry(change func(values []string)) {
	b.Helper()
	entries, err := b.rdb.XRange(b.Context(), OutboxKey(b.shard), "-", "+").Result()
	b.ok(err)
	b.ok(b.rdb.Del(b.Context(), OutboxKey(b.shard)).Err())
	for i, entry := range entries {
		var values []string
		for _, name := range []string{"before", "now", "known", "bodies"} {
			text, ok := entry.Values[name].(string)
			if !ok || len(entry.Values) != 4 {
				b.Fatalf("entry %s is %q", entry.ID, entry.Values)
			}
			values = append(values, name, text)
		}
		if i == len(entries)-1 {
			change(values)
		}
		b.ok(b.rdb.XAdd(b.Context(), &redis.XAddArgs{Stream: OutboxKey(b.shard), ID: entry.ID, Values: values}).Err())
	}
}

// forgeOutcome changes what is remembered of a command.
func (b *bench) forgeOutcome(id string, change func(outcome string) string) {
	b.Helper()
	outcome, err := b.rdb.HGet(b.Context(), OutcomesKey(b.shard), OutcomeField(id)).Result()
	b.ok(err)
	forged := change(outcome)
	if forged == outcome {
		b.Fatalf("the outcome %q of %s is as it was", outcome, id)
	}
	b.ok(b.rdb.HSet(b.Context(), OutcomesKey(b.shard), OutcomeField(id), forged).Err())
}

// An entry that was made from another head, or whose content is not what was hashed, or whose outcomes are not those of its call, is never offered
// for publishing.
func TestTheOutboxOfAForkIsDetected(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	entry := func(change func(v []string)) func(b *bench) {
		return func(b *bench) { b.Helper(); b.forgeEntry(change) }
	}
	outcome := func(change func(outcome string) string) func(b *bench) {
		return func(b *bench) { b.Helper(); b.forgeOutcome("c5", change) }
	}
	replaced := func(old, by string) func(b *bench) {
		return outcome(func(o string) string { return strings.Replace(o, old, by, 1) })
	}
	first := func(bodies string) string { _, n := protowire.ConsumeBytes([]byte(bodies)); return bodies[:n] }
	for what, forge := range map[string]func(b *bench){
		"made from another head":     entry(func(v []string) { v[1] = Genesis.words() }),
		"made from another chain":    entry(func(v []string) { v[1] = "3 " + Genesis.Chain }),
		"made from another position": entry(func(v []string) { v[1] = "4" + v[1][1:] }),
		"no head before it":          entry(func(v []string) { v[0] = "previous" }),
		"before it only a chain":     entry(func(v []string) { v[1] = v[1][2:] }),
		"no time":                    entry(func(v []string) { v[3] = "" }),
		"another time":               entry(func(v []string) { v[3] += "0" }),
		"time in words":              entry(func(v []string) { v[3] = "now" }),
		"a known one that is not":    entry(func(v []string) { v[5] = "1" }),
		"all known, and none is":     entry(func(v []string) { v[5] = "1 2" }),
		"known ones in words":        entry(func(v []string) { v[5] = "one" }),
		"body of another":            entry(func(v []string) { v[7] = first(v[7]) + v[7] }),
		"a body is missing":          entry(func(v []string) { v[7] = first(v[7]) }),
		"no bodies":                  entry(func(v []string) { v[7] = "" }),
		"bodies are no commands":     entry(func(v []string) { v[7] = "\x02\xff\xff\x02\xff\xff" }),
		"bodies cut short":           entry(func(v []string) { v[7] = v[7][:3] }),
		"order of bodies":            entry(func(v []string) { v[7] = strings.TrimPrefix(v[7], first(v[7])) + first(v[7]) }),
		"outcome missing":            func(b *bench) { b.ok(b.rdb.HDel(ctx, OutcomesKey(b.shard), OutcomeField("c5")).Err()) },
		"outcome empty":              outcome(func(string) string { return "" }),
		"outcome without a record":   outcome(func(o string) string { return o[:16] }),
		"outcome cut short":          outcome(func(o string) string { return o[:26] }),
		"another fingerprint":        outcome(func(o string) string { return strings.Repeat("f", 16) + o[16:] }),
		"outcome of another command": func(b *bench) {
			b.ok(b.rdb.HSet(ctx, OutcomesKey(b.shard), OutcomeField("c5"), b.rdb.HGet(ctx, OutcomesKey(b.shard), OutcomeField("c4")).Val()).Err())
		},
		"outcome at another position":   replaced("5 7 7 ", "6 7 7 "),
		"outcome at the one before":     replaced("5 7 7 ", "4 7 7 "),
		"outcome of another time":       outcome(func(o string) string { return o[:21] + string([]byte{o[21] + 1}) + o[22:] }),
		"outcome unknown":               replaced("5 7 7 ", "5 MAYBE 7 "),
		"a rejection that books":        replaced("5 7 7 2 USD/2", "5 LIMIT_EXCEEDED 7 2 USD/2\tto\t@x"),
		"applied to no account":         replaced("5 7 7 2 USD/2", "5 7 -"),
		"outcome with a word too many":  outcome(func(o string) string { return o + " more" }),
		"outcome with a tail of no one": outcome(func(o string) string { return o + "\tmaybe" }),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := busy(t, setup(t))
			forge(b)
			if state := b.condition(); state.Condition != Broken || state.Outbox != nil || state.Head != (Head{}) || !strings.Contains(state.Why, b.head.outboxID()) {
				t.Errorf("%s: %+v", what, state)
			}
		})
	}
	// The unchanged one, written by the same hand, is whole: the test above fails for its reason alone.
	b := busy(t, setup(t))
	b.forgeEntry(func([]string) {})
	b.whole()
}

// An outcome that is in the old bucket by now is found there; one that is in none is gone, and so is the shard.
func TestTheOutboxNeedsOutcomesThatAreRemembered(t *testing.T) {
	t.Parallel()
	b := remembering(t)
	b.apply(b.open("a", ""), b.credit("a", "5"))
	b.now = b.now.Add(window)
	b.apply(b.credit("a", "6")) // turns the buckets
	for what, key := range map[string]string{"c1": OldOutcomesKey(b.shard), "c2": OldOutcomesKey(b.shard), "c3": OutcomesKey(b.shard)} {
		if !b.rdb.HExists(t.Context(), key, OutcomeField(what)).Val() {
			t.Fatalf("the outcome of %s is not in %s", what, key)
		}
	}
	b.untouched("reading", func() {
		if state := b.whole(); len(state.Outbox) != 2 || len(state.Outbox[0].Events) != 2 || len(state.Outbox[1].Events) != 1 {
			t.Errorf("outbox %+v", state.Outbox)
		}
	})
	if events := b.log(); LinkOf(events[2]) != b.link {
		t.Errorf("the outbox leads to %s, not to %s", LinkOf(events[2]), b.link)
	}
	b.now = b.now.Add(window)
	b.apply(b.credit("a", "7")) // forgets the first call
	if state := b.condition(); state.Condition != Broken || !strings.Contains(state.Why, `"c1" is not remembered`) {
		t.Errorf("an outcome is forgotten, and the outbox says %+v", state)
	}
}

// between runs something once, before the first call of a script.
type between struct {
	script *redis.Script
	run    func()
}

func (h *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if run := h.run; run != nil && len(cmd.Args()) > 1 && cmd.Args()[1] == h.script.Hash() {
			h.run = nil
			run()
		}
		return next(ctx, cmd)
	}
}

// Outbox and outcomes are read in two calls. Whatever happens between them, both are of one head, or nothing is said of the shard.
func TestAnOutboxThatMovesOnWhileItIsReadIsOutOfSync(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for what, move := range map[string]func(b *bench){
		"another call":      func(b *bench) { b.apply(b.credit("a", "1")) },
		"a rebuild":         func(b *bench) { b.rebuild("g2") },
		"another chain":     func(b *bench) { b.ok(b.rdb.HSet(ctx, HeadKey(b.shard), "chain", Genesis.Chain).Err()) },
		"the head is gone":  func(b *bench) { b.ok(b.rdb.Del(ctx, HeadKey(b.shard)).Err()) },
		"the head is a set": func(b *bench) { b.ok(b.rdb.Set(ctx, HeadKey(b.shard), "x", 0).Err()) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := busy(t, setup(t))
			reader := client(t, 3, addrs...)
			reader.AddHook(&between{recallScript, func() { move(b) }})
			if state, err := New(reader).Inspect(ctx, b.shard); !errors.Is(err, ErrOutOfSync) || state.Condition != 0 || state.Outbox != nil {
				t.Errorf("%+v %v", state, err)
			}
		})
	}
	b := busy(t, setup(t))
	reader := client(t, 3, addrs...)
	reader.AddHook(&between{recallScript, func() { b.apply(b.credit("a", "1")) }})
	if _, err := New(reader).Inspect(ctx, b.shard); !errors.Is(err, ErrOutOfSync) {
		t.Errorf("moved on: %v", err)
	}
	if state, err := New(reader).Inspect(ctx, b.shard); err != nil || state.Condition != Whole || state.Head != b.head || len(state.Outbox) != 3 {
		t.Errorf("asked again: %+v %v", state, err)
	}
}

func TestRecallReadsOutcomesAsOfAHead(t *testing.T) {
	t.Parallel()
	b := remembering(t)
	b.apply(as("x", b.open("a", "")), as("y", b.debit("a", "5")))
	before := b.head
	b.now = b.now.Add(window)
	b.apply(as("z", b.credit("a", "5")))
	commands := []*ledgerv1.Command{{CommandId: "z"}, {CommandId: "x"}, {CommandId: "never"}, {CommandId: "y"}, {CommandId: "x"}}
	b.untouched("recall", func() {
		got, err := b.store.recall(t.Context(), b.shard, b.head, commands)
		b.ok(err)
		for i, want := range []string{"1700003600000 3 5 5 2 USD/2", "1700000000000 1 0 0 1 USD/2", "", "1700000000000 2 INSUFFICIENT_FUNDS 0 1 USD/2", "1700000000000 1 0 0 1 USD/2"} {
			said := ""
			if got[i] != "" {
				record := got[i][len(Fingerprint{}):]
				said = fmt.Sprint(parseTime(record), " ", record[timeBytes:])
			}
			if said != want {
				t.Errorf("%s: %q, not %q", commands[i].GetCommandId(), said, want)
			}
		}
		for what, head := range map[string]Head{"before": before, "another chain": {b.head.Position, before.Chain}, "another position": {before.Position, b.head.Chain}, "genesis": Genesis} {
			if got, err := b.store.recall(t.Context(), b.shard, head, commands); !errors.Is(err, ErrOutOfSync) || got != nil {
				t.Errorf("%s: %q %v", what, got, err)
			}
		}
	})
}
