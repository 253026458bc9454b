package lua

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

const window = time.Hour

// remembering is a bench that remembers outcomes for the window.
func remembering(t testing.TB) *bench {
	b := setup(t)
	b.store = b.store.Remembering(window)
	return b
}

// asked is a call of commands that were first asked for at a time.
func (b *bench) asked(at time.Time, commands ...*ledgerv1.Command) Call {
	b.Helper()
	call := b.call(commands...)
	for i := range call.Commands {
		call.Commands[i].AskedAt = at
	}
	return call
}

// tooOld is what the script answers to a call that may hold forgotten commands. Nothing may change.
func (b *bench) tooOld(what string, call Call) *TooOldError {
	b.Helper()
	var old *TooOldError
	b.untouched(what, func() {
		if r := b.store.Apply(b.Context(), call); !errors.As(r.Err, &old) || r.Decisions != nil || r.Entry != "" || r.Head != (Head{}) {
			b.Fatalf("%s: %+v, expected a TooOldError", what, r)
		}
	})
	return old
}

// horizon is how far outcomes are remembered, as the head says it.
func (b *bench) horizon() (turned, horizon time.Time, forgotten string) {
	b.Helper()
	fields := b.rdb.HGetAll(b.Context(), HeadKey(b.shard)).Val()
	at := func(name string) time.Time {
		ms, err := parseMillis(fields[name])
		b.ok(err)
		return ms.AsTime()
	}
	return at("turned"), at("horizon"), fields["forgotten"]
}

func TestABucketTurnsExactlyWhenTheWindowHasPassed(t *testing.T) {
	t.Parallel()
	b := remembering(t)
	start := b.now
	first, second := b.open("a", ""), b.credit("a", "1")
	b.noted(first)
	b.now = start.Add(window - time.Millisecond)
	b.noted(second)
	if turned, _, _ := b.horizon(); !turned.Equal(start) {
		t.Errorf("turned at %s, a millisecond early; it was begun at %s", turned, start)
	}
	atTurn := b.head
	b.now = start.Add(window)
	b.untouched("nothing new is decided", func() { b.expect(list(first, second), "remembered applied 0 0@1", "remembered applied 1 1@2") })
	third := b.credit("a", "1")
	b.noted(third)
	turned, horizon, forgotten := b.horizon()
	if !turned.Equal(b.now) || !horizon.Equal(start) || !strings.HasPrefix(forgotten, "0 ") {
		t.Errorf("turned at %s, horizon %s, forgotten %s", turned, horizon, forgotten)
	}
	b.now = start.Add(2*window - time.Millisecond)
	b.said(b.run(b.asked(start, first, third, second)), "remembered applied 0 0@1", "remembered applied 1 2@3", "remembered applied 1 1@2")
	b.now = start.Add(2 * window)
	b.noted(b.credit("a", "1")) // forgets the first two
	if turned, horizon, forgotten = b.horizon(); !turned.Equal(b.now) || !horizon.Equal(start.Add(window)) || forgotten != atTurn.words() {
		t.Errorf("turned at %s, horizon %s, forgotten %s, not %s", turned, horizon, forgotten, atTurn.words())
	}
	for _, c := range list(first, second) {
		old := b.tooOld("forgotten", b.asked(start, c))
		if old.Forgotten != atTurn || !old.Since.Equal(start.Add(window+skew)) {
			t.Errorf("%+v: %v", old, old)
		}
	}
	b.said(b.run(b.asked(b.now, third)), "remembered applied 1 2@3") // not asked for the first time now, but who knows
	b.whole()
}

