package auditor

import (
	"context"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
	"github.com/hotledger/hotledger/schemas/topics"
)

// replies collects what callers were told, by command id. A reuse of an id has no event: its caller is told the position of the first.
func (l Ledger) replies(ctx context.Context, v *Verdict) (map[string][]*ledgerv1.Outcome, error) {
	records, err := l.Records(ctx, topics.Replies)
	if err != nil {
		return nil, err
	}
	heard := map[string][]*ledgerv1.Outcome{}
	for _, partition := range records {
		for _, r := range partition {
			reply := &ledgerv1.Reply{}
			if err := proto.Unmarshal(r.Value, reply); err != nil {
				v.complain("reply at %d/%d cannot be read: %v", r.Partition, r.Offset, err)
				continue
			}
			id := reply.GetOutcome().GetCommandId()
			heard[id] = append(heard[id], reply.GetOutcome())
		}
	}
	return heard, nil
}

// checkReplies holds every answer to the events of a shard against them, and strikes it off heard.
func (v *Verdict) checkReplies(records []*kgo.Record, heard map[string][]*ledgerv1.Outcome) {
	for _, r := range records {
		e := &ledgerv1.Event{}
		if proto.Unmarshal(r.Value, e) != nil {
			continue // complained about already
		}
		o := e.GetOutcome()
		for _, told := range heard[o.GetCommandId()] {
			reused := told.GetReason() == ledgerv1.Reason_REASON_COMMAND_ID_REUSED
			same := told.GetStatus() == o.GetStatus() && told.GetReason() == o.GetReason() && told.GetDelta() == o.GetDelta() &&
				told.GetAfter().GetBalance() == o.GetAfter().GetBalance() && told.GetAfter().GetSequence() == o.GetAfter().GetSequence()
			if told.GetPosition() != o.GetPosition() || told.GetShard() != o.GetShard() || (!reused && !same) {
				v.complain("command %s: its caller was told %v, the log has %v", o.GetCommandId(), told, o)
			}
		}
		delete(heard, o.GetCommandId())
	}
}

// checkRemembered asks Redis whether it knows the id of every outcome: a forgotten one could be decided again.
func (l Ledger) checkRemembered(ctx context.Context, v *Verdict, shard int, books *Books) error {
	remembered := map[string]bool{}
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
		ids, err := l.Redis.HKeys(ctx, key).Result()
		if err != nil {
			return fmt.Errorf("read outcomes of shard %d: %w", shard, err)
		}
		for _, id := range ids {
			remembered[id] = true
		}
	}
	delete(remembered, "")
	for id := range books.Outcomes {
		if !remembered[id] {
			v.complain("command %s is forgotten by redis", id)
		}
		delete(remembered, id)
	}
	for id := range remembered {
		v.complain("shard %d: redis remembers command %s, which was never sent", shard, id)
	}
	return nil
}

// checkRows holds ClickHouse's rows against the log, one by one.
func (l Ledger) checkRows(ctx context.Context, v *Verdict, shard int, records []*kgo.Record) error {
	rows, err := l.ClickHouse.Query(ctx, fmt.Sprintf(`SELECT position, log_offset, account, command_id, sequence, toString(status), reason, toString(delta), toString(balance_after)
		FROM %s.events WHERE shard = ? ORDER BY position, log_offset`, l.Database), shard)
	if err != nil {
		return fmt.Errorf("read rows of shard %d: %w", shard, err)
	}
	defer func() { _ = rows.Close() }()
	n := 0
	for ; rows.Next(); n++ {
		var position, offset, sequence uint64
		var account, id, status, why, delta, balance string
		if err := rows.Scan(&position, &offset, &account, &id, &sequence, &status, &why, &delta, &balance); err != nil {
			return fmt.Errorf("read rows of shard %d: %w", shard, err)
		}
		if n >= len(records) {
			continue
		}
		have := fmt.Sprintf("%d %d %s %s %d %s %s %s %s", position, offset, account, id, sequence, status, why, delta, balance)
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
	status, why, sequence := "applied", "", o.GetAfter().GetSequence()
	if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
		status, why, sequence = "rejected", reason.Of(o.GetReason()).Code, 0
	}
	balance := o.GetAfter().GetBalance()
	return strings.Join([]string{
		fmt.Sprint(o.GetPosition()), fmt.Sprint(r.Offset), o.GetAccount(), o.GetCommandId(), fmt.Sprint(sequence), status, why,
		orZero(o.GetDelta()), orZero(balance),
	}, " ")
}

func orZero(text string) string {
	if text == "" {
		return "0"
	}
	return text
}
