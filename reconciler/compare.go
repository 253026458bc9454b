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

// sliceQuery is one pass over the accounts of a slice: what they add up to, by class, and one row of texts per account that differs.
var sliceQuery = `SELECT toString(class), if(unit_log != '', unit_log, unit_redis) AS unit, count(), countIf(present),
		countIf(sequences > 0 AND class != 'NOT_YET'), countIf(present AND sequences > 0), toString(sum(toInt128(balance_redis))),
		toString(sumIf(if(present, balance_at_redis, balance_log), class != 'NOT_YET')),
		groupArrayIf(@most)([toString(class), account, toString(shard), toString(present), toString(sequence_redis), toString(balance_redis),
			toString(held_redis), toString(floor_redis), unit_redis, toString(sequences), toString(sequence_log), toString(balance_at_redis),
			toString(balance_log), toString(floor_log), unit_log, toString(repaired_at), toString(complete)], class NOT IN ('AGREES', 'NOT_YET'))
	FROM (` + accountsQuery + `) GROUP BY class, unit SETTINGS optimize_aggregation_in_order = 1`

// Total is the control total of one unit: the sum of all balances in Redis, and what the log says they should be, each account at
// the sequence it was seen at. Minor units; may exceed 64 bits.
type Total struct {
	Unit       string
	Redis, Log *big.Int
}

// sliceResult is what a slice added up to. It is kept as JSON, so that a run that was stopped need not compare the slice again.
type sliceResult struct {
	Found, Redis, Log, Compared uint64
	SumsRedis, SumsLog          map[string]string
	Differences                 [][]string
	Histories                   []history // invariants.go
}

// compare finds the accounts that differ, at the same sequence, in ClickHouse, slice by slice.
func (r *reconciliation) compare(ctx context.Context) error {
	bounds, err := r.cutSlices(ctx)
	if err != nil {
		return err
	}
	finished, err := r.finishedSlices(ctx)
	if err != nil {
		return err
	}
	sums := map[string]*Total{}
	var differences, histories []*Break
	var found uint64
	for i, lo := range bounds {
		hi := ""
		if i+1 < len(bounds) {
			hi = bounds[i+1]
		}
		result := finished[i]
		if result == nil {
			if result, err = r.compareSlice(ctx, lo, hi); err != nil {
				return err
			}
			if err := r.writeSlice(ctx, i, result); err != nil {
				return err
			}
		}
		found += result.Found
		if err := r.addSlice(result, sums, &differences); err != nil {
			return err
		}
		for _, h := range result.Histories {
			histories = append(histories, h.breaks()...)
		}
	}
	r.report.Totals, r.report.Slices = sortedTotals(sums), len(bounds)
	r.collect(found, differences, histories)
	return nil
}

// collect turns what was found into the breaks of the report: one cause is one break.
func (r *reconciliation) collect(found uint64, differences, histories []*Break) {
	explained := make([][]*Break, len(r.scans))
	inRedis := map[string]bool{}
	for _, b := range differences {
		inRedis[b.Account] = true
		d := &r.doubts[b.Shard]
		if t := r.trouble[b.Shard]; d.explains(b) || t != nil && t.Class == b.Class {
			explained[b.Shard] = append(explained[b.Shard], b)
			found--
			continue
		}
		b.Action = r.actionFor(b)
		b.Amount, b.Unit = b.atStake()
		r.report.Breaks = append(r.report.Breaks, b)
	}
	for _, b := range histories {
		// A wrong balance that Redis still has is the same fault; its repair mends the chain.
		if b.Class == BalanceChainBroken && (inRedis[b.Account] || r.doubts[b.Shard].explains(b)) {
			continue
		}
		r.report.Breaks = append(r.report.Breaks, b)
		found++
	}
	for shard := range r.doubts {
		d := &r.doubts[shard]
		d.nameAccounts(explained[shard])
		own := append(append([]*Break{}, d.log...), d.projection...)
		if r.trouble[shard] != nil {
			own = append(own, r.trouble[shard])
		}
		r.report.Breaks = append(r.report.Breaks, own...)
		found += uint64(len(own))
	}
	r.report.BreaksFound += found // what was projected again is counted already
}

