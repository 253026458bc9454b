package reconciler

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/hotledger/hotledger/schemas/topics"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// step is one event of an account with the balance folded up to it.
type step struct {
	position, sequence               uint64
	at                               time.Time
	operation, status, reason, other string
	delta, said                      int64
	folded                           *big.Int
	unit                             string
}

// Explain writes an account's balance as the positions of the log that it is made of, folded step by step, with what Redis and
// ClickHouse say beside it. most is how many of the last events are shown; earlier ones are added up in one line.
func (r *Reconciler) Explain(ctx context.Context, w io.Writer, account string, most int) error {
	shard := topics.ShardOf(account, r.cfg.Kafka.Shards)
	actual, there, redisErr := r.store.Account(ctx, shard, account) // first: what comes later is in ClickHouse, and not looked at
	rows, err := r.clickhouse.Query(ctx, `SELECT position, sequence, log_time, toString(operation), toString(status), toString(reason), counter_account, delta, balance_after, toString(unit)
		FROM events_once WHERE account = @account ORDER BY position`, clickhouse.Named("account", account))
	if err != nil {
		return fmt.Errorf("explain account %q: %w", account, err)
	}
	folded, atRedis, earlier := new(big.Int), new(big.Int), 0
	var steps []step
	newest := uint64(0)
	err = scanAll(rows, func(scan func(...any) error) error {
		var s step
		if err := scan(&s.position, &s.sequence, &s.at, &s.operation, &s.status, &s.reason, &s.other, &s.delta, &s.said, &s.unit); err != nil {
			return err
		}
		if s.status == "applied" {
			newest = s.sequence
			folded.Add(folded, big.NewInt(s.delta))
			if s.sequence <= actual.Sequence {
				atRedis.Set(folded)
			}
		}
		s.folded = new(big.Int).Set(folded)
		if steps = append(steps, s); len(steps) > most {
			steps, earlier = steps[1:], earlier+1
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("explain account %q: %w", account, err)
	}
	out := &errWriter{w: w}
	out.say("%s, shard %d\n\n", printable(account), shard)
	if earlier > 0 {
		out.say("(%s before these)\n", plural(uint64(earlier), "event"))
	}
	if len(steps) > 0 {
		out.say("%s\n\n", stepsTable(steps))
	}
	switch {
	case redisErr != nil:
		out.say("Redis:      cannot be read: %v\n", redisErr)
	case !there:
		out.say("Redis:      has no such account\n")
	default:
		out.say("Redis:      %s at sequence %d, held %s, floor %s, %s\n", major(big.NewInt(actual.Balance), actual.Unit), actual.Sequence,
			major(big.NewInt(actual.Held), actual.Unit), major(big.NewInt(actual.Floor), actual.Unit), actual.Status)
	}
	if len(steps) == 0 {
		out.say("ClickHouse: has no event of it\n")
		return out.err
	}
	last := steps[len(steps)-1]
	var proven, sequence string
	if err := r.clickhouse.QueryRow(ctx, "SELECT toString(any(balance_minor)), toString(any(sequence)) FROM "+r.cfg.ClickHouse.FinanceDatabase+".balances WHERE account = @account",
		clickhouse.Named("account", account)).Scan(&proven, &sequence); err != nil {
		return fmt.Errorf("explain account %q: %w", account, err)
	}
	minor, _ := new(big.Int).SetString(proven, 10)
	if minor == nil {
		minor = new(big.Int)
	}
	out.say("ClickHouse: %s at sequence %s\nLog, folded: %s at position %d\n", major(minor, last.unit), sequence, major(last.folded, last.unit), last.position)
	if there && redisErr == nil {
		if newest < actual.Sequence {
			out.say("\nClickHouse has it up to sequence %d, Redis stands at %d: ask again when the projector has caught up.\n", newest, actual.Sequence)
		} else if d := new(big.Int).Sub(big.NewInt(actual.Balance), atRedis); d.Sign() != 0 {
			out.say("\nRedis has %s more than the log adds up to at sequence %d.\n", major(d, last.unit), actual.Sequence)
		} else {
			out.say("\nRedis and the log agree at sequence %d.\n", actual.Sequence)
		}
	}
	return out.err
}

func stepsTable(steps []step) string {
	t := plainTable()
	t.AppendHeader(table.Row{"position", "seq", "when", "operation", "other side", "change", "balance by the log", "balance as said"})
	for _, s := range steps {
		change, said, operation := major(big.NewInt(s.delta), s.unit), major(big.NewInt(s.said), s.unit), s.operation
		if s.status != "applied" {
			change, operation = "", s.operation+" "+s.reason
		}
		if s.status == "applied" && s.folded.Cmp(big.NewInt(s.said)) != 0 {
			said += "  <- differs"
		}
		t.AppendRow(table.Row{s.position, s.sequence, s.at.UTC().Format("2006-01-02 15:04:05.000"), operation, s.other, change, major(s.folded, s.unit), said})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 1, Align: text.AlignRight}, {Number: 2, Align: text.AlignRight}, {Number: 6, Align: text.AlignRight}, {Number: 7, Align: text.AlignRight}, {Number: 8, Align: text.AlignRight}})
	return t.Render()
}
