package lua

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

// drawn lets a bench report to rapid, which then looks for a smaller example.
type drawn struct {
	testing.TB
	rt *rapid.T
}

func (d drawn) Fatal(args ...any)                 { d.rt.Fatal(args...) }
func (d drawn) Fatalf(format string, args ...any) { d.rt.Fatalf(format, args...) }
func (d drawn) Error(args ...any)                 { d.rt.Error(args...) }
func (d drawn) Errorf(format string, args ...any) { d.rt.Errorf(format, args...) }

// walk is one random history of a shard, in Redis and in the model.
type walk struct {
	*bench
	rt    *rapid.T
	model *model
	past  []*ledgerv1.Command
	seams []seam
}

// seam is what the shard was after one call.
type seam struct {
	point    Point
	accounts map[string]string
	holds    map[string]string
	dump     map[string]string
}

func TestApplyDoesWhatTheModelDoes(t *testing.T) { walkWith(t, (*walk).command) }

// Most accounts have one command in a call, most commands are debits and credits, and accounts share their limits: what decide.lua decides on records.
func TestCallsOverManyAccountsDoWhatTheModelDoes(t *testing.T) { walkWith(t, (*walk).plain) }

func walkWith(t *testing.T, draw func(*walk) *ledgerv1.Command) {
	t.Helper()
	t.Parallel()
	rdb := client(t, 3, addrs...)
	rapid.Check(t, func(rt *rapid.T) {
		b := setupOn(t, rdb)
		b.TB = drawn{t, rt}
		w := &walk{bench: b, rt: rt, model: newModel("g1")}
		for range 1 + w.roll(12, "calls") {
			w.step(draw)
		}
		w.audit()
	})
}

// step runs one call of drawn commands, perhaps twice, or from a head that is not Redis's.
func (w *walk) step(draw func(*walk) *ledgerv1.Command) {
	w.now = w.now.Add(time.Duration(rapid.IntRange(-5, 1000).Draw(w.rt, "ms later")) * time.Millisecond)
	call := w.call()
	var outcomes []string
	before := w.model.position
	if w.oneIn(10, "stale") {
		call.Expected.Position++
		w.refused("stale head", call, ErrOutOfSync)
		call.Expected.Position--
	}
	for range w.roll(40, "commands") {
		c := received(w, draw(w))
		refusal := ""
		if w.oneIn(30, "refused") {
			c.Refusal, refusal = ledgerv1.Reason_REASON_INVALID_TEXT, "INVALID_TEXT"
		}
		call.Commands = append(call.Commands, c)
		outcomes = append(outcomes, w.model.decide(c.Command, refusal, w.now))
		w.past = append(w.past, c.Command)
	}
	kinds := map[Kind]string{Decided: "", Remembered: "remembered ", Reused: "reused "}
	for i, d := range w.run(call) {
		if got := kinds[d.Kind] + outcomeRecord(d.Outcome); got != outcomes[i] {
			w.Fatalf("%v\nis %q\nnot %q", call.Commands[i].Command, got, outcomes[i])
		}
	}
	w.model.called(before, w.now, call.Commands)
	want := Point{Head{uint64(w.model.position), w.model.chain}, Link{uint64(w.model.position), w.model.link}}
	if w.point() != want {
		w.Fatalf("at %s, %s, the model is at %s, %s", w.head, w.link, want.Head, want.Link)
	}
	if w.model.position > before && rapid.Bool().Draw(w.rt, "reply lost") {
		w.refused("sent again", call, ErrOutOfSync)
	}
	w.compare()
	w.seams = append(w.seams, seam{w.point(), w.hash(AccountsKey(w.shard)), w.hash(HoldsKey(w.shard)), w.dump()})
}

// hash is a hash of the shard without its marker.
func (w *walk) hash(key string) map[string]string {
	fields, err := w.rdb.HGetAll(w.Context(), key).Result()
	w.ok(err)
	delete(fields, "")
	return fields
}

// compare holds accounts, holds and totals in Redis against the model, and held against the open holds.
func (w *walk) compare() {
	accounts, holds, totals := map[string]string{}, map[string]string{}, map[string]string{}
	held := map[string]*big.Int{}
	for id, a := range w.model.accounts {
		accounts[id], held[id] = a.record(), new(big.Int)
	}
	for id, h := range w.model.holds {
		holds[id] = h.record()
		held[h.account] = sum(held[h.account], h.left)
	}
	for id, a := range w.model.accounts {
		if held[id].Cmp(a.held) != 0 {
			w.Fatalf("account %q holds back %s, its open holds are %s", id, a.held, held[id])
		}
	}
	for id, o := range w.model.outcomes {
		if o.undone.Sign() > 0 {
			totals[id] = o.undone.String()
		}
	}
	remembered := w.hash(OutcomesKey(w.shard))
	maps.DeleteFunc(remembered, func(field, _ string) bool { return len(field) != len(OutcomeField("")+totalSuffix) })
	for what, pair := range map[string][2]map[string]string{
		"accounts": {w.hash(AccountsKey(w.shard)), accounts}, "holds": {w.hash(HoldsKey(w.shard)), holds}, "totals": {remembered, suffixed(totals)},
	} {
		if !maps.Equal(pair[0], pair[1]) {
			w.Fatalf("%s\n%q\nnot\n%q", what, pair[0], pair[1])
		}
	}
}

