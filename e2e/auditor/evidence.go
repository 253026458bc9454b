package auditor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/topics"
)

// checkTold holds every answer that callers could hear against the books. A reuse of an id has no event: its caller is told the position of the
// first. Of a transfer that is refused on the way, or that is on the way, nobody hears before it is settled.
func (l Ledger) checkTold(ctx context.Context, v *Verdict, books []*Books) error {
	records, err := l.Records(ctx, topics.Replies)
	if err != nil {
		return err
	}
	expected := map[string]*Expectation{}
	for _, b := range books {
		for id, e := range b.Outcomes {
			expected[id] = e
		}
	}
	heard := map[string]bool{}
	for _, partition := range records {
		for _, r := range partition {
			reply := &ledgerv1.Reply{}
			if err := proto.Unmarshal(r.Value, reply); err != nil {
				v.complain("reply at %d/%d cannot be read: %v", r.Partition, r.Offset, err)
				continue
			}
			o := reply.GetOutcome()
			e := expected[o.GetCommandId()]
			if e == nil {
				v.complain("command %s was answered, and has no event", o.GetCommandId())
				continue
			}
			if o.GetReason() == ledgerv1.Reason_REASON_COMMAND_ID_REUSED {
				if first := books[o.GetShard()].log[o.GetCommandId()]; first.GetPosition() != o.GetPosition() {
					v.complain("command %s: its caller was told of a first one at %d, which is at %d", o.GetCommandId(), o.GetPosition(), first.GetPosition())
				}
				continue
			}
			heard[o.GetCommandId()] = true
			if got, want := answerOf(o), e.told(books); got != want {
				v.complain("command %s (%s): its caller was told %s, expected %s", o.GetCommandId(), e.Command.GetOperation(), got, want)
			}
		}
	}
	for id, e := range expected {
		if e.Command.GetReplyTo() != "" && e.Command.GetOrigin() == nil && !heard[id] {
			v.complain("command %s (%s): nobody was told what became of it", id, e.Command.GetOperation())
		}
	}
	return nil
}

// checkDeadLetters counts the commands that could not become outcomes: each is buried once.
func (l Ledger) checkDeadLetters(ctx context.Context, v *Verdict, books []*Books) error {
	records, err := l.Records(ctx, topics.DeadLetters)
	if err != nil {
		return err
	}
	buried, expected := 0, 0
	for _, partition := range records {
		for _, r := range partition {
			letter := &ledgerv1.DeadLetter{}
			if err := proto.Unmarshal(r.Value, letter); err == nil && letter.GetTopic() == topics.Commands {
				buried++
			}
		}
	}
	for _, b := range books {
		expected += b.DeadLetters
	}
	if buried != expected {
		v.complain("%d commands are dead letters, expected %d", buried, expected)
	}
	return nil
}

// fieldBytes of the SHA-256 of its id are what an outcome is remembered by.
const fieldBytes = 14

