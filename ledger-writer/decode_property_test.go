package writer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/topics"
)

// bytesOf is the command on the wire; what cannot be encoded becomes bytes that cannot be decoded.
func bytesOf(t *rapid.T, c *ledgerv1.Command) []byte {
	value, err := proto.Marshal(c)
	if err != nil {
		return []byte(c.String())
	}
	if rapid.IntRange(0, 19).Draw(t, "cut?") == 0 {
		return value[:rapid.IntRange(0, len(value)).Draw(t, "cut")]
	}
	return value
}

// What passes the checks in Go must never be refused by the script as malformed: that answer is for a whole call, and would stall the shard.
// What the script then remembers must be readable by itself: a record that is not would be CORRUPT for ever.
func TestNothingThatPassesDecodeStopsTheScript(t *testing.T) {
	t.Parallel()
	l := setup(t, "LEDGER_SHARDS=1")
	w := l.writer(t)
	t.Cleanup(w.close)
	applied := map[ledgerv1.Operation]int{}
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		build, err := w.store.BeginBuild(ctx, 0, "generation")
		must(t, err)
		must(t, build.Swap(ctx))
		w.owned.reset()
		w.owned.enter("", -1, []int32{0})
		s, _ := w.owned.get(0)
		s.at = lua.Origin
		var events []*ledgerv1.Event
		for range rapid.IntRange(1, 4).Draw(rt, "batches") {
			b := &batch{records: map[int][]*kgo.Record{}}
			if len(events) == 0 {
				for _, c := range []*ledgerv1.Command{open("a"), open("b"), credit("1", "a", "5000"), credit("2", "b", "50"), debit("3", "a", "5"), holdOf("h1", "a"), holdOf("h2", "b")} {
					b.records[0] = append(b.records[0], record(t, c))
				}
			}
			for range rapid.IntRange(20, 100).Draw(rt, "commands") {
				b.records[0] = append(b.records[0], &kgo.Record{Topic: topics.Commands, Value: bytesOf(rt, garbage(rt, "", "generation"))})
			}
			b.records[0] = append(b.records[0], record(t, credit(fmt.Sprintf("valid-%d", len(events)), "a", "1")))
			w.share(b)
			p := b.parts[0]
			for { // as in apply, but nothing is published
				call, err := w.prepareCall(p)
				must(t, err)
				if call == nil {
					break
				}
				call.Expected = p.at.Head
				answer, err := w.decide(ctx, call)
				if err != nil {
					rt.Fatalf("the shard is stalled: %v", err)
				}
				must(t, p.take(answer))
			}
			for i, d := range p.decisions {
				if d.Kind != lua.Decided {
					continue
				}
				event, link, err := p.at.Link.Event(p.commands[i], d)
				must(t, err)
				p.at.Link = link
				events = append(events, event)
				if d.Outcome.GetStatus() == ledgerv1.Status_STATUS_APPLIED {
					applied[event.GetCommand().GetOperation()]++
				}
			}
			s.at = p.at
		}
		rebuild, err := w.store.BeginBuild(ctx, 0, "again")
		must(t, err)
		if err := rebuild.Add(ctx, events); err != nil {
			rt.Fatalf("the log cannot be folded: %v", err)
		}
	})
	// Garbage that is never applied proves little. Each operation is applied some times in a run, the rarest about ten times.
	if most := len(ledgerv1.Operation_name) - 3; len(applied) < most {
		t.Errorf("only %d operations were ever applied: %v", len(applied), applied)
	}
}

// A repair writes what it says. The highest sequence that passes must leave a record that the script and a rebuild can read again.
func TestARepairToTheLastSequenceLeavesTheShardReadable(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	shard := topics.ShardOf("a", shards)
	l.send(t, open("other"), open("a"))
	l.audit(t)
	head, err := l.store.Head(t.Context(), shard)
	must(t, err)
	repair := &ledgerv1.Command{CommandId: "repair", Account: "a", Operation: ledgerv1.Operation_OPERATION_REPAIR, Repair: &ledgerv1.RepairTerms{
		Seen:       &ledgerv1.AccountSnapshot{Sequence: 1, Balance: "0", Held: "0", Floor: "0", Unit: "EUR/2"},
		Log:        &ledgerv1.AccountSnapshot{Sequence: limits.SequenceMax, Balance: "0", Held: "0", Floor: "0", Unit: "EUR/2"},
		Generation: head.Generation, RunId: "run", BreakId: "break",
	}}
	l.send(t, repair, credit("c1", "a", "5"))
	l.decided(t, 4)
	must(t, l.rdb.FlushAll(t.Context()).Err())
	l.send(t, credit("c2", "a", "5"))
	l.decided(t, 5)
	l.quiet(t)
	if a, found, err := l.store.Account(t.Context(), shard, "a"); err != nil || !found || a.Balance != 10 || a.Sequence != limits.SequenceMax+3 {
		t.Errorf("account %+v, %t, %v", a, found, err)
	}
}

func TestGarbageNeverStallsTheShard(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.run(t)
	l.send(t, open("a"))
	l.audit(t)
	head, err := l.store.Head(t.Context(), topics.ShardOf("a", shards))
	must(t, err)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		if round++; round > 40 && !rt.Failed() {
			return // a round costs some commits; the script alone has had all of them above
		}
		var records []*kgo.Record
		for range rapid.IntRange(1, 20).Draw(rt, "commands") {
			r := &kgo.Record{Topic: topics.Commands, Partition: rapid.Int32Range(0, shards-1).Draw(rt, "partition"), Value: bytesOf(rt, garbage(rt, fmt.Sprint(round), head.Generation))}
			if rapid.Bool().Draw(rt, "key?") {
				r.Key = []byte(garbler{rt, 20}.oneOf("key", "a"))
			}
			records = append(records, r)
		}
		for _, account := range accountsOf() {
			records = append(records, record(t, credit(fmt.Sprintf("after %d on %s", round, account), account, "1")))
		}
		l.sendRaw(t, records...)
	})
	l.quiet(t)
	found := 0
	for _, r := range l.read(t, topics.Events) {
		if strings.HasPrefix(string(r.Key), "acc-") {
			found++
		}
	}
	if want := min(round, 40) * shards; found != want {
		t.Errorf("%d of %d valid commands are decided", found, want)
	}
}