func suffixed(totals map[string]string) map[string]string {
	fields := map[string]string{}
	for id, total := range totals {
		fields[OutcomeField(id)+totalSuffix] = total
	}
	return fields
}

// audit reads the shard with the typed calls, and makes it anew in every way that there is.
func (w *walk) audit() {
	events := w.log()
	if len(events) != w.model.position {
		w.Fatalf("%d events in the outbox, %d outcomes", len(events), w.model.position)
	}
	for id, a := range w.model.accounts {
		got, found, err := w.store.Account(w.Context(), w.shard, id)
		w.ok(err)
		ceiling := ""
		if a.ceiling != nil {
			ceiling = a.ceiling.String()
		}
		want := fmt.Sprintf("{%s %s %s %s %s %d %s %s}", id, a.balance, a.held, a.floor, ceiling, a.sequence, a.unit, a.status())
		if said := fmt.Sprint(got); !found || said != want {
			w.Fatalf("account %q is read as %s, not %s", id, said, want)
		}
	}
	for id, h := range w.holds() {
		if h.ID != id || h.record() != w.model.holds[id].record() {
			w.Fatalf("hold %q is read as %+v, not %q", id, h, w.model.holds[id].record())
		}
	}
	want := w.content()
	same := func(how string) {
		w.whole()
		got := w.content()
		for _, key := range LiveKeys(w.shard)[:4] {
			if got[key] != want[key] {
				w.Fatalf("%s: %s\n%s\nnot\n%s", how, key, got[key], want[key])
			}
		}
	}
	build, err := w.store.BeginBuild(w.Context(), w.shard, "g2")
	w.ok(err)
	w.add(build, events)
	w.ok(build.Swap(w.Context()))
	same("a rebuild from the log")
	from := rapid.SampledFrom(w.seams).Draw(w.rt, "seam")
	if from.point != Origin { // the writer does not ask a ClickHouse that has nothing
		w.load(from, events)
		same("a rebuild from ClickHouse and the log's tail")
	}
	w.restore(from.dump)
	after, err := w.store.Replay(w.Context(), w.shard, from.point, events[from.point.Head.Position:], "g3")
	w.ok(err)
	if after != w.point() {
		w.Fatalf("replayed to %s, %s, not to %s, %s", after.Head, after.Link, w.head, w.link)
	}
	same("a replay of what was lost")
	w.redeliver()
}

// load makes the shard anew from what ClickHouse has at a seam, and the rest of the log.
func (w *walk) load(at seam, events []*ledgerv1.Event) {
	build, err := w.store.BeginBuild(w.Context(), w.shard, "g3")
	w.ok(err)
	load := build.Load(w.now)
	send := func(c Chunk, err error) {
		w.ok(err)
		w.ok(build.Send(w.Context(), c))
	}
	var accounts []Account
	for id, record := range at.accounts {
		a, err := ParseAccount(id, record)
		w.ok(err)
		accounts = append(accounts, a)
	}
	var holds []Hold
	for id, record := range at.holds {
		h, err := ParseHold(id, record)
		w.ok(err)
		holds = append(holds, h)
	}
	size := rapid.IntRange(1, 40).Draw(w.rt, "rows")
	for page := range slices.Chunk(accounts, size) {
		send(load.Accounts(page))
	}
	for page := range slices.Chunk(events[:at.point.Head.Position], size) { // wherever calls end
		send(load.Outcomes(page))
	}
	for page := range slices.Chunk(holds, size) {
		send(load.Holds(page))
	}
	send(load.Done())
	if build.At() != at.point {
		w.Fatalf("loaded to %s, %s, not to %s, %s", build.At().Head, build.At().Link, at.point.Head, at.point.Link)
	}
	w.add(build, events[at.point.Head.Position:])
	w.ok(build.Swap(w.Context()))
}

// add gives events to a build, some calls at a time.
func (w *walk) add(build *Build, events []*ledgerv1.Event) {
	for page := range slices.Chunk(calls(events), rapid.IntRange(1, 12).Draw(w.rt, "calls of a page")) {
		w.ok(build.Add(w.Context(), slices.Concat(page...)))
	}
	if build.At() != w.point() {
		w.Fatalf("built to %s, %s, not to %s, %s", build.At().Head, build.At().Link, w.head, w.link)
	}
}

// redeliver sends everything again: a shard that was made anew remembers it all.
func (w *walk) redeliver() {
	live := w.content()
	for page := range slices.Chunk(w.past, CommandsMax) {
		for i, d := range w.apply(page...) {
			if d.Kind == Decided {
				w.Fatalf("command %s was decided again", page[i].GetCommandId())
			}
		}
	}
	if !maps.Equal(live, w.content()) {
		w.Fatal("redelivery changed a key")
	}
	if n, err := w.rdb.XLen(w.Context(), OutboxKey(w.shard)).Result(); err != nil && err != redis.Nil || n != 0 { //nolint:errorlint // go-redis returns it bare
		w.Fatalf("%d entries in the outbox after a replay: %v", n, err)
	}
}
