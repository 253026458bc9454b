package reconciler

import (
	"context"
	_ "embed"
	"fmt"
	"math/big"

	"github.com/ClickHouse/clickhouse-go/v2"
)

//go:embed accounts.sql
var accountsQuery string

// Both queries read the same rows: the reading of this run, and events at or below fixed positions of an append-only table.
var (
	totalsQuery = `SELECT class, if(unit_log != '', unit_log, unit_redis) AS unit, count(), countIf(present), countIf(sequences > 0 AND class != 'NOT_YET'),
		countIf(present AND sequences > 0), sum(toInt128(balance_redis)),
		sumIf(if(present, balance_at_redis, balance_log), class != 'NOT_YET')
	FROM (` + accountsQuery + `) GROUP BY class, unit`

	differencesQuery = `SELECT toString(class), account, shard, present, sequence_redis, balance_redis, held_redis, floor_redis, unit_redis,
		sequences, sequence_log, balance_at_redis, balance_log, floor_log, unit_log, repaired_at, complete
	FROM (` + accountsQuery + `) WHERE class NOT IN ('AGREES', 'NOT_YET') ORDER BY shard, account LIMIT @most`
)

// Total is the control total of one unit: the sum of all balances in Redis, and what the log says they should be, each account at
// the sequence it was seen at. Minor units; may exceed 64 bits.
type Total struct {
	Unit       string
	Redis, Log *big.Int
}

// args are the named values of accounts.sql.
func (r *reconciliation) args(more ...any) []any {
	since, starts, ends := make([]int64, len(r.scans)), make([]uint64, len(r.scans)), make([]uint64, len(r.scans))
	for shard, s := range r.scans {
		since[shard], starts[shard], ends[shard] = s.since.UnixMilli(), s.start.Position, s.end.Position
	}
	return append([]any{
		clickhouse.Named("run", r.id), clickhouse.Named("since", since),
		clickhouse.Named("starts", starts), clickhouse.Named("ends", ends),
	}, more...)
}

// compare finds the accounts that differ, at the same sequence, in ClickHouse.
func (r *reconciliation) compare(ctx context.Context) error {
	found, err := r.totals(ctx)
	if err != nil {
		return err
	}
	differences, err := r.differences(ctx)
	if err != nil {
		return err
	}
	// The two passes must agree. An answer that was cut short would otherwise read as "no more breaks".
	if want := min(found, uint64(r.cfg.BreaksMax)+1); uint64(len(differences)) != want {
		return fmt.Errorf("compare accounts: %d differ and %d were listed", found, len(differences))
	}
	explained := make([][]*Break, len(r.scans))
	for _, b := range differences {
		d := &r.doubts[b.Shard]
		if d.explains(b) {
			explained[b.Shard] = append(explained[b.Shard], b)
			found--
			continue
		}
		b.Action = r.actionFor(b)
		r.report.Breaks = append(r.report.Breaks, b)
	}
	for shard := range r.doubts {
		d := &r.doubts[shard]
		d.nameAccounts(explained[shard])
		r.report.Breaks = append(r.report.Breaks, d.gaps...)
		r.report.Breaks = append(r.report.Breaks, d.duplicates...)
		found += uint64(len(d.gaps) + len(d.duplicates))
		if r.behind[shard] != nil {
			r.report.Breaks = append(r.report.Breaks, r.behind[shard])
			found++
		}
	}
	for _, b := range r.report.Breaks {
		b.generation = r.scans[b.Shard].generation
		b.ID = b.fingerprint()
	}
	r.report.BreaksFound = found
	if len(r.report.Breaks) > r.cfg.BreaksMax {
		r.report.Breaks = r.report.Breaks[:r.cfg.BreaksMax]
	}
	return nil
}

