package lua

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// fallenBehind is a shard that was put back to an older moment, the events that it lost, and the head they end at.
func fallenBehind(t testing.TB) (b *bench, lost []*ledgerv1.Event, latest Point) {
	t.Helper()
	b = busy(t, setup(t))
	old, before := b.dump(), b.point()
	b.apply(b.credit("a", "9007199254740993"), b.debit("b", "8"), b.open("c", "-1"))
	b.apply(b.debit("c", "1"), b.repair("b", b.record("b"), b.record("b"), "g1"))
	latest = b.point()
	lost = b.log()[before.Head.Position:]
	b.restore(old)
	b.moveTo(before)
	b.whole()
	return b, lost, latest
}

func TestReplayBringsAShardThatFellBehindToTheLog(t *testing.T) {
	t.Parallel()
	b, lost, latest := fallenBehind(t)
	for _, call := range calls(lost) { // one by one is the same as in one go
		after, err := b.store.Replay(t.Context(), b.shard, b.point(), call, "g2")
		b.ok(err)
		b.moveTo(after)
	}
	state := b.whole()
	if b.point() != latest || state.Generation != "g2" || len(state.Outbox) != 0 {
		t.Errorf("replayed to %s, generation %s, %d entries in the outbox", b.head, state.Generation, len(state.Outbox))
	}
	for account, want := range map[string]string{"a": "9007199254741093 3 USD/2 -5 active", "b": "7 3 USD/2", "c": "-1 2 USD/2 -1 active"} {
		if got := b.record(account); got != want {
			t.Errorf("%s is %q, not %q", account, got, want)
		}
	}
	for _, event := range lost {
		if d := b.apply(event.GetCommand())[0]; d.Kind != Remembered || !proto.Equal(d.Outcome, event.GetOutcome()) {
			t.Errorf("%s is %d %v, not remembered as %v", event.GetOutcome().GetCommandId(), d.Kind, d.Outcome, event.GetOutcome())
		}
	}
	b.expect(list(b.credit("c", "1")), "applied 1 0@3")
	if state := b.whole(); len(state.Outbox) != 1 || state.Outbox[0].Before != latest.Head || state.Outbox[0].After != b.head {
		t.Errorf("outbox %+v", state.Outbox)
	}
}

// What stood in the outbox is in the log by now, so whatever it is, a replay makes it anew.
func TestReplayMakesTheOutboxAnew(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for what, damage := range map[string]func(b *bench) error{
		"as it was": func(*bench) error { return nil },
		"missing":   func(b *bench) error { return b.rdb.Del(ctx, OutboxKey(b.shard)).Err() },
		"no stream": func(b *bench) error { return b.rdb.Set(ctx, OutboxKey(b.shard), "x", 0).Err() },
		"of later on": func(b *bench) error {
			return b.rdb.XAdd(ctx, &redis.XAddArgs{Stream: OutboxKey(b.shard), ID: "999-0", Values: []string{"k", "v"}}).Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b, lost, _ := fallenBehind(t)
			for _, events := range [][]*ledgerv1.Event{nil, lost} { // no event at all: only the outbox and the generation change
				b.ok(damage(b))
				after, err := b.store.Replay(ctx, b.shard, b.point(), events, "g2")
				b.ok(err)
				b.moveTo(after)
				if state := b.whole(); len(state.Outbox) != 0 || state.Generation != "g2" {
					t.Errorf("%s: %+v", what, state)
				}
			}
			b.expect(list(b.credit("c", "1")), "applied 1 0@3")
		})
	}
}

func TestReplayIsRefusedOnAFork(t *testing.T) {
	t.Parallel()
	b, lost, _ := fallenBehind(t)
	old, first := b.point(), calls(lost)[0]
	b.apply(b.credit("a", "77"), b.credit("a", "78"), b.credit("a", "79"))
	fork, _ := PointOf(first[len(first)-1])
	if fork.Head.Position != b.head.Position || fork.Head == b.head {
		t.Fatalf("%s and %s are no fork", fork.Head, b.head)
	}
	for before, events := range map[Point][]*ledgerv1.Event{old: lost, fork: lost[len(first):]} {
		b.untouched("replay on a fork", func() {
			if _, err := b.store.Replay(t.Context(), b.shard, before, events, "g2"); !errors.Is(err, ErrOutOfSync) {
				t.Errorf("from %s: %v", before.Head, err)
			}
		})
	}
}

