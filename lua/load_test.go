package lua

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// stored is what ClickHouse would know of a shard: its accounts, and its events without their commands.
func (b *bench) stored() ([]Account, []*ledgerv1.Event) {
	b.Helper()
	accounts, corrupt, next, err := b.store.Accounts(b.Context(), b.shard, 0, 1<<20)
	b.ok(err)
	if len(corrupt) > 0 || next != 0 {
		b.Fatalf("corrupt %v, next %d", corrupt, next)
	}
	events := b.log()
	for i, e := range events {
		events[i] = proto.CloneOf(e)
		events[i].Command = nil
	}
	return accounts, events
}

func (b *bench) chunk(c Chunk, err error) Chunk {
	b.Helper()
	b.ok(err)
	return c
}

func TestALoadedBuildIsTheSameAsOneOfTheLog(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	b.apply(b.open("c", "-5"), b.credit("c", "999999999999999999"), b.credit("c", "1"), b.debit("nobody", "1"), b.debit("c", "999999999999999999"))
	b.apply(b.repair("b", b.record("b"), b.record("b"), "g1"))
	accounts, events := b.stored()
	whole := b.log()
	point, all := b.point(), calls(whole)
	for _, of := range []int{0, 1, 2} { // so many calls come from the log
		tail := len(slices.Concat(all[len(all)-of:]...))
		if tail > 0 {
			rest := setup(t) // the accounts as they were before the tail
			rest.rebuild("g1", whole[:len(whole)-tail]...)
			var err error
			accounts, _, _, err = rest.store.Accounts(t.Context(), rest.shard, 0, 1<<20)
			b.ok(err)
		}
		b.rebuild("same", whole...)
		want := b.content()
		build, err := b.store.BeginBuild(t.Context(), b.shard, "same")
		b.ok(err)
		load := build.Load(time.Now())
		for page := range slices.Chunk(accounts, 2) {
			b.ok(build.Send(t.Context(), b.chunk(load.Accounts(page))))
		}
		for page := range slices.Chunk(events[:len(events)-tail], 3) { // calls end elsewhere
			b.ok(build.Send(t.Context(), b.chunk(load.Outcomes(page))))
		}
		b.ok(build.Send(t.Context(), b.chunk(load.Done())))
		if tail > 0 {
			b.ok(build.Add(t.Context(), whole[len(whole)-tail:]))
		}
		b.ok(build.Swap(t.Context()))
		if build.At() != point {
			t.Errorf("%d calls of the log: at %s, %s, not at %s, %s", of, build.At().Head, build.At().Link, point.Head, point.Link)
		}
		b.whole()
		got := b.content()
		for _, key := range b.keys() {
			if key != OutboxKey(b.shard) && got[key] != want[key] { // its DUMP counts what was ever added
				t.Errorf("%d calls of the log: %s is\n%s, not\n%s", of, key, got[key], want[key])
			}
		}
	}
	b.expect(list(b.credit("b", "1")), "applied 1 8@4")
}

// halfLoaded is a build with one chunk of accounts, and what comes next.
func halfLoaded(t *testing.T) (b *bench, build *Build, load *Load, sent, next Chunk) {
	t.Helper()
	b = busy(t, setup(t))
	b.apply(as("h", b.hold("a", "5", 0)))
	accounts, events := b.stored()
	build, err := b.store.BeginBuild(t.Context(), b.shard, "g2")
	b.ok(err)
	load = build.Load(time.Now())
	b.ok(build.Send(t.Context(), b.chunk(load.Holds([]Hold{b.holds()["h"]}))))
	sent = b.chunk(load.Accounts(accounts))
	b.ok(build.Send(t.Context(), sent))
	return b, build, load, sent, b.chunk(load.Outcomes(events))
}