// compareSlice compares the accounts from lo up to below hi.
func (r *reconciliation) compareSlice(ctx context.Context, lo, hi string) (*sliceResult, error) {
	rows, err := r.clickhouse.Query(ctx, sliceQuery, r.args(lo, hi, clickhouse.Named("most", r.cfg.BreaksMax+1))...)
	if err != nil {
		return nil, fmt.Errorf("compare accounts: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	result := &sliceResult{SumsRedis: map[string]string{}, SumsLog: map[string]string{}}
	for rows.Next() {
		var class, unit, redis, log string
		var n, inRedis, inLog, compared uint64
		var differences [][]string
		if err := rows.Scan(&class, &unit, &n, &inRedis, &inLog, &compared, &redis, &log, &differences); err != nil {
			return nil, fmt.Errorf("compare accounts: %w", err)
		}
		if class != "AGREES" && class != "NOT_YET" {
			result.Found += n
			// The count and the list must agree. A list that was cut short would otherwise read as "no more breaks".
			if want := min(n, uint64(r.cfg.BreaksMax)+1); uint64(len(differences)) != want {
				return nil, fmt.Errorf("compare accounts: %d differ and %d were listed", n, len(differences))
			}
		}
		result.Redis, result.Log, result.Compared = result.Redis+inRedis, result.Log+inLog, result.Compared+compared
		result.Differences = append(result.Differences, differences...)
		if err := addUp(result.SumsRedis, unit, redis); err != nil {
			return nil, err
		}
		if err := addUp(result.SumsLog, unit, log); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("compare accounts: %w", err)
	}
	if result.Histories, err = r.readHistories(ctx, lo, hi); err != nil {
		return nil, err
	}
	return result, nil
}

// addUp adds decimal digits of any size to a sum.
func addUp(sums map[string]string, unit, digits string) error {
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return fmt.Errorf("sum %q of %s is no number", digits, unit)
	}
	if before, ok := new(big.Int).SetString(sums[unit], 10); ok {
		n.Add(n, before)
	}
	if unit != "" {
		sums[unit] = n.String()
	}
	return nil
}

// addSlice adds a slice to the report.
func (r *reconciliation) addSlice(s *sliceResult, sums map[string]*Total, differences *[]*Break) error {
	r.report.AccountsRedis += s.Redis
	r.report.AccountsLog += s.Log
	r.report.AccountsCompared += s.Compared
	for _, unit := range sortedKeys(s.SumsRedis) {
		t := sums[unit]
		if t == nil {
			t = &Total{Unit: unit, Redis: new(big.Int), Log: new(big.Int)}
			sums[unit] = t
		}
		redis, ok := new(big.Int).SetString(s.SumsRedis[unit], 10)
		log, fine := new(big.Int).SetString(s.SumsLog[unit], 10)
		if !ok || !fine {
			return fmt.Errorf("sums of %s: %q and %q", unit, s.SumsRedis[unit], s.SumsLog[unit])
		}
		t.Redis.Add(t.Redis, redis)
		t.Log.Add(t.Log, log)
	}
	for _, words := range s.Differences {
		if len(*differences) > r.cfg.BreaksMax {
			return nil // more are counted, and none of them is repaired
		}
		d, err := parseDifference(words)
		if err != nil {
			return err
		}
		*differences = append(*differences, d.toBreak(r.scans[d.shard]))
	}
	return nil
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

// parseDifference reads a row of texts of sliceQuery.
func parseDifference(w []string) (*difference, error) {
	const words = 17
	if len(w) != words {
		return nil, fmt.Errorf("a difference has %d words, not %d", len(w), words)
	}
	number := func(i int) *big.Int {
		n, ok := new(big.Int).SetString(w[i], 10)
		if !ok {
			return new(big.Int) // ClickHouse wrote it
		}
		return n
	}
	d := &difference{
		class: w[0], account: w[1], shard: uint16(number(2).Uint64()), present: w[3] == "1" || w[3] == "true", sequenceRedis: number(4).Uint64(),
		balanceRedis: number(5).Int64(), heldRedis: number(6).Int64(), floorRedis: number(7).Int64(), unitRedis: w[8],
		sequences: number(9).Uint64(), sequenceLog: number(10).Uint64(), balanceAtRedis: *number(11), balanceLog: *number(12),
		floorLog: number(13).Int64(), unitLog: w[14], repairedAt: number(15).Uint64(), complete: w[16] == "1" || w[16] == "true",
	}
	return d, nil
}

// atStake is what Redis has more than the log, and in which unit.
func (b *Break) atStake() (*big.Int, string) {
	redis, log := new(big.Int), new(big.Int)
	if b.Redis != nil {
		redis = b.Redis.Balance
	}
	if b.Log != nil {
		log = b.Log.Balance
	}
	return new(big.Int).Sub(redis, log), b.unit()
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
	default: // the others are not about one account in Redis
	}
	return ""
}
