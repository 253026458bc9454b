package lua

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func (b *bench) condition() State {
	b.Helper()
	state, err := b.store.Inspect(b.Context(), b.shard)
	b.ok(err)
	return state
}

func TestInspectTellsEmptyBrokenAndWholeApart(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for what, damage := range map[string]func(b *bench) error{
		"no accounts":         func(b *bench) error { return b.rdb.Del(ctx, AccountsKey(b.shard)).Err() },
		"no outcomes":         func(b *bench) error { return b.rdb.Del(ctx, OutcomesKey(b.shard)).Err() },
		"no outbox":           func(b *bench) error { return b.rdb.Del(ctx, OutboxKey(b.shard)).Err() },
		"no head":             func(b *bench) error { return b.rdb.Del(ctx, HeadKey(b.shard)).Err() },
		"no generation":       func(b *bench) error { return b.rdb.HDel(ctx, HeadKey(b.shard), "generation").Err() },
		"position changed":    func(b *bench) error { return b.rdb.HSet(ctx, HeadKey(b.shard), "position", 4).Err() },
		"chain changed":       func(b *bench) error { return b.rdb.HSet(ctx, HeadKey(b.shard), "chain", "zz").Err() },
		"accounts of another": func(b *bench) error { return b.rdb.HSet(ctx, AccountsKey(b.shard), "", Genesis.Chain).Err() },
		"outcomes of another": func(b *bench) error { return b.rdb.HSet(ctx, OutcomesKey(b.shard), "", Genesis.Chain).Err() },
		"a stranger's entry": func(b *bench) error {
			return b.rdb.XAdd(ctx, &redis.XAddArgs{Stream: OutboxKey(b.shard), Values: []string{"k", "v"}}).Err()
		},
		"accounts is no hash": func(b *bench) error { return b.rdb.Set(ctx, AccountsKey(b.shard), "x", 0).Err() },
		"outcomes is no hash": func(b *bench) error { return b.rdb.Set(ctx, OutcomesKey(b.shard), "x", 0).Err() },
		"outbox is no stream": func(b *bench) error { return b.rdb.Set(ctx, OutboxKey(b.shard), "x", 0).Err() },
		"head is no hash":     func(b *bench) error { return b.rdb.Set(ctx, HeadKey(b.shard), "x", 0).Err() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := busy(t, setup(t))
			b.whole()
			b.ok(damage(b))
			b.untouched("inspect", func() {
				if state := b.condition(); state.Condition != Broken || state.Why == "" || state.Head != (Head{}) || state.Outbox != nil {
					t.Errorf("%s: %+v", what, state)
				}
			})
		})
	}
	b := busy(t, setup(t))
	b.ok(b.rdb.Del(ctx, LiveKeys(b.shard)...).Err())
	if state := b.condition(); state.Condition != Empty {
		t.Errorf("no keys: %+v", state)
	}
	if _, err := b.store.Head(ctx, b.shard); !errors.Is(err, ErrOutOfSync) {
		t.Errorf("head of no keys: %v", err)
	}
}

func TestTheOutboxHoldsWhatWasDecidedUntilItIsTrimmed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.call(b.open("a", ""), b.credit("a", "5"), b.debit("a", "9"))
	one := b.store.Apply(t.Context(), first)[0]
	b.ok(one.Err)
	b.head = one.Head
	second := b.call(b.credit("a", "6"))
	two := b.store.Apply(t.Context(), second)[0]
	b.ok(two.Err)
	b.head = two.Head

	state := b.whole()
	if len(state.Outbox) != 2 || state.Outbox[0].ID != one.Entry || state.Outbox[1].ID != two.Entry ||
		state.Outbox[0].Before != Genesis || state.Outbox[0].After() != one.Head || state.Outbox[1].Before != one.Head {
		t.Fatalf("outbox %+v", state.Outbox)
	}
	for i, d := range one.Decisions { // what Apply returned and what the outbox kept make the same event
		event, err := EventOf(first.Commands[i], d)
		b.ok(err)
		if !proto.Equal(event, state.Outbox[0].Events[i]) {
			t.Errorf("decided\n%v, in the outbox is\n%v", event, state.Outbox[0].Events[i])
		}
	}
	b.ok(b.store.Trim(t.Context(), b.shard, []string{one.Entry}))
	b.ok(b.store.Trim(t.Context(), b.shard, []string{one.Entry})) // again: nothing to do
	b.ok(b.store.Trim(t.Context(), b.shard, nil))
	if state := b.whole(); len(state.Outbox) != 1 || state.Outbox[0].ID != two.Entry {
		t.Errorf("after trim %+v", state.Outbox)
	}
	b.ok(b.store.Trim(t.Context(), b.shard, []string{two.Entry}))
	if state := b.whole(); len(state.Outbox) != 0 {
		t.Errorf("after trim %+v", state.Outbox)
	}
	b.expect(list(b.debit("a", "11")), "applied -11 0@4")
}

