package writer

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/topics"
)

// oneOf draws what is close to right, or anything at all.
func oneOf(t *rapid.T, label string, plausible ...string) string {
	if rapid.IntRange(0, 9).Draw(t, label+"?") > 1 {
		return rapid.SampledFrom(plausible).Draw(t, label)
	}
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[ -~]{0,20}`),
		rapid.StringMatching(`-?[0-9]{1,25}`),
		rapid.SampledFrom([]string{"", " ", "|", "a|b", "1|2", "-", "- -", "1 2", "\x00", "\n", "%s", "nan", "-0", "1e3", strings.Repeat("9", 400), strings.Repeat("x", 200), "applied", "active"}),
	).Draw(t, label+"!")
}

func drawTime(t *rapid.T, label string) *timestamppb.Timestamp {
	if rapid.IntRange(0, 3).Draw(t, label+"?") > 0 {
		return nil
	}
	return &timestamppb.Timestamp{
		Seconds: rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, -62135596800, 253402300799, 4e9, math.MinInt64})).Draw(t, label),
		Nanos:   rapid.OneOf(rapid.Int32(), rapid.Just(int32(0))).Draw(t, label+" nanos"),
	}
}

func drawSnapshot(t *rapid.T, label string) *ledgerv1.AccountSnapshot {
	if rapid.IntRange(0, 4).Draw(t, label+"?") == 0 {
		return nil
	}
	return &ledgerv1.AccountSnapshot{
		Sequence: rapid.OneOf(rapid.SampledFrom([]uint64{0, 1, 2, 99_999_999_999_999, 999_999_999_999_999, 1 << 53, math.MaxUint64}), rapid.Uint64()).Draw(t, label+" sequence"),
		Balance:  oneOf(t, label+" balance", "0", "100", "-5", "999999999999999999", "1000000000000000000"),
		Held:     oneOf(t, label+" held", "0", "0", "5", "-5"),
		Floor:    oneOf(t, label+" floor", "0", "0", "-5", "5"),
		Unit:     oneOf(t, label+" unit", "EUR/2", "EUR/2", "EUR", "EUR/3", "eur/2", "A B/1", "A|B/1"),
	}
}

// garbage draws a command of which every field may be right, odd or nonsense. generation is the one that a repair would need to pass.
func garbage(t *rapid.T, prefix, generation string) *ledgerv1.Command {
	c := &ledgerv1.Command{
		CommandId:      prefix + oneOf(t, "id", "1", "2", "3", "4", "5", "6"),
		Operation:      ledgerv1.Operation(rapid.OneOf(rapid.Int32Range(0, 5), rapid.Int32()).Draw(t, "operation")),
		Account:        oneOf(t, "account", "a", "b", "c", "new", "@world"),
		Amount:         oneOf(t, "amount", "1", "100", "999999999999999999", "", ""),
		Currency:       oneOf(t, "currency", "EUR", "EUR/2", "POINTS/0", ""),
		CounterAccount: oneOf(t, "counter", "", "", "@shop", "a"),
		Reference:      oneOf(t, "reference", ""),
		Description:    oneOf(t, "description", ""),
		Source:         oneOf(t, "source", ""),
		ReplyTo:        oneOf(t, "reply", "", "caller"),
		Traceparent:    oneOf(t, "trace", ""),
		EffectiveTime:  drawTime(t, "effective"),
		Deadline:       drawTime(t, "deadline"),
		RequestedAt:    drawTime(t, "requested"),
	}
	if rapid.Bool().Draw(t, "metadata?") {
		c.Metadata = map[string]string{oneOf(t, "key", "k"): oneOf(t, "value", "v")}
	}
	if rapid.IntRange(0, 4).Draw(t, "sequence?") == 0 {
		c.ExpectedSequence = proto.Uint64(rapid.Uint64().Draw(t, "sequence"))
	}
	if rapid.IntRange(0, 3).Draw(t, "open?") == 0 {
		c.Open = &ledgerv1.OpenTerms{Floor: oneOf(t, "floor", "", "0", "-100", "100", "-999999999999999999")}
	}
	if c.GetOperation() == ledgerv1.Operation_OPERATION_REPAIR || rapid.IntRange(0, 9).Draw(t, "repair?") == 0 {
		c.Repair = &ledgerv1.RepairTerms{
			Seen: drawSnapshot(t, "seen"), Log: drawSnapshot(t, "log"),
			Generation: oneOf(t, "generation", generation, generation, generation, "", "other"),
			RunId:      oneOf(t, "run", "run"), BreakId: oneOf(t, "break", "break"),
		}
	}
	return c
}

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
	t.Cleanup(func() { _ = w.rdb.Close() })
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
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
			for range rapid.IntRange(1, 12).Draw(rt, "commands") {
				b.records[0] = append(b.records[0], &kgo.Record{Topic: topics.Commands, Value: bytesOf(rt, garbage(rt, "", "generation"))})
			}
			b.records[0] = append(b.records[0], record(t, credit(fmt.Sprintf("valid-%d", len(events)), "a", "1")))
			w.share(b)
			if err := w.apply(ctx, b); err != nil {
				rt.Fatalf("the shard is stalled: %v", err)
			}
			p := b.parts[0]
			for i, d := range p.decisions {
				if d.Kind != lua.Decided {
					continue
				}
				event, link, err := p.at.Link.Event(p.commands[i], d)
				must(t, err)
				p.at.Link = link
				events = append(events, event)
			}
			s.at = p.at
		}
		rebuild, err := w.store.BeginBuild(ctx, 0, "again")
		must(t, err)
		if err := rebuild.Add(ctx, events); err != nil {
			rt.Fatalf("the log cannot be folded: %v", err)
		}
	})
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
				r.Key = []byte(oneOf(rt, "key", "a"))
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