// totals sums up all accounts, and returns how many differ.
func (r *reconciliation) totals(ctx context.Context) (uint64, error) {
	rows, err := r.clickhouse.Query(ctx, totalsQuery, r.args()...)
	if err != nil {
		return 0, fmt.Errorf("sum up accounts: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	var found uint64
	sums := map[string]*Total{}
	for rows.Next() {
		var class, unit string
		var n, inRedis, inLog, compared uint64
		redis, log := new(big.Int), new(big.Int)
		if err := rows.Scan(&class, &unit, &n, &inRedis, &inLog, &compared, redis, log); err != nil {
			return 0, fmt.Errorf("sum up accounts: %w", err)
		}
		if class != "AGREES" && class != "NOT_YET" {
			found += n
		}
		r.report.AccountsRedis += inRedis
		r.report.AccountsLog += inLog
		r.report.AccountsCompared += compared
		if unit == "" {
			continue
		}
		if sums[unit] == nil {
			sums[unit] = &Total{Unit: unit, Redis: new(big.Int), Log: new(big.Int)}
		}
		sums[unit].Redis.Add(sums[unit].Redis, redis)
		sums[unit].Log.Add(sums[unit].Log, log)
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("sum up accounts: %w", err)
	}
	r.report.Totals = sortedTotals(sums)
	return found, nil
}

// differences lists the accounts that differ, BreaksMax and one more at most.
func (r *reconciliation) differences(ctx context.Context) ([]*Break, error) {
	rows, err := r.clickhouse.Query(ctx, differencesQuery, r.args(clickhouse.Named("most", r.cfg.BreaksMax+1))...)
	if err != nil {
		return nil, fmt.Errorf("compare accounts: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	var all []*Break
	for rows.Next() {
		var d difference
		if err := rows.Scan(&d.class, &d.account, &d.shard, &d.present, &d.sequenceRedis, &d.balanceRedis, &d.heldRedis, &d.floorRedis, &d.unitRedis,
			&d.sequences, &d.sequenceLog, &d.balanceAtRedis, &d.balanceLog, &d.floorLog, &d.unitLog, &d.repairedAt, &d.complete); err != nil {
			return nil, fmt.Errorf("compare accounts: %w", err)
		}
		all = append(all, d.toBreak(r.scans[d.shard]))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("compare accounts: %w", err)
	}
	return all, nil
}

// difference is one row of differencesQuery.
type difference struct {
	class, account                      string
	shard                               uint16
	present                             bool
	sequenceRedis                       uint64
	balanceRedis, heldRedis, floorRedis int64
	unitRedis                           string
	sequences, sequenceLog              uint64
	balanceAtRedis, balanceLog          big.Int
	floorLog                            int64
	unitLog                             string
	repairedAt                          uint64
	complete                            bool
}

func (d *difference) toBreak(s *scan) *Break {
	b := &Break{Class: Class(d.class), Account: d.account, Shard: int(d.shard), complete: d.complete, anchor: max(d.repairedAt, 1)}
	if d.present && d.unitRedis != "" {
		b.Redis = standing(d.sequenceRedis, big.NewInt(d.balanceRedis), big.NewInt(d.heldRedis), big.NewInt(d.floorRedis), d.unitRedis)
	}
	if d.sequences > 0 {
		// No operation holds money yet, so the log's hold is 0.
		b.Log = standing(d.sequenceLog, new(big.Int).Set(&d.balanceLog), new(big.Int), big.NewInt(d.floorLog), d.unitLog)
		if b.relative() {
			b.Log.Sequence, b.Log.Balance = d.sequenceRedis, new(big.Int).Set(&d.balanceAtRedis)
		}
	}
	b.Detail = d.detail(s)
	return b
}

// detail says the break in a person's words; numbers that the report shows beside it are left out.
func (d *difference) detail(s *scan) string {
	switch Class(d.class) {
	case BalanceDiffers:
		if d.balanceAtRedis.Cmp(big.NewInt(d.balanceRedis)) == 0 {
			return fmt.Sprintf("Redis holds back %d minor units that nobody asked for", d.heldRedis)
		}
		return "Redis has another balance than the events up to this sequence add up to"
	case TermsDiffer:
		return fmt.Sprintf("Redis has floor %d and unit %s, the account was opened with floor %d and unit %s", d.floorRedis, d.unitRedis, d.floorLog, d.unitLog)
	case AccountMissingInRedis:
		return "the log opened the account, Redis does not have it"
	case RedisBehind:
		return fmt.Sprintf("Redis lacks changes that the log has: sequence %d of %d", d.sequenceRedis, d.sequenceLog)
	case RedisAhead:
		return fmt.Sprintf("Redis has changes that the log lacks: sequence %d above %d", d.sequenceRedis, d.sequenceLog)
	case AccountUnknownToLog:
		return fmt.Sprintf("Redis has the account at sequence %d, the log has no event of it", d.sequenceRedis)
	case AccountUnreadable:
		return s.unreadable[d.account]
	case LogGap:
		return fmt.Sprintf("the log has %d events of sequences up to %d", d.sequences, d.sequenceLog)
	case LogDuplicate:
		return fmt.Sprintf("the log has a sequence of the account at two positions, up to sequence %d", d.sequenceLog)
	}
	return ""
}
