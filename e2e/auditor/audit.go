package auditor

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	goredis "github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/hotledger/hotledger/chassis/kafka"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
	"github.com/hotledger/hotledger/schemas/topics"
)

// Ledger is what is audited: quiet, everything decided and projected.
type Ledger struct {
	Kafka      kafka.Config
	Redis      goredis.UniversalClient
	ClickHouse driver.Conn
	// Database of the events, and FinanceDatabase of the views, in ClickHouse.
	Database, FinanceDatabase string
}

// Verdict is what an audit found. Problems is empty when the books agree.
type Verdict struct {
	Commands, Events, Accounts int
	Problems                   []string
}

// problemsMax keeps a broken ledger readable.
const problemsMax = 20

func (v *Verdict) complain(format string, args ...any) {
	if len(v.Problems) < problemsMax {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

// Err is nil when the books agree.
func (v *Verdict) Err() error {
	var problems []error
	for _, p := range v.Problems {
		problems = append(problems, errors.New(p))
	}
	return errors.Join(problems...)
}

// Audit checks that money is conserved; that no floor is broken at any prefix of the log; that every command id has exactly one outcome, the
// expected one, that Redis remembers it and nobody was told another; that positions and sequences have no gap; that every account is the same in
// the books, in Redis and in ClickHouse, at the same sequence, and every event one row; and that the outbox is empty.
func (l Ledger) Audit(ctx context.Context) (*Verdict, error) {
	v := &Verdict{}
	heard, err := l.replies(ctx, v)
	if err != nil {
		return nil, err
	}
	commands, err := l.Records(ctx, topics.Commands)
	if err != nil {
		return nil, err
	}
	events, err := l.Records(ctx, topics.Events)
	if err != nil {
		return nil, err
	}
	for shard := range l.Kafka.Shards {
		books := NewBooks()
		for _, r := range commands[int32(shard)] {
			v.Commands++
			c := &ledgerv1.Command{}
			if err := proto.Unmarshal(r.Value, c); err != nil || len(r.Value) == 0 {
				c = nil
			}
			if c != nil && named(c.GetAccount()) && topics.ShardOf(c.GetAccount(), l.Kafka.Shards) != shard {
				continue // sent on to its own shard, where it is read again
			}
			books.Take(c)
		}
		v.Events += len(events[int32(shard)])
		v.Accounts += len(books.Accounts)
		v.checkLog(shard, books, events[int32(shard)])
		v.checkReplies(events[int32(shard)], heard)
		if err := l.checkRemembered(ctx, v, shard, books); err != nil {
			return nil, err
		}
		if err := l.checkRows(ctx, v, shard, events[int32(shard)]); err != nil {
			return nil, err
		}
		if err := l.checkRedis(ctx, v, shard, books); err != nil {
			return nil, err
		}
		if err := l.checkClickHouse(ctx, v, shard, books); err != nil {
			return nil, err
		}
	}
	for id := range heard {
		v.complain("command %s was answered, and has no event", id)
	}
	return v, l.checkConserved(ctx, v)
}

// checkLog holds the events of one shard against the books: one outcome per id, positions and sequences without gaps, floors.
func (v *Verdict) checkLog(shard int, books *Books, records []*kgo.Record) {
	seen, sequences := map[string]bool{}, map[string]uint64{}
	for i, r := range records {
		e := &ledgerv1.Event{}
		if err := proto.Unmarshal(r.Value, e); err != nil {
			v.complain("shard %d: event at offset %d cannot be read: %v", shard, r.Offset, err)
			continue
		}
		o := e.GetOutcome()
		if o.GetPosition() != uint64(i+1) {
			v.complain("shard %d: event %d has position %d", shard, i+1, o.GetPosition())
		}
		if seen[o.GetCommandId()] {
			v.complain("command %s has two outcomes", o.GetCommandId())
		}
		seen[o.GetCommandId()] = true
		want, ok := books.Outcomes[o.GetCommandId()]
		got := ""
		if o.GetStatus() == ledgerv1.Status_STATUS_REJECTED {
			got = reason.Of(o.GetReason()).Code
		}
		if !ok || got != want.Reason {
			v.complain("command %s became %q, expected %q (expected at all: %t)", o.GetCommandId(), got, want.Reason, ok)
		}
		if got != "" {
			continue
		}
		if o.GetAfter().GetBalance() != want.Balance {
			v.complain("command %s left %s, expected %s", o.GetCommandId(), o.GetAfter().GetBalance(), want.Balance)
		}
		sequences[o.GetAccount()]++
		if o.GetAfter().GetSequence() != sequences[o.GetAccount()] {
			v.complain("account %s: sequence %d follows %d", o.GetAccount(), o.GetAfter().GetSequence(), sequences[o.GetAccount()]-1)
		}
		balance, _ := new(big.Int).SetString(o.GetAfter().GetBalance(), 10)
		if a := books.Accounts[o.GetAccount()]; a != nil && balance != nil && balance.Cmp(a.Floor) < 0 {
			v.complain("account %s: balance %s is below its floor %s", o.GetAccount(), balance, a.Floor)
		}
	}
	for id := range books.Outcomes {
		if !seen[id] {
			v.complain("command %s has no outcome", id)
		}
	}
}

func (l Ledger) checkRedis(ctx context.Context, v *Verdict, shard int, books *Books) error {
	records, err := l.Redis.HGetAll(ctx, fmt.Sprintf("ledger:{%d}:accounts", shard)).Result()
	if err != nil {
		return fmt.Errorf("read accounts of shard %d: %w", shard, err)
	}
	delete(records, "")
	if len(records) != len(books.Accounts) {
		v.complain("shard %d: redis has %d accounts, expected %d", shard, len(records), len(books.Accounts))
	}
	for id, a := range books.Accounts {
		var balance, held, sequence string
		if _, err := fmt.Sscan(records[id], &balance, &held, &sequence); err != nil {
			v.complain("account %s: redis has %q", id, records[id])
			continue
		}
		if balance != a.Balance.String() || sequence != strconv.FormatUint(a.Sequence, 10) {
			v.complain("account %s: redis has %s at %s, expected %s at %d", id, balance, sequence, a.Balance, a.Sequence)
		}
	}
	length, err := l.Redis.XLen(ctx, fmt.Sprintf("ledger:{%d}:outbox", shard)).Result()
	if err != nil {
		return fmt.Errorf("read outbox of shard %d: %w", shard, err)
	}
	if length != 0 {
		v.complain("shard %d: %d entries are left in the outbox", shard, length)
	}
	return nil
}

func (l Ledger) checkClickHouse(ctx context.Context, v *Verdict, shard int, books *Books) error {
	rows, err := l.ClickHouse.Query(ctx, fmt.Sprintf(`SELECT account, sum(toInt128(delta)), max(sequence), count(), uniqExact(sequence)
		FROM %s.events WHERE shard = ? AND status = 'applied' GROUP BY account`, l.Database), shard)
	if err != nil {
		return fmt.Errorf("read balances of shard %d: %w", shard, err)
	}
	defer func() { _ = rows.Close() }()
	found := 0
	for rows.Next() {
		var id string
		var sum big.Int
		var sequence, count, distinct uint64
		if err := rows.Scan(&id, &sum, &sequence, &count, &distinct); err != nil {
			return fmt.Errorf("read balances of shard %d: %w", shard, err)
		}
		found++
		a := books.Accounts[id]
		if a == nil || sum.Cmp(a.Balance) != 0 || sequence != a.Sequence || count != sequence || distinct != sequence {
			v.complain("account %s: clickhouse has %s at %d in %d rows, expected %+v", id, &sum, sequence, count, a)
		}
	}
	if found != len(books.Accounts) {
		v.complain("shard %d: clickhouse has %d accounts, expected %d", shard, found, len(books.Accounts))
	}
	return rows.Err()
}

// checkConserved sums what finance sees: per unit, all postings together are zero.
func (l Ledger) checkConserved(ctx context.Context, v *Verdict) error {
	rows, err := l.ClickHouse.Query(ctx, fmt.Sprintf("SELECT currency, toString(sum(amount_minor)) FROM %s.postings GROUP BY currency", l.FinanceDatabase))
	if err != nil {
		return fmt.Errorf("sum postings: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var currency, sum string
		if err := rows.Scan(&currency, &sum); err != nil {
			return fmt.Errorf("sum postings: %w", err)
		}
		if sum != "0" {
			v.complain("postings in %s sum to %s", currency, sum)
		}
	}
	return rows.Err()
}

// Records returns all committed records of a topic, by partition, in their order.
func (l Ledger) Records(ctx context.Context, topic string) (map[int32][]*kgo.Record, error) {
	client, err := kafka.NewClient(l.Kafka, zap.NewNop(), kgo.ConsumeTopics(topic), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list ends of %s: %w", topic, err)
	}
	records, left := map[int32][]*kgo.Record{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				records[r.Partition] = append(records[r.Partition], r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return records, nil
}
