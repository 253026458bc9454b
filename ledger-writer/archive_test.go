package writer

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/lua"
	"github.com/hotledger/hotledger/sandbox"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// sharedClickHouse serves all tests; each has databases of its own. CLICKHOUSE_ADDRS names another one.
var sharedClickHouse = sync.OnceValues(func() (*sandbox.ClickHouse, error) {
	return sandbox.StartClickHouse(context.Background(), sandbox.ClickHouseOptions{})
})

var (
	sharedStarted atomic.Bool // read by TestMain when all tests have ended
	databases     atomic.Int64
)

// rows are the events of the log.
func (l *ledger) rows(t *testing.T) []row {
	t.Helper()
	var rows []row
	for _, r := range l.read(t, topics.Events) {
		e := &ledgerv1.Event{}
		must(t, proto.Unmarshal(r.Value, e))
		rows = append(rows, row{e, r.Offset})
	}
	return rows
}

// content is everything that Redis has of a shard, byte for byte, but for the generation, and for which bucket an outcome is in. (The order of a
// DUMP's fields depends on how they came there.)
func (l *ledger) content(t *testing.T, shard int) string {
	t.Helper()
	accounts, err := l.rdb.HGetAll(t.Context(), lua.AccountsKey(shard)).Result()
	must(t, err)
	holds, err := l.rdb.HGetAll(t.Context(), lua.HoldsKey(shard)).Result()
	must(t, err)
	outcomes, err := l.rdb.HGetAll(t.Context(), lua.OutcomesKey(shard)).Result()
	must(t, err)
	old, err := l.rdb.HGetAll(t.Context(), lua.OldOutcomesKey(shard)).Result()
	must(t, err)
	maps.Copy(outcomes, old)
	head, err := l.rdb.HMGet(t.Context(), lua.HeadKey(shard), "position", "chain").Result()
	must(t, err)
	outbox, err := l.rdb.XInfoStream(t.Context(), lua.OutboxKey(shard)).Result()
	must(t, err)
	return fmt.Sprintf("%q\n%q\n%q\n%q\n%d %s", accounts, holds, outcomes, head, outbox.Length, outbox.LastGeneratedID)
}

// rebuilds makes one shard anew with a writer's means, and says what it did.
func (l *ledger) rebuilds(t *testing.T, w *hand, shard int) (Rebuilt, error) {
	t.Helper()
	end, err := w.log.stableEnd(t.Context(), shard)
	must(t, err)
	last, err := w.log.last(t.Context(), shard, end)
	must(t, err)
	return w.rebuild(shard, last, end).run(t.Context())
}

// varied is traffic with everything that an outcome can say.
func varied(name string, n int) []*ledgerv1.Command {
	commands := traffic(name, n)
	rich := open("rich")
	rich.Open = &ledgerv1.OpenTerms{Floor: "-999999999999999999"}
	yen := open("yen")
	yen.Currency = "JPY"
	commands = append(commands, rich, yen, open("rich"), credit("limit-1", "rich", "999999999999999999"), credit("limit-2", "rich", "1"),
		debit("limit-3", "rich", "999999999999999999"), debit("limit-4", "rich", "999999999999999999"), credit("unit", "yen", "1"),
		credit("nobody", "no such account", "1"), credit("amount", "rich", "1e3"))
	again := open("rich")
	again.CommandId = "open again"
	late := credit("sequence", "rich", "5")
	late.ExpectedSequence = proto.Uint64(math.MaxUint32)
	return append(append(commands, again, late), variedTerms()...)
}

// variedTerms are holds, reversals, transfers, groups and limits on accounts of their own.
func variedTerms() []*ledgerv1.Command {
	capped := open("held")
	capped.Open = &ledgerv1.OpenTerms{Floor: "-10", Ceiling: "5000"}
	commands := []*ledgerv1.Command{capped, open("far"), credit("h-c", "held", "1000"), grouped(credit("h-g", "held", "100"), "@x", "60", "@y", "40"), grouped(debit("h-o", "held", "7"), "@x", "3", "@y", "4"),
		toExternal(debit("h-s", "held", "9"), "@shop")}
	for i := range 40 { // open, in part, and gone
		id := fmt.Sprintf("h-%d", i)
		commands = append(commands, toExternal(hold(id, "held", "10", time.Duration(i%2)*1000*time.Hour), []string{"", "@shop"}[i%2]))
		switch i % 4 {
		case 1:
			commands = append(commands, capture(id+"-c", "held", id, "4"))
		case 2:
			commands = append(commands, release(id+"-r", "held", id, "3"))
		case 3:
			commands = append(commands, capture(id+"-c", "held", id, ""))
		}
	}
	return append(commands, reverse("r-1", "held", "h-c", "5"), reverse("r-2", "held", "h-c", "6"), reverse("r-3", "held", "h-o", ""), reverse("r-4", "held", "h-1-c", ""), reverse("r-5", "held", "h-o", "1"),
		transfer("t-1", "held", "far", "50"), transfer("t-2", "held", "nobody at all", "5"), transfer("t-3", "held", "@shop", "5"), ceilingAt("h-l", "held", "none"), freeze("h-f", "far"))
}