func TestALoadTakesEveryChunkOnceAndInOrder(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b, build, load, sent, next := halfLoaded(t)
	refused := func(what string, send func() error, is error) {
		t.Helper()
		b.untouched(what, func() {
			if err := send(); !errors.Is(err, is) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	done := b.chunk(load.Done())
	refused("the same again", func() error { return build.Send(ctx, sent) }, ErrOutOfSync)
	refused("one is missing", func() error { return build.Send(ctx, done) }, ErrOutOfSync)
	refused("a swap in the middle", func() error { return build.Swap(ctx) }, ErrOutOfSync)
	for _, point := range []Point{Origin, b.point()} { // another recovery that believes the build is its own
		other := &Build{store: b.store, shard: b.shard, generation: "g2", at: point}
		refused("somebody else's swap in the middle", func() error { return other.Swap(ctx) }, ErrOutOfSync)
		refused("somebody else's events in the middle", func() error { return other.Add(ctx, nil) }, ErrOutOfSync)
	}
	b.ok(build.Send(ctx, next))
	refused("the one before the last again", func() error { return build.Send(ctx, next) }, ErrOutOfSync)
	b.ok(build.Send(ctx, done))
	refused("the last again", func() error { return build.Send(ctx, done) }, ErrOutOfSync)

	_, err := b.store.BeginBuild(ctx, b.shard, "g3")
	b.ok(err)
	refused("a build that another one dropped", func() error { return build.Send(ctx, sent) }, ErrOutOfSync)
}

func TestALoadIsRefusedWhereTheBuildLostSomething(t *testing.T) {
	t.Parallel()
	for i, key := range buildKeys(0) {
		b, build, load, _, next := halfLoaded(t)
		b.ok(b.rdb.Del(t.Context(), buildKeys(b.shard)[i]).Err())
		b.untouched(key, func() {
			if err := build.Send(t.Context(), next); !errors.Is(err, ErrOutOfSync) {
				t.Errorf("without %s: %v", key, err)
			}
		})
		_ = load
	}
	for part, key := range map[string]string{"accounts": "a", "holds": "h", "outcomes": OutcomeField("c1")} {
		b, build, load, _, next := halfLoaded(t)
		b.ok(build.Send(t.Context(), next))
		i := slices.Index([]string{"accounts", "holds", "outcomes"}, part)
		b.ok(b.rdb.HDel(t.Context(), buildKeys(b.shard)[i], key).Err())
		b.untouched(part, func() {
			if err := build.Send(t.Context(), b.chunk(load.Done())); !errors.Is(err, ErrCorrupt) {
				t.Errorf("without one of %s: %v", part, err)
			}
		})
	}
}

func TestALoadTakesNothingThatItsChainDoesNotSay(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	accounts, events := b.stored()
	for what, change := range map[string]func(e *ledgerv1.Event){
		"amount":      func(e *ledgerv1.Event) { e.Outcome.Delta = "1" },
		"id":          func(e *ledgerv1.Event) { e.Outcome.CommandId = "x" },
		"state":       func(e *ledgerv1.Event) { e.Outcome.After = nil },
		"time":        func(e *ledgerv1.Event) { e.Outcome.DecidedAt.Seconds++ },
		"fingerprint": func(e *ledgerv1.Event) { e.Fingerprint[3]++ },
		"position":    func(e *ledgerv1.Event) { e.Outcome.Position++ },
		"chain":       func(e *ledgerv1.Event) { e.Chain[3]++ },
		"head":        func(e *ledgerv1.Event) { e.Head = e.Chain[:19] },
	} {
		build := &Build{store: b.store, shard: b.shard, at: Origin}
		page := []*ledgerv1.Event{events[0], proto.CloneOf(events[1])}
		change(page[1])
		if _, err := build.Load(time.Now()).Outcomes(page); !errors.Is(err, ErrChainBroken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad := accounts[0]
	bad.Unit = ""
	if _, err := (&Build{store: b.store}).Load(time.Now()).Accounts([]Account{bad}); err == nil {
		t.Error("an account without a unit was taken")
	}
	if _, err := (&Build{store: b.store}).Load(time.Now()).Accounts(make([]Account, LoadMax+1)); err == nil {
		t.Error("a chunk beyond the limit was taken")
	}
}

// Redis stands only where a call ends, so a load does too, wherever its pages end.
func TestALoadEndsWhereACallEnds(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	_, events := b.stored() // calls of three and of two
	load := (&Build{store: b.store, shard: b.shard, at: Origin}).Load(time.Now())
	for at, ends := range []bool{true, false, false, true, false, true} {
		if at > 0 {
			b.chunk(load.Outcomes(events[at-1 : at]))
		}
		if _, err := load.Done(); (err == nil) != ends || !ends && !errors.Is(err, ErrChainBroken) {
			t.Errorf("done at position %d: %v", at, err)
		}
		if got := load.At(); got.Link.Position != uint64(at) || (got.Head.Position == got.Link.Position) != ends {
			t.Errorf("at position %d: %s, %s", at, got.Head, got.Link)
		}
	}
	if load.At() != b.point() {
		t.Errorf("at %s, not at %s", load.At().Head, b.head)
	}
}

// What is forgotten ends where a call does. Events that say otherwise are not of this ledger, though they are linked.
func TestALoadRefusesACallThatWasDecidedAtTwoTimes(t *testing.T) {
	t.Parallel()
	b := busy(t, setup(t))
	b.store = b.store.Remembering(window)
	_, events := b.stored()
	for at, e := range events { // the first is forgotten, its call is not
		e.Outcome.DecidedAt = timestamppb.New(b.now.Add(time.Duration(at) * time.Second))
	}
	_, err := FirstLink.Append(events...)
	b.ok(err)
	load := func(since int) error {
		build := &Build{store: b.store, shard: b.shard, at: Origin}
		_, err := build.Load(b.now.Add(window + time.Duration(since)*time.Second)).Outcomes(events)
		return err
	}
	for since, is := range []error{nil, ErrChainBroken, ErrChainBroken, nil, ErrChainBroken, nil} {
		if err := load(since); !errors.Is(err, is) {
			t.Errorf("remembered from position %d on: %v, expected %v", since+1, err, is)
		}
	}
}
