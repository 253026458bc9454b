package lua

import (
	"errors"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
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
	one := b.store.Apply(t.Context(), first)
	b.ok(one.Err)
	b.head = one.Head
	second := b.call(b.credit("a", "6"))
	two := b.store.Apply(t.Context(), second)
	b.ok(two.Err)
	b.head = two.Head
	state := b.whole()
	if len(state.Outbox) != 2 || state.Outbox[0].ID != one.Entry || state.Outbox[1].ID != two.Entry ||
		state.Outbox[0].Before != Genesis || state.Outbox[0].After != one.Head || state.Outbox[1].Before != one.Head || state.Outbox[1].After != two.Head {
		t.Fatalf("outbox %+v", state.Outbox)
	}
	linked, at := FirstLink, FirstLink
	for i, d := range slices.Concat(one.Decisions, two.Decisions) { // what Apply returned and what the outbox kept make the same events
		var want *ledgerv1.Event
		var err error
		want, linked, err = linked.Event(slices.Concat(first.Commands, second.Commands)[i], d)
		b.ok(err)
		got := slices.Concat(state.Outbox[0].Events, state.Outbox[1].Events)[i]
		if len(got.GetChain()) != 0 {
			t.Errorf("position %d has a chain that nobody gave it", i+1)
		}
		at, err = at.Append(got)
		b.ok(err)
		if !proto.Equal(want, got) || at != linked {
			t.Errorf("decided\n%v, in the outbox is\n%v", want, got)
		}
	}
	b.moveTo(Point{two.Head, linked})
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
	lost := b.store.Apply(t.Context(), b.call(b.credit("a", "1")))
	b.ok(lost.Err)
	b.restore(old)
	b.head = fork
	kept := b.store.Apply(t.Context(), b.call(b.credit("a", "2")))
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
