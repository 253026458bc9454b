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
var sliceQuery = `SELECT toString(class), if(terms_log.1 != '', terms_log.1, terms_redis.1) AS unit, count(), countIf(present),
		countIf(sequences > 0 AND class != 'NOT_YET'), countIf(present AND sequences > 0), toString(sum(toInt128(balance_redis))),
		toString(sumIf(if(present, balance_at_redis, balance_log), class != 'NOT_YET')),
		groupArrayIf(@most)([toString(class), account, toString(shard), toString(present), toString(complete), toString(sequences), toString(repaired_at),
			toString(sequence_redis), toString(balance_redis), toString(held_redis), terms_redis.1, terms_redis.2, terms_redis.3,
			toString(sequence_log), toString(balance_log), toString(held_log), terms_log.1, terms_log.2, terms_log.3,
			toString(balance_at_redis), toString(held_at_redis), terms_at_redis.1, terms_at_redis.2, terms_at_redis.3], class NOT IN ('AGREES', 'NOT_YET'))
	FROM (` + accountsQuery + `) GROUP BY class, unit`

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
	Histories                   []history    // invariants.go
	Holds                       []heldAmount // holds.go
}

// compare finds the accounts that differ, at the same sequence, in ClickHouse, slice by slice.
func (r *reconciliation) compare(ctx context.Context) error {
	if err := r.cutSlices(ctx); err != nil {
		return err
	}
	finished, err := r.finishedSlices(ctx)
	if err != nil {
		return err
	}
	sums := map[string]*Total{}
	var differences, histories []*Break
	var found uint64
	for i := range r.bounds {
		result := finished[i]
		if result == nil {
			if result, err = r.next(ctx, sliceOf(r.bounds, i)); err != nil {
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
		for _, h := range result.Holds {
			histories = append(histories, h.breaks()...)
		}
	}
	r.report.Totals, r.report.Slices = sortedTotals(sums), len(r.bounds)
	r.narrow(differences, histories)
	r.collect(found, differences, histories)
	return r.place(ctx)
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
		if b.Class == HoldDiffers && (r.doubts[b.Shard].inDoubt() || r.trouble[b.Shard] != nil) {
			continue // of a shard that stands elsewhere than its log, more than its holds is made again
		}
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

// compareSlice compares the accounts of a slice.
func (r *reconciliation) compareSlice(ctx context.Context, s slice) (*sliceResult, error) {
	rows, err := r.clickhouse.Query(ctx, sliceQuery, r.args(s, clickhouse.Named("most", r.cfg.BreaksMax+1))...)
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
	if result.Histories, err = r.readHistories(ctx, s); err != nil {
		return nil, err
	}
	if result.Holds, err = r.readHolds(ctx, s); err != nil {
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

// difference is one account that differs: what Redis says, what the log says last, and what the log says at Redis's sequence.
type difference struct {
	class                string
	account              string
	shard                int
	present, complete    bool
	sequences, repaired  uint64
	redis, log, logThere Standing
}

// parseDifference reads a row of texts of sliceQuery.
func parseDifference(w []string) (*difference, error) {
	const words = 24
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
	yes := func(i int) bool { return w[i] == "1" || w[i] == "true" }
	standing := func(sequence, i int) Standing {
		return Standing{Sequence: number(sequence).Uint64(), Balance: number(i), Held: number(i + 1), Terms: Terms{Unit: w[i+2], Limits: w[i+3], Status: w[i+4]}}
	}
	const redis, log, logThere = 7, 13, 19
	return &difference{
		class: w[0], account: w[1], shard: int(number(2).Int64()), present: yes(3), complete: yes(4), sequences: number(5).Uint64(), repaired: number(6).Uint64(),
		redis: standing(redis, redis+1), log: standing(log, log+1), logThere: standing(redis, logThere),
	}, nil
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
	b := &Break{Class: Class(d.class), Account: d.account, Shard: d.shard, complete: d.complete, anchor: max(d.repaired, 1)}
	if d.present && d.redis.Unit != "" {
		b.Redis = &d.redis
	}
	if d.sequences > 0 {
		b.Log = &d.log
		if b.relative() {
			b.Log = &d.logThere
		}
	}
	b.Detail = d.detail(s)
	b.after, b.before = d.between()
	return b
}

// detail says the break in a person's words; numbers that the report shows beside it are left out.
func (d *difference) detail(s *scan) string {
	switch Class(d.class) {
	case BalanceDiffers:
		if d.logThere.Balance.Cmp(d.redis.Balance) == 0 {
			return fmt.Sprintf("Redis holds back %s, by the log it is %s", major(d.redis.Held, d.redis.Unit), major(d.logThere.Held, d.redis.Unit))
		}
		return "Redis has another balance than the events up to this sequence add up to"
	case TermsDiffer:
		return fmt.Sprintf("Redis has the terms %q, by the log they are %q", d.redis.Terms, d.logThere.Terms)
	case AccountMissingInRedis:
		return "the log opened the account, Redis does not have it"
	case RedisBehind:
		return fmt.Sprintf("Redis lacks changes that the log has: sequence %d of %d", d.redis.Sequence, d.log.Sequence)
	case RedisAhead:
		return fmt.Sprintf("Redis has changes that the log lacks: sequence %d above %d", d.redis.Sequence, d.log.Sequence)
	case AccountUnknownToLog:
		return fmt.Sprintf("Redis has the account at sequence %d, the log has no event of it", d.redis.Sequence)
	case AccountUnreadable:
		return s.unreadable[d.account]
	case LogGap:
		return fmt.Sprintf("the log has %d events of sequences up to %d", d.sequences, d.log.Sequence)
	case LogDuplicate:
		return fmt.Sprintf("the log has a sequence of the account at two positions, up to sequence %d", d.log.Sequence)
	default: // the others are not about one account in Redis
	}
	return ""
}