func TestACommandCountsAsOldUntilClocksCanNotBeWrong(t *testing.T) {
	t.Parallel()
	b := forgetful(t)
	_, horizon, _ := b.horizon()
	b.tooOld("a millisecond too early", b.asked(horizon.Add(skew-time.Millisecond), b.credit("a", "1")))
	b.tooOld("1970", b.asked(time.UnixMilli(0), b.credit("a", "1")))
	b.tooOld("before 1970", b.asked(time.UnixMilli(-5), b.credit("a", "1")))
	mixed := b.asked(b.now, b.credit("a", "1"), b.credit("a", "1"), b.credit("a", "1"))
	mixed.Commands[1].AskedAt = horizon
	b.tooOld("one of several", mixed)
	b.said(b.run(b.asked(horizon.Add(skew), b.credit("a", "1"))), "applied 1 4@5")
	b.said(b.run(b.asked(time.Time{}, b.credit("a", "1"))), "applied 1 5@6") // no time at all is now
	if want := fmt.Sprintf("SKEW = %d\n", skew.Milliseconds()); !strings.Contains(read("include/window.lua"), want) {
		t.Errorf("include/window.lua does not say %q", want)
	}
}

// forgetful is a shard that has forgotten its first command.
func forgetful(t testing.TB) *bench {
	b := remembering(t)
	b.noted(b.open("a", ""))
	for range 3 {
		b.now = b.now.Add(window)
		b.noted(b.credit("a", "1"))
	}
	return b
}

func TestOldCommandsAreAppliedOnlyWhenTheyWereLookedUpFarEnough(t *testing.T) {
	t.Parallel()
	b := forgetful(t)
	call := b.asked(b.now.Add(-3*window), b.credit("a", "1"))
	old := b.tooOld("not looked up", call)
	for what, through := range map[string]Head{
		"an older position": {Position: old.Forgotten.Position - 1, Chain: old.Forgotten.Chain}, "another chain there": {Position: old.Forgotten.Position, Chain: b.head.Chain}, "the beginning": Genesis,
	} {
		call.LookedUp = through
		b.tooOld(what, call)
	}
	for _, through := range []string{"", "x", old.Forgotten.Chain, fmt.Sprint(old.Forgotten.Position), " " + old.Forgotten.Chain, fmt.Sprintf("%d x", old.Forgotten.Position), "-9 x", "1e9 x", "0x99 x", "99"} {
		args := call.args(window)
		args[6] = through
		reply, err := applyScript.Run(t.Context(), b.rdb, LiveKeys(b.shard), args...).Slice()
		if err != nil || reply[0] != "TOO_OLD" {
			t.Errorf("looked up through %q: %v %v", through, reply, err)
		}
	}
	call.LookedUp = old.Forgotten
	b.said(b.run(call), "applied 1 4@5")
	again := b.asked(b.now.Add(-3*window), b.credit("a", "1"))
	again.LookedUp = b.head // further than needed
	b.said(b.run(again), "applied 1 5@6")
}

func TestATotalLivesAndDiesWithWhatWasReversed(t *testing.T) {
	t.Parallel()
	b := remembering(t)
	totals := func(want string) {
		t.Helper()
		var got []string
		for _, key := range []string{OutcomesKey(b.shard), OldOutcomesKey(b.shard)} {
			got = append(got, b.rdb.HGet(t.Context(), key, OutcomeField("c")+totalSuffix).Val()+"/"+fmt.Sprint(b.rdb.HExists(t.Context(), key, OutcomeField("c")).Val()))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("total and outcome, recent and old: %q, not %q", text, want)
		}
	}
	same := func() {
		t.Helper()
		before := b.content()
		build, err := b.store.BeginBuild(t.Context(), b.shard, "again")
		b.ok(err)
		for _, events := range b.history {
			b.ok(build.Add(t.Context(), events))
		}
		b.ok(build.Swap(t.Context()))
		b.whole()
		for _, key := range []string{AccountsKey(b.shard), OutcomesKey(b.shard), OldOutcomesKey(b.shard)} {
			if after := b.content(); after[key] != before[key] {
				t.Errorf("rebuilt %s\n%s\nnot\n%s", key, after[key], before[key])
			}
		}
	}
	b.noted(b.open("a", ""), as("c", b.credit("a", "100")), b.reverse("a", "c", "1"))
	totals("1/true /false")
	same()
	b.now = b.now.Add(window)
	b.noted(b.reverse("a", "c", "2")) // in the call that turns
	totals("/false 3/true")
	same()
	b.noted(b.reverse("a", "c", "4")) // of the old bucket
	totals("/false 7/true")
	same()
	b.does(step{b.reverse("a", "c", "94"), "NOT_REVERSIBLE 0 93@5"})
	b.note()
	b.now = b.now.Add(window)
	b.noted(b.reverse("a", "c", "8"), as("d", b.credit("a", "5")), b.reverse("a", "d", "1")) // still known here, forgotten with this call
	totals("/false /false")
	if got := b.rdb.HGet(t.Context(), OutcomesKey(b.shard), OutcomeField("d")+totalSuffix).Val(); got != "1" {
		t.Errorf("total of what was decided in a call that turns: %q", got)
	}
	same()
	b.does(step{b.reverse("a", "c", "1"), "NOT_REVERSIBLE 0 89@8"})
}

