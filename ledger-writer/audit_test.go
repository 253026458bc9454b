package writer

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/kafka"
	"github.com/hotledger/hotledger/lua"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/topics"
)

// audit waits until every command is decided and nothing is on its way, and then holds the ledger against what must always be true:
// events linked without a gap, one outcome per command id and in the commands' order, Redis the fold of the log, outbox empty.
// It returns the events by command id.
func (l *ledger) audit(t *testing.T) map[string]*ledgerv1.Event {
	t.Helper()
	commands := l.quiet(t)
	events := l.read(t, topics.Events)
	byID := map[string]*ledgerv1.Event{}
	links, heads := map[int32]lua.Link{}, map[int32]lua.Head{}
	for _, r := range events {
		e := &ledgerv1.Event{}
		must(t, proto.Unmarshal(r.Value, e))
		before, ok := links[r.Partition]
		if !ok {
			before = lua.FirstLink
		}
		after, err := lua.LinkAfter(before, e)
		if err != nil {
			t.Fatalf("shard %d: %v", r.Partition, err)
		}
		links[r.Partition] = after
		point, _ := lua.PointOf(e) // of the last event: whole calls are committed
		heads[r.Partition] = point.Head
		id := e.GetOutcome().GetCommandId()
		if byID[id] != nil {
			t.Fatalf("command %q has two events", id)
		}
		if string(r.Key) != e.GetOutcome().GetAccount() || e.GetCommand().GetCommandId() != id {
			t.Errorf("event of %q has key %q and command %q", id, r.Key, e.GetCommand().GetCommandId())
		}
		byID[id] = e
	}
	l.auditOrder(t, commands, byID)
	l.auditRedis(t, heads, fold(t, events))
	auditTransit(t, byID)
	return byID
}

// auditTransit checks that all money that left one account for another has arrived or come back.
func auditTransit(t *testing.T, byID map[string]*ledgerv1.Event) {
	t.Helper()
	var transit int64
	for _, e := range byID {
		for _, leg := range e.GetOutcome().GetLegs() {
			if leg.GetCounterAccount() == limits.Transit {
				transit += minor(t, e.GetOutcome().GetDelta())
			}
		}
	}
	if transit != 0 {
		t.Errorf("%d stands on %s", -transit, limits.Transit)
	}
}