func TestReplayIsRefusedAnywhereButAtItsHead(t *testing.T) {
	t.Parallel()
	b, lost, latest := fallenBehind(t)
	ctx := t.Context()
	refused := func(what string, before Point, events []*ledgerv1.Event, is error) {
		t.Helper()
		b.untouched(what, func() {
			if after, err := b.store.Replay(ctx, b.shard, before, events, "g2"); !errors.Is(err, is) || after != (Point{}) {
				t.Errorf("%s: %s %v, expected %v", what, after.Head, err, is)
			}
		})
	}
	first := calls(lost)[0]
	second, _ := PointOf(first[len(first)-1])
	refused("a call is missing before these", second, lost[len(first):], ErrOutOfSync)
	refused("a gap among these", b.point(), append(lost[:1:1], lost[2:]...), ErrChainBroken)
	refused("from another place than they follow", b.point(), lost[1:], ErrChainBroken)
	for _, end := range []int{1, 2, 4} {
		refused("to the middle of a call", b.point(), lost[:end], ErrChainBroken)
	}
	refused("nothing, from elsewhere", latest, nil, ErrOutOfSync)
	refused("from the start, unconditionally", Origin, nil, ErrOutOfSync)
	for what, change := range map[string]func(e *ledgerv1.Event){
		"a changed amount":          func(e *ledgerv1.Event) { e.Outcome.Delta = "9007199254740992" },
		"booked on another account": func(e *ledgerv1.Event) { e.Outcome.Account = "b" },
		"a short fingerprint":       func(e *ledgerv1.Event) { e.Fingerprint = e.Fingerprint[:15] },
		"a short head":              func(e *ledgerv1.Event) { e.Head = e.Chain[:19] },
		"no chain":                  func(e *ledgerv1.Event) { e.Chain = nil },
	} {
		event := proto.CloneOf(lost[0])
		change(event)
		refused(what, b.point(), append([]*ledgerv1.Event{event}, first[1:]...), ErrChainBroken)
	}

	after, err := b.store.Replay(ctx, b.shard, b.point(), lost, "g2")
	b.ok(err)
	refused("sent again after a lost reply", b.point(), lost, ErrOutOfSync)
	b.moveTo(after)
	b.whole()
}

func TestReplayIsRefusedWhereTheKeysDoNotBelongTogether(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for what, damage := range map[string]func(b *bench) error{
		"no accounts":          func(b *bench) error { return b.rdb.Del(ctx, AccountsKey(b.shard)).Err() },
		"no outcomes":          func(b *bench) error { return b.rdb.Del(ctx, OutcomesKey(b.shard)).Err() },
		"no head":              func(b *bench) error { return b.rdb.Del(ctx, HeadKey(b.shard)).Err() },
		"accounts of another":  func(b *bench) error { return b.rdb.HSet(ctx, AccountsKey(b.shard), "", Genesis.Chain).Err() },
		"outcomes of another":  func(b *bench) error { return b.rdb.HSet(ctx, OutcomesKey(b.shard), "", Genesis.Chain).Err() },
		"accounts is no hash":  func(b *bench) error { return b.rdb.Set(ctx, AccountsKey(b.shard), "x", 0).Err() },
		"outcomes is no hash":  func(b *bench) error { return b.rdb.Set(ctx, OutcomesKey(b.shard), "x", 0).Err() },
		"head is no hash":      func(b *bench) error { return b.rdb.Set(ctx, HeadKey(b.shard), "x", 0).Err() },
		"a record is no such":  func(b *bench) error { return b.rdb.HSet(ctx, AccountsKey(b.shard), "a", "nan").Err() },
		"nothing, not a build": func(b *bench) error { return b.rdb.Del(ctx, LiveKeys(b.shard)...).Err() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b, lost, _ := fallenBehind(t)
			b.ok(damage(b))
			b.untouched(what, func() {
				if _, err := b.store.Replay(ctx, b.shard, b.point(), lost, "g2"); !errors.Is(err, ErrOutOfSync) && !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s: %v", what, err)
				}
			})
		})
	}
}

func TestReplayTakesNoRecordThatItCanNotRead(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	for _, record := range []string{"", "6 5 1 1 USD/2", "times: 5 1 1 USD/2", "times:6 5", "times:6 x 1 1 USD/2", "times:6 5 -"} {
		b.untouched(record, func() {
			args := []any{b.head.Position, b.head.Chain, b.head.Position + 1, Genesis.Chain, "g2", 0, 0, OutcomeField("x"), "a", "ffffffffffffffff", record}
			reply, err := replayScript.Run(t.Context(), b.rdb, LiveKeys(b.shard), args...).Slice()
			if err == nil {
				_, _, err = answer(reply)
			}
			if !redis.HasErrorPrefix(err, "INVALID_ARGUMENT") && !errors.Is(err, ErrCorrupt) {
				t.Errorf("record %q: %v %v", record, reply, err)
			}
		})
	}
}