// checkRemembered asks Redis whether it knows the id of every outcome that it does not say it forgot: one that is lost could be decided again.
func (l Ledger) checkRemembered(ctx context.Context, v *Verdict, shard int, books *Books) error {
	remembered := map[string]bool{} // by field
	pattern := fmt.Sprintf("ledger:{%d}:outcomes:*", shard)
	list := l.Redis.Keys
	if cluster, ok := l.Redis.(*goredis.ClusterClient); ok { // which asks any node for KEYS
		node, err := cluster.MasterForKey(ctx, pattern)
		if err != nil {
			return fmt.Errorf("find the node of shard %d: %w", shard, err)
		}
		list = node.Keys
	}
	keys, err := list(ctx, pattern).Result()
	if err != nil {
		return fmt.Errorf("list outcomes of shard %d: %w", shard, err)
	}
	for _, key := range keys {
		fields, err := l.Redis.HKeys(ctx, key).Result()
		if err != nil {
			return fmt.Errorf("read outcomes of shard %d: %w", shard, err)
		}
		for _, field := range fields {
			remembered[field] = true
		}
	}
	delete(remembered, "")
	forgotten, err := l.Redis.HGet(ctx, fmt.Sprintf("ledger:{%d}:head", shard), "forgotten").Result() // "position chain"
	if err != nil {
		return fmt.Errorf("read the head of shard %d: %w", shard, err)
	}
	var through uint64
	if _, err := fmt.Sscan(forgotten, &through); err != nil || l.Window == 0 && through != 0 {
		v.complain("shard %d: outcomes are forgotten through %q", shard, forgotten)
	}
	for id := range books.Outcomes {
		hash := sha256.Sum256([]byte(id))
		field := string(hash[:fieldBytes])
		switch {
		case remembered[field]:
		case books.log[id].GetPosition() > through:
			v.complain("command %s at %d is forgotten by redis, which says that it forgot up to %d", id, books.log[id].GetPosition(), through)
		default:
			v.Forgotten++
		}
		delete(remembered, field)
	}
	for field := range remembered {
		if len(field) > fieldBytes { // how much of it was reversed
			continue
		}
		v.complain("shard %d: redis remembers a command that was never sent, by %x", shard, field)
	}
	return nil
}

// columns of a row that are held against the log.
const columns = `position, log_offset, account, command_id, sequence, toString(status), reason, toString(delta), toString(balance_after), toString(held_after),
	toString(floor_after), toString(ifNull(toString(ceiling_after), '')), toString(sequence_after), account_status, hold_id, toString(hold_remaining), reversed_command_id,
	toString(reversed_total), transfer_account`

// checkRows holds ClickHouse's rows against the log, one by one.
func (l Ledger) checkRows(ctx context.Context, v *Verdict, shard int, records []*kgo.Record) error {
	rows, err := l.ClickHouse.Query(ctx, fmt.Sprintf("SELECT %s FROM %s.events WHERE shard = ? ORDER BY position, log_offset", columns, l.Database), shard)
	if err != nil {
		return fmt.Errorf("read rows of shard %d: %w", shard, err)
	}
	defer func() { _ = rows.Close() }()
	n := 0
	for ; rows.Next(); n++ {
		var position, offset, sequence uint64
		var account, id string
		texts := make([]string, 14)
		into := []any{&position, &offset, &account, &id, &sequence}
		for i := range texts {
			into = append(into, &texts[i])
		}
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read rows of shard %d: %w", shard, err)
		}
		if n >= len(records) {
			continue
		}
		have := fmt.Sprintf("%d %d %d %s %s %s", position, offset, sequence, account, id, strings.Join(texts, " "))
		if want := rowOf(records[n]); have != want {
			v.complain("shard %d: row %d of clickhouse is %q, expected %q", shard, n+1, have, want)
		}
	}
	if n != len(records) {
		v.complain("shard %d: clickhouse has %d rows, the log %d events", shard, n, len(records))
	}
	return rows.Err()
}

func rowOf(r *kgo.Record) string {
	e := &ledgerv1.Event{}
	if err := proto.Unmarshal(r.Value, e); err != nil {
		return err.Error()
	}
	o := e.GetOutcome()
	after := o.GetAfter()
	status, sequence := "applied", after.GetSequence()
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		status, sequence = "rejected", 0
	}
	return fmt.Sprintf("%d %d %d %s", o.GetPosition(), r.Offset, sequence, strings.Join([]string{
		o.GetAccount(), o.GetCommandId(), status, codeOf(o.GetReason()), orZero(o.GetDelta()), orZero(after.GetBalance()), orZero(after.GetHeld()),
		orZero(after.GetFloor()), after.GetCeiling(), fmt.Sprint(after.GetSequence()), after.GetStatus(), o.GetHold().GetHoldId(),
		orZero(o.GetHold().GetRemaining()), o.GetReversal().GetCommandId(), orZero(o.GetReversal().GetTotal()), o.GetTransferAccount(),
	}, " "))
}

func orZero(text string) string {
	if text == "" {
		return "0"
	}
	return text
}