func TestARebuildFromClickHouseIsTheSameToTheByte(t *testing.T) {
	t.Parallel()
	l := setup(t, "LEDGER_WRITER_BATCH_RECORDS=40") // many calls
	stop := l.run(t)
	commands := varied("same", 2500)
	l.send(t, commands...)
	events := l.audit(t)
	must(t, stop())
	log := l.rows(t)
	applied := map[ledgerv1.Operation]int{}
	for _, e := range events {
		if e.GetOutcome().GetStatus() == ledgerv1.Status_STATUS_APPLIED {
			applied[e.GetCommand().GetOperation()]++
		}
	}
	if len(applied) < 11 { // all but unfreeze, close, adjust and repair
		t.Errorf("not every operation is among what was applied: %v", applied)
	}
	fromTheLog := map[int]string{}
	alone := l.byHand(t, l.writer(t))
	for shard := range shards {
		done, err := l.rebuilds(t, alone, shard)
		must(t, err)
		if done.From != FromLog {
			t.Fatalf("shard %d: %s", shard, done)
		}
		fromTheLog[shard] = l.content(t, shard)
	}
	held, reversed := topics.ShardOf("held", shards), lua.OutcomeField("h-c")+"\n"
	if holds, total := l.rdb.HLen(t.Context(), lua.HoldsKey(held)).Val(), l.rdb.HGet(t.Context(), lua.OldOutcomesKey(held), reversed).Val()+l.rdb.HGet(t.Context(), lua.OutcomesKey(held), reversed).Val(); holds < 31 || total != "11" {
		t.Errorf("%d holds with their marker, %q reversed of h-c", holds, total)
	}
	alone.crash()
	for _, lag := range []uint64{0, 1, 100} { // so far behind the log
		var rows []row
		for _, r := range log {
			if r.GetOutcome().GetPosition()+lag <= headOf(log, r.GetOutcome().GetShard()) {
				rows = append(rows, r)
			}
		}
		l.archived(t, rows)
		w := l.byHand(t, l.writer(t))
		must(t, l.rdb.FlushAll(t.Context()).Err())
		for shard := range shards {
			last := headOf(log, uint32(shard))
			done, err := l.rebuilds(t, w, shard)
			must(t, err)
			seam := endOfCall(log, uint32(shard), last-min(lag, last))
			if seam > 0 && (done.From != FromClickHouse || uint64(done.Tail) != last-seam || uint64(done.Events) != last) {
				t.Errorf("lag %d, shard %d with %d events: %s", lag, shard, last, done)
			}
			if got := l.content(t, shard); got != fromTheLog[shard] {
				t.Errorf("lag %d, shard %d is\n%s, not\n%s", lag, shard, got, fromTheLog[shard])
			}
		}
		w.crash()
	}
	must(t, l.rdb.FlushAll(t.Context()).Err())
	l.run(t)
	if after := l.audit(t); !maps.EqualFunc(after, events, func(a, b *ledgerv1.Event) bool { return proto.Equal(a, b) }) {
		t.Error("the log changed")
	}
	l.repeated(t, events, commands[:300])
}

// endOfCall is the last position up to another one where a call ends; 0: none does.
func endOfCall(rows []row, shard uint32, upTo uint64) (end uint64) {
	for _, r := range rows {
		if o := r.GetOutcome(); o.GetShard() == shard && o.GetPosition() <= upTo && len(r.GetHead()) > 0 {
			end = max(end, o.GetPosition())
		}
	}
	return end
}

// headOf is the last position of a shard.
func headOf(rows []row, shard uint32) (last uint64) {
	for _, r := range rows {
		if r.GetOutcome().GetShard() == shard {
			last = max(last, r.GetOutcome().GetPosition())
		}
	}
	return last
}