// Two histories that part at one head: same positions, other chains.
func TestTrimDeletesNothingOfAFork(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	old, fork := b.dump(), b.head
	lost := b.store.Apply(t.Context(), b.call(b.credit("a", "1")))[0]
	b.ok(lost.Err)
	b.restore(old)
	b.head = fork
	kept := b.store.Apply(t.Context(), b.call(b.credit("a", "2")))[0]
	b.ok(kept.Err)
	b.head = kept.Head
	if lost.Head.Position != kept.Head.Position || lost.Entry == kept.Entry {
		t.Fatalf("%s and %s are no fork", lost.Head, kept.Head)
	}
	b.untouched("trim of the other history", func() { b.ok(b.store.Trim(t.Context(), b.shard, []string{lost.Entry})) })
	if state := b.whole(); len(state.Outbox) != 3 || state.Outbox[2].ID != kept.Entry {
		t.Errorf("outbox %+v", state.Outbox)
	}
}

// An entry that was made from another head, or whose content is not what was hashed, is never offered for publishing.
func TestTheOutboxOfAForkIsDetected(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	forged := func(change func(values []string)) func(t *testing.T, b *bench) {
		return func(t *testing.T, b *bench) {
			t.Helper()
			entries, err := b.rdb.Do(ctx, "XRANGE", OutboxKey(b.shard), "-", "+").Slice()
			b.ok(err)
			b.ok(b.rdb.Del(ctx, OutboxKey(b.shard)).Err())
			for i, entry := range entries {
				fields, err := texts(entry.([]any)[1].([]any))
				b.ok(err)
				if i == len(entries)-1 {
					change(fields)
				}
				b.ok(b.rdb.XAdd(ctx, &redis.XAddArgs{Stream: OutboxKey(b.shard), ID: entry.([]any)[0].(string), Values: fields}).Err())
			}
		}
	}
	for what, forge := range map[string]func(t *testing.T, b *bench){
		"made from another head":  forged(func(v []string) { v[1] = Genesis.Chain }),
		"no head before it":       forged(func(v []string) { v[0] = "previous" }),
		"records cut short":       forged(func(v []string) { v[3] = v[3][:len(v[3])-1] }),
		"no records":              forged(func(v []string) { v[3] = "" }),
		"one record too many":     forged(func(v []string) { v[3] += "\n" + v[3] }),
		"record changed":          forged(func(v []string) { v[3] = strings.Replace(v[3], " applied ", " LIMIT_EXCEEDED ", 1) }),
		"record unknown":          forged(func(v []string) { v[3] = strings.Replace(v[3], " applied ", " MAYBE ", 1) }),
		"order of records":        forged(func(v []string) { n := 16 + strings.Index(v[3][16:], "\n"); v[3] = v[3][n+1:] + "\n" + v[3][:n] }),
		"a known one that is not": forged(func(v []string) { v[5] = "1" }),
		"known ones in words":     forged(func(v []string) { v[5] = "one" }),
		"body of another":         forged(func(v []string) { _, n := protowire.ConsumeBytes([]byte(v[7])); v[7] = v[7][:n] + v[7] }),
		"bodies are no commands":  forged(func(v []string) { v[7] = "\x02\xff\xff\x02\xff\xff" }),
		"bodies cut short":        forged(func(v []string) { v[7] = v[7][:3] }),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := busy(t, setup(t))
			forge(t, b)
			if state := b.condition(); state.Condition != Broken || state.Outbox != nil {
				t.Errorf("%s: %+v", what, state)
			}
		})
	}
	// The unchanged one, written by the same hand, is whole: the test above fails for its reason alone.
	b := busy(t, setup(t))
	forged(func([]string) {})(t, b)
	b.whole()
}