func TestABuildIsSeenOnlyWhenItIsSwappedIn(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	ctx := t.Context()
	events := b.log()
	live := b.content()
	interrupted, err := b.store.BeginBuild(ctx, b.shard, "g2")
	b.ok(err)
	b.ok(interrupted.Add(ctx, events[:3]))
	b.expect(list(b.credit("a", "1")), "applied 1 101@3") // the live keys go on beside it
	events = b.log()

	build, err := b.store.BeginBuild(ctx, b.shard, "g3")
	b.ok(err)
	if build.At() != Origin {
		t.Errorf("begun again at %s", build.At().Head)
	}
	b.untouched("a build that another one dropped", func() {
		if err := interrupted.Add(ctx, events[3:]); !errors.Is(err, ErrOutOfSync) {
			t.Errorf("it went on: %v", err)
		}
		if err := interrupted.Swap(ctx); !errors.Is(err, ErrOutOfSync) {
			t.Errorf("it was swapped in: %v", err)
		}
		if err := build.Add(ctx, events[3:]); !errors.Is(err, ErrChainBroken) {
			t.Errorf("a build took events that do not follow: %v", err)
		}
		for _, end := range []int{1, 2, 4} {
			if err := build.Add(ctx, events[:end]); !errors.Is(err, ErrChainBroken) || build.At() != Origin {
				t.Errorf("a build took a part of a call, to position %d: %v, at %s", end, err, build.At().Head)
			}
		}
	})
	b.ok(build.Add(ctx, events[:3]))
	b.ok(build.Add(ctx, events[3:]))
	if build.At() != b.point() {
		t.Errorf("built to %s, not %s", build.At().Head, b.head)
	}
	want := b.content()
	b.ok(build.Swap(ctx))
	if state := b.whole(); state.Generation != "g3" || len(state.Outbox) != 0 {
		t.Errorf("generation %s, %d entries", state.Generation, len(state.Outbox))
	}
	got := b.content()
	for i, key := range []string{AccountsKey(b.shard), OutcomesKey(b.shard)} {
		if got[key] != want[key] || got[key] == live[key] || got[buildKeys(b.shard)[i]] != "" {
			t.Errorf("%s is\n%q, not\n%q", key, got[key], want[key])
		}
	}
	b.untouched("swapped twice", func() {
		if err := build.Swap(ctx); !errors.Is(err, ErrOutOfSync) {
			t.Errorf("swapped twice: %v", err)
		}
	})
}

func TestSwapIsRefusedUnlessTheBuildIsWhole(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	damages := map[string]func(b *bench) error{
		"head is elsewhere": func(b *bench) error { return b.rdb.HSet(ctx, buildKeys(b.shard)[5], "position", 4).Err() },
		"other chain":       func(b *bench) error { return b.rdb.HSet(ctx, buildKeys(b.shard)[5], "chain", Genesis.Chain).Err() },
		"head is no hash":   func(b *bench) error { return b.rdb.Set(ctx, buildKeys(b.shard)[5], "x", 0).Err() },
	}
	for i := range names {
		damages[fmt.Sprintf("key %d is missing", i+1)] = func(b *bench) error { return b.rdb.Del(ctx, buildKeys(b.shard)[i]).Err() }
	}
	for what, damage := range damages {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := busy(t, setup(t))
			build, err := b.store.BeginBuild(ctx, b.shard, "g2")
			b.ok(err)
			b.ok(build.Add(ctx, b.log()))
			b.ok(damage(b))
			b.untouched(what, func() {
				if err := build.Swap(ctx); !errors.Is(err, ErrOutOfSync) {
					t.Errorf("%s: %v", what, err)
				}
			})
			b.whole()
		})
	}
}

func TestARebuildHealsWhateverStandsInItsPlace(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	ctx, events, want := t.Context(), b.log(), b.content()
	for _, key := range b.keys() {
		b.ok(b.rdb.Del(ctx, key).Err())
		b.ok(b.rdb.RPush(ctx, key, "rubble").Err())
	}
	b.rebuild("g2", events...)
	b.whole()
	if got := b.content(); got[AccountsKey(b.shard)] != want[AccountsKey(b.shard)] || got[OutcomesKey(b.shard)] != want[OutcomesKey(b.shard)] {
		t.Error("the rebuilt keys differ")
	}
}