// noted applies commands and takes their events from the outbox into the history.
func (b *bench) noted(commands ...*ledgerv1.Command) {
	b.Helper()
	for _, d := range b.apply(commands...) {
		if d.Outcome.GetStatus() != ledgerv1.Status_STATUS_APPLIED {
			b.Fatalf("not applied: %s", told(d))
		}
	}
	b.note()
}

// note takes the events of the last call out of the outbox into the history: those of a writer do not stay there until they are forgotten either.
func (b *bench) note() {
	b.Helper()
	outbox, at := b.whole().Outbox, FirstLink
	if n := len(b.history); n > 0 {
		at = LinkOf(b.history[n-1][len(b.history[n-1])-1])
	}
	if len(outbox) != 1 {
		b.Fatalf("%d entries in the outbox, expected the last one", len(outbox))
	}
	events := outbox[0].Events
	at, err := at.Append(events...)
	b.ok(err)
	if at != b.link {
		b.Fatalf("the outbox leads to %s, what Apply answered to %s", at, b.link)
	}
	b.history = append(b.history, events)
	b.ok(b.store.Trim(b.Context(), b.shard, []string{outbox[0].ID}))
}

// A history over many windows, made anew by the log, by ClickHouse and the log, and by replays: whatever is delivered again has the outcome that
// it had, or the script says that it may have forgotten it.
func TestNothingIsDecidedTwiceWhateverIsForgotten(t *testing.T) {
	t.Parallel()
	rdb := client(t, 3, addrs...)
	rapid.Check(t, func(rt *rapid.T) {
		b := setupOn(t, rdb)
		b.TB = drawn{t, rt}
		b.store = b.store.Remembering(window)
		first := map[string]time.Time{} // when a command was asked for
		commands := map[string]*ledgerv1.Command{}
		b.apply(b.open("a", ""))
		b.note()
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			b.now = b.now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 20, 30, 59, 60, 61, 200}).Draw(rt, "minutes")) * time.Minute)
			call := b.call()
			for range rapid.IntRange(1, 4).Draw(rt, "commands") {
				c := received(b, b.credit("a", "1"))
				c.AskedAt = b.now.Add(time.Duration(rapid.IntRange(-9, 9).Draw(rt, "skew")) * time.Minute)
				first[c.GetCommandId()], commands[c.GetCommandId()] = c.AskedAt, c.Command
				call.Commands = append(call.Commands, c)
			}
			call.LookedUp = Head{Position: 1 << 40, Chain: Genesis.Chain} // all are new
			b.run(call)
			b.note()
			b.anew(rt)
		}
		b.now = b.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(rt, "minutes")) * time.Minute)
		for _, e := range slices.Concat(b.history[1:]...) {
			id := e.GetOutcome().GetCommandId()
			again := b.asked(first[id], commands[id])
			r := b.store.Apply(b.Context(), again)
			old := (*TooOldError)(nil)
			if errors.As(r.Err, &old) {
				again.LookedUp = old.Forgotten
				before := b.content()
				if d := b.run(again)[0]; d.Kind == Decided && e.GetOutcome().GetPosition() > old.Forgotten.Position {
					b.Fatalf("%s is forgotten, though it is not in what is said to be: %s", id, old)
				} else if d.Kind == Decided && e.GetOutcome().GetDecidedAt().AsTime().Add(window).After(b.now) {
					b.Fatalf("%s is forgotten within the window", id)
				} else if d.Kind == Decided {
					return // from here on another history
				} else if after := b.content(); before[HeadKey(b.shard)] != after[HeadKey(b.shard)] {
					b.Fatalf("%s changed the head", id)
				}
			} else if b.ok(r.Err); r.Decisions[0].Kind != Remembered {
				b.Fatalf("%s is decided twice, at %d and at %d", id, e.GetOutcome().GetPosition(), r.Decisions[0].Outcome.GetPosition())
			}
		}
	})
}

