package reconciler

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// comeLast lets the run begin after every other that is on record, though the clock may have been set back since: the last run is the one whose
// breaks people see.
func (r *reconciliation) comeLast(ctx context.Context) error {
	var last time.Time
	if err := r.clickhouse.QueryRow(ctx, "SELECT max(started_at) FROM reconciliation_runs").Scan(&last); err != nil {
		return fmt.Errorf("look up the last run: %w", err)
	}
	r.report.Started = laterThan(last.Add(time.Millisecond))
	return nil
}

// writeRun writes the run as it stands. It is written first as could_not_tell, so that a run that dies has said so itself; the newest
// version counts.
func (r *reconciliation) writeRun(ctx context.Context) error {
	positions, chains := map[uint16]uint64{}, map[uint16]string{}
	for _, s := range r.report.Shards {
		positions[uint16(s.Shard)], chains[uint16(s.Shard)] = s.Position, s.Chain
	}
	redis, log := map[string]string{}, map[string]string{}
	for _, t := range r.report.Totals {
		redis[t.Unit], log[t.Unit] = t.Redis.String(), t.Log.String()
	}
	finished := r.report.Finished
	if finished.IsZero() {
		finished = time.Unix(0, 0)
	}
	report := ""
	if !r.report.Finished.IsZero() {
		var text strings.Builder
		if err := r.report.WriteJSON(&text); err != nil {
			return err
		}
		report = text.String()
	}
	var day *time.Time
	if d, err := time.Parse(time.DateOnly, r.cfg.BusinessDate); err == nil {
		day = &d
	}
	r.version++
	return r.insert(ctx, `INSERT INTO reconciliation_runs (run_id, started_at, finished_at, verdict, positions, accounts_compared, accounts_redis,
		accounts_log, sums_redis, sums_log, breaks, repairs, error, version, business_date, mode, dry_run, policy_version, policy_hash, events, events_read,
		chains, held, report)`, func(batch driver.Batch) error {
		return batch.Append(r.id, r.report.Started, finished, string(r.report.Verdict), positions, r.report.AccountsCompared, r.report.AccountsRedis,
			r.report.AccountsLog, redis, log, r.report.BreaksFound, uint64(r.report.Repairs()), r.report.Why, r.version, day, r.mode(), r.cfg.DryRun,
			r.policy.Version, r.policy.hash, r.report.Events, r.report.EventsRead, chains, r.report.Held, report)
	})
}

func (r *reconciliation) writeListed(ctx context.Context) error {
	return r.writeBreaks(ctx, r.report.Breaks)
}

// writeBreaks writes breaks. A repeat changes nothing.
func (r *reconciliation) writeBreaks(ctx context.Context, breaks []*Break) error {
	if len(breaks) == 0 {
		return nil
	}
	return r.insert(ctx, `INSERT INTO breaks (run_id, break_id, class, shard, account, redis_sequence, redis_balance, redis_held,
		log_sequence, log_balance, log_held, unit, detail, found_at, severity, action, amount, first_seen, settled)`, func(batch driver.Batch) error {
		for _, b := range breaks {
			redisSequence, redisBalance, redisHeld := nullable(b.Redis)
			logSequence, logBalance, logHeld := nullable(b.Log)
			if err := batch.Append(r.id, b.ID, string(b.Class), uint16(b.Shard), b.Account, redisSequence, redisBalance, redisHeld,
				logSequence, logBalance, logHeld, b.unit(), b.Detail, r.now(), string(b.Severity), string(b.Action), digitsOf(b.Amount), b.FirstSeen, b.Settled); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeCompensations writes how far each compensation is; the later row counts.
func (r *reconciliation) writeCompensations(ctx context.Context, breaks []*Break) error {
	return r.insert(ctx, `INSERT INTO compensations (run_id, break_id, command_id, operation, state, reason, shard, position, at)`, func(batch driver.Batch) error {
		for _, b := range breaks {
			c := b.Compensation
			if c == nil {
				continue
			}
			state, why := c.State, c.Reason
			switch state {
			case WouldIssue:
				state = Issued // about to be
			case NotSent:
				state, why = Unknown, "not sent: "+why
			case Issued, Applied, Rejected, Unknown:
			}
			if err := batch.Append(r.id, b.ID, c.CommandID, c.Operation, string(state), why, uint16(b.Shard), c.Position, r.now()); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *reconciliation) insert(ctx context.Context, into string, fill func(driver.Batch) error) error {
	batch, err := r.clickhouse.PrepareBatch(ctx, into)
	if err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	defer func() { _ = batch.Close() }() // after Send there is nothing left to close
	if err := fill(batch); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return nil
}

// now only grows within a run, whatever the clock does: the newest row of a thing counts.
func (r *reconciliation) now() time.Time {
	r.clock = laterThan(r.clock.Add(time.Millisecond))
	return r.clock
}

func nullable(s *Standing) (*uint64, *int64, *int64) {
	if s == nil {
		return nil, nil, nil
	}
	return &s.Sequence, narrow(s.Balance), narrow(s.Held)
}

// narrow is nil beyond 64 bits: the detail says so then.
func narrow(v *big.Int) *int64 {
	if !v.IsInt64() {
		return nil
	}
	n := v.Int64()
	return &n
}

func digitsOf(v *big.Int) string {
	if v == nil {
		return ""
	}
	return v.String()
}

func (b *Break) unit() string {
	switch {
	case b.Log != nil:
		return b.Log.Unit
	case b.Redis != nil:
		return b.Redis.Unit
	}
	return b.Unit
}

// dropOldSnapshots drops whole days of readings. Runs, breaks and compensations stay for ever.
func (r *reconciliation) dropOldSnapshots(ctx context.Context) error {
	for _, table := range []string{"account_snapshots", "hold_snapshots"} {
		var partitions []string
		err := r.clickhouse.QueryRow(ctx, fmt.Sprintf("SELECT groupUniqArray(_partition_id) FROM %s WHERE toDate(read_at) < toDate(now('UTC')) - %d",
			table, r.cfg.SnapshotDays)).Scan(&partitions)
		if err != nil {
			return fmt.Errorf("drop old snapshots: %w", err)
		}
		for _, id := range partitions {
			if err := r.clickhouse.Exec(ctx, "ALTER TABLE "+table+" DROP PARTITION ID '"+id+"'"); err != nil {
				return fmt.Errorf("drop old snapshots: %w", err)
			}
		}
	}
	return nil
}