func TestAClickHouseThatDisagreesIsNotUsed(t *testing.T) {
	t.Parallel()
	l := setup(t)
	stop := l.run(t)
	l.send(t, open("a"), credit("c1", "a", "100"), debit("d1", "a", "30"), debit("d2", "a", "300"), open("b"), credit("c2", "b", "7"), credit("c3", "a", "5"),
		toExternal(hold("h", "a", "20", time.Hour), "@shop"), capture("x", "a", "h", "5"), reverse("r", "a", "c1", "1"), grouped(debit("g", "a", "5"), "@x", "2", "@y", "3"), ceilingAt("l", "a", "1000"))
	l.audit(t)
	must(t, stop())
	shard := topics.ShardOf("a", shards)
	var log []row
	for _, r := range l.rows(t) {
		if r.GetOutcome().GetShard() == uint32(shard) {
			log = append(log, r)
		}
	}
	alone := l.byHand(t, l.writer(t))
	_, err := l.rebuilds(t, alone, shard)
	must(t, err)
	want := l.content(t, shard)
	alone.crash()
	changed := func(i int, change func(r *row)) []row {
		rows := append([]row{}, log...)
		rows[i].Event = proto.CloneOf(rows[i].Event)
		change(&rows[i])
		return rows
	}
	named := func(id string, change func(o *ledgerv1.Outcome)) []row {
		at := slices.IndexFunc(log, func(r row) bool { return r.GetOutcome().GetCommandId() == id })
		return changed(at, func(r *row) { change(r.Outcome) })
	}
	for name, rows := range map[string][]row{
		"another rest of a hold":       named("x", func(o *ledgerv1.Outcome) { o.Hold.Remaining = "14" }),
		"a hold that is gone":          named("x", func(o *ledgerv1.Outcome) { o.Hold.Remaining = "0" }),
		"another end of a hold":        named("x", func(o *ledgerv1.Outcome) { o.Hold.ExpiresAt.Seconds++ }),
		"another counter of a hold":    named("x", func(o *ledgerv1.Outcome) { o.Hold.CounterAccount = "" }),
		"another hold":                 named("x", func(o *ledgerv1.Outcome) { o.Hold.HoldId = "i" }),
		"no hold":                      named("h", func(o *ledgerv1.Outcome) { o.Hold = nil }),
		"another held amount":          named("l", func(o *ledgerv1.Outcome) { o.After.Held = "14" }),
		"another total":                named("r", func(o *ledgerv1.Outcome) { o.Reversal.Total = "2" }),
		"another reversed command":     named("r", func(o *ledgerv1.Outcome) { o.Reversal.CommandId = "c3" }),
		"another leg":                  named("g", func(o *ledgerv1.Outcome) { o.Legs[0].CounterAccount = "@z" }),
		"another part":                 named("g", func(o *ledgerv1.Outcome) { o.Legs[0].Amount, o.Legs[1].Amount = "3", "2" }),
		"another ceiling":              named("l", func(o *ledgerv1.Outcome) { o.After.Ceiling = "1001" }),
		"no ceiling":                   named("l", func(o *ledgerv1.Outcome) { o.After.Ceiling = "" }),
		"another status":               named("l", func(o *ledgerv1.Outcome) { o.After.Status = "frozen" }),
		"a sender":                     named("c3", func(o *ledgerv1.Outcome) { o.TransferAccount = "z" }),
		"empty":                        nil,
		"a gap":                        append(append([]row{}, log[:2]...), log[3:]...),
		"no beginning":                 log[1:],
		"a row twice":                  append(append([]row{}, log...), log[2]),
		"a row twice, another missing": append(append([]row{}, log[:3]...), append([]row{log[1]}, log[4:]...)...),
		"another chain at the end":     changed(len(log)-1, func(r *row) { r.Chain[0]++ }),
		"another offset at the end":    changed(len(log)-1, func(r *row) { r.offset-- }),
		"an offset beyond the log":     changed(len(log)-1, func(r *row) { r.offset += 1000 }),
		"another amount":               changed(1, func(r *row) { r.Outcome.Delta = "101" }),
		"another balance":              changed(2, func(r *row) { r.Outcome.After.Balance = "71" }),
		"another command":              changed(2, func(r *row) { r.Outcome.CommandId = "x" }),
		"another account":              changed(1, func(r *row) { r.Outcome.Account = "x" }),
		"another reason":               changed(3, func(r *row) { r.Outcome.Reason = ledgerv1.Reason_REASON_LIMIT_EXCEEDED }),
		"another fingerprint":          changed(3, func(r *row) { r.Fingerprint[0]++ }),
		"more than the log, another chain": append(changed(len(log)-1, func(r *row) { r.Chain[0]++ }),
			row{&ledgerv1.Event{Outcome: &ledgerv1.Outcome{Shard: uint32(shard), Position: uint64(len(log)) + 1, Status: ledgerv1.Status_STATUS_APPLIED,
				DecidedAt: log[0].GetOutcome().GetDecidedAt()}, Chain: make([]byte, 20), Fingerprint: make([]byte, 16)}, 1000}),
	} {
		l.archived(t, rows)
		w := l.byHand(t, l.writer(t))
		done, err := l.rebuilds(t, w, shard)
		if err != nil || done.From != FromLog {
			t.Errorf("%s: %s, %v", name, done, err)
		}
		if got := l.content(t, shard); got != want {
			t.Errorf("%s: shard is\n%s, not\n%s", name, got, want)
		}
		w.crash()
	}
	l.cfg.ClickHouse.Addrs = []string{"127.0.0.1:1"} // away
	done, err := l.rebuilds(t, l.byHand(t, l.writer(t)), shard)
	if err != nil || done.From != FromLog {
		t.Errorf("away: %s, %v", done, err)
	}
}