// anew makes the shard anew, perhaps.
func (b *bench) anew(rt *rapid.T) {
	b.Helper()
	size := rapid.IntRange(1, 10).Draw(rt, "page")
	build := func(load int) { // so many calls
		build, err := b.store.BeginBuild(b.Context(), b.shard, "g2")
		b.ok(err)
		if load > 0 {
			events := slices.Concat(b.history[:load]...)
			last := events[len(events)-1].GetOutcome().GetAfter()
			l := build.Load(b.now)
			a, err := ParseAccount("a", stateRecord(last))
			b.ok(err)
			b.ok(build.Send(b.Context(), b.chunk(l.Accounts([]Account{a}))))
			for page := range slices.Chunk(events, size) {
				b.ok(build.Send(b.Context(), b.chunk(l.Outcomes(page))))
			}
			b.ok(build.Send(b.Context(), b.chunk(l.Done())))
		}
		for page := range slices.Chunk(b.history[load:], size) {
			b.ok(build.Add(b.Context(), slices.Concat(page...)))
		}
		b.ok(build.Swap(b.Context()))
		b.whole()
	}
	switch rapid.IntRange(0, 5).Draw(rt, "made anew") {
	case 4:
		build(0)
	case 5:
		build(rapid.IntRange(1, len(b.history)).Draw(rt, "loaded"))
	}
}

func TestALostBucketIsNoticedByEveryScript(t *testing.T) {
	t.Parallel()
	for what, key := range map[string]func(int) string{"old outcomes": OldOutcomesKey, "recent outcomes": OutcomesKey, "holds": HoldsKey} {
		for how, damage := range map[string]func(b *bench, key string) error{
			"lost":             func(b *bench, key string) error { return b.rdb.Del(t.Context(), key).Err() },
			"of another head":  func(b *bench, key string) error { return b.rdb.HSet(t.Context(), key, "", Genesis.Chain).Err() },
			"without a marker": func(b *bench, key string) error { return b.rdb.HDel(t.Context(), key, "").Err() },
			"no hash":          func(b *bench, key string) error { return b.rdb.Set(t.Context(), key, "x", 0).Err() },
		} {
			b := forgetful(t)
			before, point := b.dump(), b.point()
			b.noted(b.credit("a", "1"))
			lost := b.history[len(b.history)-1]
			b.restore(before)
			b.moveTo(point)
			b.ok(damage(b, key(b.shard)))
			b.refused(what+" "+how, b.call(b.credit("a", "1")), ErrOutOfSync)
			b.untouched(what+" "+how, func() {
				if state := b.condition(); state.Condition != Broken {
					t.Errorf("%s %s: inspect says %+v", what, how, state)
				}
				if _, err := b.store.Replay(t.Context(), b.shard, point, lost, "g2"); !errors.Is(err, ErrOutOfSync) {
					t.Errorf("%s %s: replay says %v", what, how, err)
				}
			})
		}
	}
	for _, field := range []string{"turned", "begun", "horizon", "forgotten"} {
		b := forgetful(t)
		b.ok(b.rdb.HDel(t.Context(), HeadKey(b.shard), field).Err())
		b.refused("head without "+field, b.call(b.credit("a", "1")), ErrOutOfSync)
		if state := b.condition(); state.Condition != Broken {
			t.Errorf("head without %s: inspect says %+v", field, state)
		}
		if _, err := b.store.Replay(t.Context(), b.shard, b.point(), nil, "g2"); !errors.Is(err, ErrOutOfSync) {
			t.Errorf("head without %s: replay says %v", field, err)
		}
	}
}