func minor(t *testing.T, digits string) int64 {
	t.Helper()
	if digits == "" {
		return 0
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	must(t, err)
	return n
}

// openTransactions names a partition in which a transaction has not ended: a dead writer's, until it times out.
func (l *ledger) openTransactions(t *testing.T, topic string) string {
	t.Helper()
	stable, err := l.admin.ListCommittedOffsets(t.Context(), topic)
	must(t, err)
	ends, err := l.admin.ListEndOffsets(t.Context(), topic)
	must(t, err)
	for partition, end := range ends[topic] {
		if at := stable[topic][partition].Offset; at < end.Offset {
			return fmt.Sprintf("a transaction is open at %d of shard %d of %s", at, partition, topic)
		}
	}
	return ""
}

// quiet waits until the group has read every command and Redis holds nothing unpublished. It returns the commands.
func (l *ledger) quiet(t *testing.T) []*kgo.Record {
	t.Helper()
	var commands []*kgo.Record
	until(t, "all commands decided", func() string {
		if open := l.openTransactions(t, topics.Commands); open != "" {
			return open // what was committed after it cannot be read yet
		}
		commands = l.read(t, topics.Commands)
		next := map[int32]int64{}
		for _, r := range commands {
			next[r.Partition] = r.Offset + 1
		}
		committed, err := l.admin.FetchOffsetsForTopics(t.Context(), l.cfg.Group, topics.Commands)
		if err != nil {
			return err.Error()
		}
		for partition, want := range next {
			if at, _ := committed.Lookup(topics.Commands, partition); at.At < want {
				return fmt.Sprintf("at %d of %d commands of shard %d", at.At, want, partition)
			}
		}
		if n := len(l.read(t, topics.Commands)); n != len(commands) { // what was decided last asked for more
			return fmt.Sprintf("%d commands became %d", len(commands), n)
		}
		return ""
	})
	until(t, "nothing unpublished", func() string {
		for shard := range shards {
			if n, err := l.rdb.XLen(t.Context(), lua.OutboxKey(shard)).Result(); err != nil || n > 0 {
				return fmt.Sprintf("%d entries in the outbox of shard %d (%v)", n, shard, err)
			}
		}
		return ""
	})
	return commands
}

// auditOrder checks that every valid command has its event, on its shard, in the order in which the ids first came there.
func (l *ledger) auditOrder(t *testing.T, commands []*kgo.Record, byID map[string]*ledgerv1.Event) {
	t.Helper()
	seen := map[string]bool{}
	last := map[int32]uint64{}
	for _, r := range commands {
		c := &ledgerv1.Command{}
		if len(r.Value) == 0 || len(r.Value) > limits.CommandBytesMax || headerBytes(r) > headerBytesMax || proto.Unmarshal(r.Value, c) != nil ||
			!limits.Recordable(c) ||
			int(r.Partition) != topics.ShardOf(c.GetAccount(), shards) || seen[c.GetCommandId()] {
			continue
		}
		seen[c.GetCommandId()] = true
		e := byID[c.GetCommandId()]
		if e == nil {
			t.Errorf("command %q at %d/%d has no event", c.GetCommandId(), r.Partition, r.Offset)
			continue
		}
		if int32(e.GetOutcome().GetShard()) != r.Partition {
			continue // the id was first used on another shard's account
		}
		if e.GetOutcome().GetPosition() <= last[r.Partition] {
			t.Errorf("command %q at %d/%d overtook another", c.GetCommandId(), r.Partition, r.Offset)
		}
		last[r.Partition] = e.GetOutcome().GetPosition()
	}
	for id := range byID {
		if !seen[id] {
			t.Errorf("event of %q, which nobody asked for", id)
		}
	}
}

// fold rebuilds every account from deltas and holds alone, and checks each event's state against it. Limits and status are as the last event says.
func fold(t *testing.T, events []*kgo.Record) map[string]lua.Account {
	t.Helper()
	accounts, holds := map[string]lua.Account{}, map[string]int64{}
	for _, r := range events {
		e := &ledgerv1.Event{}
		must(t, proto.Unmarshal(r.Value, e))
		o := e.GetOutcome()
		a, after := accounts[o.GetAccount()], o.GetAfter()
		if o.GetStatus() == ledgerv1.Status_STATUS_APPLIED {
			a.ID, a.Unit, a.Status, a.Floor, a.Ceiling = o.GetAccount(), after.GetUnit(), after.GetStatus(), minor(t, after.GetFloor()), after.GetCeiling()
			a.Balance += minor(t, o.GetDelta())
			a.Sequence++
			if h := o.GetHold(); h != nil {
				a.Held += minor(t, h.GetRemaining()) - holds[h.GetHoldId()]
				holds[h.GetHoldId()] = minor(t, h.GetRemaining())
			}
			accounts[a.ID] = a
			mayOverdraw := e.GetCommand().GetOperation() == ledgerv1.Operation_OPERATION_ADJUST || e.GetCommand().GetReverse().GetAllowOverdraft()
			if o.GetDelta()[0] == '-' && a.Balance-a.Held < a.Floor && !mayOverdraw {
				t.Errorf("account %q is at %d with %d held, below its floor %d", a.ID, a.Balance, a.Held, a.Floor)
			}
		} else if o.GetDelta() != "0" || o.GetHold() != nil || o.GetLegs() != nil || o.GetReversal() != nil {
			t.Errorf("rejected command %q did something: %v", o.GetCommandId(), o)
		}
		if after != nil && (minor(t, after.GetBalance()) != a.Balance || minor(t, after.GetHeld()) != a.Held || after.GetSequence() != a.Sequence) {
			t.Errorf("after %q account %q is at %s, %s held@%d, the fold says %d, %d held@%d", o.GetCommandId(), a.ID, after.GetBalance(), after.GetHeld(), after.GetSequence(), a.Balance, a.Held, a.Sequence)
		}
	}
	return accounts
}

// auditRedis checks heads and accounts against the log.
func (l *ledger) auditRedis(t *testing.T, heads map[int32]lua.Head, want map[string]lua.Account) {
	t.Helper()
	found := 0
	for shard := range shards {
		head, ok := heads[int32(shard)]
		if !ok {
			head = lua.Genesis
		}
		until(t, "shard recovered", func() string { // a writer may still be on its way to a shard without commands
			state, err := l.store.Inspect(t.Context(), shard)
			if err != nil || state.Condition != lua.Whole || state.Head != head {
				return fmt.Sprintf("shard %d is %d (%s) at %s, the log at %s (%v)", shard, state.Condition, state.Why, state.Head, head, err)
			}
			return ""
		})
		page, corrupt, next, err := l.store.Accounts(t.Context(), shard, 0, 1<<20)
		if err != nil || next != 0 || len(corrupt) > 0 {
			t.Fatalf("accounts of shard %d: next %d, corrupt %v, %v", shard, next, corrupt, err)
		}
		for _, a := range page {
			if a != want[a.ID] {
				t.Errorf("redis has %+v, the log says %+v", a, want[a.ID])
			}
		}
		found += len(page)
	}
	if found != len(want) {
		t.Errorf("redis has %d accounts, the log %d", found, len(want))
	}
}

// read returns all committed records of a topic that there are now, in the order of each partition.
func (l *ledger) read(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	starts, err := l.admin.ListStartOffsets(ctx, topic)
	must(t, err)
	ends, err := l.admin.ListCommittedOffsets(ctx, topic)
	must(t, err)
	left, from := map[int32]int64{}, map[int32]kgo.Offset{}
	for partition, end := range ends[topic] {
		if start := starts[topic][partition].Offset; start < end.Offset {
			left[partition], from[partition] = end.Offset, kgo.NewOffset().At(start)
		}
	}
	if len(left) == 0 {
		return nil
	}
	client, err := kafka.NewClient(l.cfg.Kafka, zap.NewNop(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.KeepControlRecords())
	must(t, err)
	defer client.Close()
	var records []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %s: partitions %v are not read to their ends", topic, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, ok := left[r.Partition]
			if !ok {
				return
			}
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	return records
}

// replies are the committed replies by command id, in their order.
func (l *ledger) replies(t *testing.T) map[string][]*ledgerv1.Reply {
	t.Helper()
	byID := map[string][]*ledgerv1.Reply{}
	for _, r := range l.read(t, topics.Replies) {
		reply := &ledgerv1.Reply{}
		must(t, proto.Unmarshal(r.Value, reply))
		if r.Partition != topics.PartitionOf(reply.GetReplyTo(), shards) {
			t.Errorf("reply to %q on partition %d", reply.GetReplyTo(), r.Partition)
		}
		id := reply.GetOutcome().GetCommandId()
		byID[id] = append(byID[id], reply)
	}
	return byID
}

// letters are the committed dead letters, by offset of their original within its partition.
func (l *ledger) letters(t *testing.T) map[[2]int64]*ledgerv1.DeadLetter {
	t.Helper()
	letters := map[[2]int64]*ledgerv1.DeadLetter{}
	for _, r := range l.read(t, topics.DeadLetters) {
		letter := &ledgerv1.DeadLetter{}
		must(t, proto.Unmarshal(r.Value, letter))
		at := [2]int64{int64(letter.GetPartition()), letter.GetOffset()}
		if letters[at] != nil {
			t.Errorf("record %v has two dead letters", at)
		}
		letters[at] = letter
	}
	return letters
}
