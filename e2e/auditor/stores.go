package auditor

import (
	"context"
	"fmt"
	"math/big"
)

// checkRedis holds the accounts and the outbox of a shard in Redis against the books.
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
		if records[id] != a.record() {
			v.complain("account %s: redis has %q, expected %q", id, records[id], a.record())
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

// checkHolds holds the open holds of a shard in Redis against the books, and both against what the accounts hold back.
func (l Ledger) checkHolds(ctx context.Context, v *Verdict, shard int, books *Books) error {
	records, err := l.Redis.HGetAll(ctx, fmt.Sprintf("ledger:{%d}:holds", shard)).Result()
	if err != nil {
		return fmt.Errorf("read holds of shard %d: %w", shard, err)
	}
	delete(records, "")
	held := map[string]*big.Int{}
	for id, h := range books.Holds {
		if records[id] != h.record() {
			v.complain("hold %s: redis has %q, expected %q", id, records[id], h.record())
		}
		if held[h.Account] == nil {
			held[h.Account] = new(big.Int)
		}
		held[h.Account].Add(held[h.Account], h.Left)
		delete(records, id)
	}
	for id, record := range records {
		v.complain("hold %s: redis has %q, expected none", id, record)
	}
	for id, a := range books.Accounts {
		if sum := held[id]; a.Held.Sign() != 0 && (sum == nil || sum.Cmp(a.Held) != 0) {
			v.complain("account %s: %s are held, its open holds add up to %v", id, a.Held, sum)
		}
	}
	return nil
}

// checkClickHouse holds the sums of a shard's rows against the books.
func (l Ledger) checkClickHouse(ctx context.Context, v *Verdict, shard int, books *Books) error {
	rows, err := l.ClickHouse.Query(ctx, fmt.Sprintf(`SELECT account, sum(toInt128(delta)), max(sequence), count(), uniqExact(sequence), argMax(toString(held_after), sequence)
		FROM %s.events WHERE shard = ? AND status = 'applied' GROUP BY account`, l.Database), shard)
	if err != nil {
		return fmt.Errorf("read balances of shard %d: %w", shard, err)
	}
	defer func() { _ = rows.Close() }()
	found := 0
	for rows.Next() {
		var id, held string
		var sum big.Int
		var sequence, count, distinct uint64
		if err := rows.Scan(&id, &sum, &sequence, &count, &distinct, &held); err != nil {
			return fmt.Errorf("read balances of shard %d: %w", shard, err)
		}
		found++
		a := books.Accounts[id]
		if a == nil || sum.Cmp(a.Balance) != 0 || sequence != a.Sequence || count != sequence || distinct != sequence || held != a.Held.String() {
			v.complain("account %s: clickhouse has %s, %s held, at %d in %d rows, expected %s", id, &sum, held, sequence, count, a.record())
		}
	}
	if found != len(books.Accounts) {
		v.complain("shard %d: clickhouse has %d accounts, expected %d", shard, found, len(books.Accounts))
	}
	return rows.Err()
}

// checkConserved sums what finance sees: per unit all postings together are zero, and nothing is in transit but what is stranded.
func (l Ledger) checkConserved(ctx context.Context, v *Verdict) error {
	rows, err := l.ClickHouse.Query(ctx, fmt.Sprintf(`SELECT currency, toString(sum(amount_minor)), toString(sumIf(amount_minor, account = ?))
		FROM %s.postings GROUP BY currency`, l.FinanceDatabase), transit)
	if err != nil {
		return fmt.Errorf("sum postings: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var currency, sum, waiting string
		if err := rows.Scan(&currency, &sum, &waiting); err != nil {
			return fmt.Errorf("sum postings: %w", err)
		}
		if want := sumOf(v.stranded, unitOf(currency)); sum != "0" || waiting != want.String() {
			v.complain("postings in %s sum to %s, those of %s to %s, expected %s", currency, sum, transit, waiting, want)
		}
	}
	return rows.Err()
}