func TestAClickHouseThatKnowsMoreOfTheSameLogStopsTheWriter(t *testing.T) {
	t.Parallel()
	l := setup(t)
	stop := l.run(t)
	l.send(t, open("a"), credit("c1", "a", "100"))
	l.audit(t)
	must(t, stop())
	rows := l.rows(t)
	next := row{proto.CloneOf(rows[len(rows)-1].Event), rows[len(rows)-1].offset + 2}
	next.Outcome.Position++
	l.archived(t, append(rows, next))
	must(t, l.rdb.FlushAll(t.Context()).Err())
	if err := fails(t, l.writer(t)); !strings.Contains(err.Error(), "lost committed events") {
		t.Errorf("stopped by %v", err)
	}
}

// fill writes a made-up log of one shard in transactions of some sizes, every third of them aborted first.
func (l *ledger) fill(t *testing.T, shard, n int) history {
	t.Helper()
	made := branch("long", history{}, 0, n)
	client, err := kgo.NewClient(kgo.SeedBrokers(l.kafka.Addrs()...), kgo.TransactionalID("fill"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	defer client.Close()
	write := func(events []*ledgerv1.Event, end kgo.TransactionEndTry) {
		must(t, client.BeginTransaction())
		for _, e := range events {
			value, err := proto.Marshal(e)
			must(t, err)
			client.Produce(t.Context(), &kgo.Record{Topic: topics.Events, Partition: int32(shard), Value: value}, nil)
		}
		must(t, client.Flush(t.Context()))
		must(t, client.EndTransaction(t.Context(), end))
	}
	for i, turn := 0, 0; i < n; turn++ {
		size := min([]int{1, 1, 1, 7, 1, 500, 40, 1}[turn%8], n-i)
		if turn%3 == 2 {
			write(made.events[i:i+size], kgo.TryAbort)
		}
		write(made.events[i:i+size], kgo.TryCommit)
		i += size
	}
	return made
}

func TestAnEventIsFoundByItsPositionAmongMarkersAndAbortedOnes(t *testing.T) {
	t.Parallel()
	l := setup(t)
	const shard, n = 1, 3000
	made := l.fill(t, shard, n)
	w := l.byHand(t, l.writer(t))
	end, err := w.log.stableEnd(t.Context(), shard)
	must(t, err)
	last, err := w.log.last(t.Context(), shard, end)
	must(t, err)
	if last.Head != made.heads[n] {
		t.Fatalf("the log ends at %s, not %s", last.Head, made.heads[n])
	}
	for position := 0; position < n; position += 1 + position/2 {
		point, next, err := w.log.pointAt(t.Context(), shard, uint64(position), last, end)
		if err != nil || point.Head != made.heads[position] {
			t.Fatalf("at %d: %s, %v", position, point.Head, err)
		}
		first, _, err := w.log.look(t.Context(), shard, next, end, 0)
		if err != nil || first.event.GetOutcome().GetPosition() != uint64(position)+1 {
			t.Fatalf("after %d: %v, %v", position, first, err)
		}
	}
	missing := last
	missing.Head.Position += 5
	if _, _, err := w.log.pointAt(t.Context(), shard, last.Head.Position+1, missing, end); !isDamaged(err) {
		t.Errorf("beyond the end: %v", err)
	}
}

// forged is an event that does not link to anything.
func forged(shard int) *kgo.Record {
	e := &ledgerv1.Event{Outcome: &ledgerv1.Outcome{Account: "a", CommandId: "forged", Position: 3, Delta: "0"}, Chain: make([]byte, 20), Fingerprint: make([]byte, 16)}
	value, err := proto.Marshal(e)
	if err != nil {
		panic(err)
	}
	return &kgo.Record{Topic: topics.Events, Partition: int32(shard), Key: []byte("a"), Value: value}
}
