package reconciler

import (
	"context"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// between says up to which sequence Redis agrees with the log, and at which it does not any more; 0 where no event came after. It may be wider than it
// could be: of terms, and of what is held, events repeat what Redis says.
func (d *difference) between() (after, before uint64) {
	switch Class(d.class) {
	case BalanceDiffers, TermsDiffer:
		return max(d.repaired, 1), 0
	case RedisBehind:
		return d.redis.Sequence, d.redis.Sequence + 1
	case RedisAhead, AccountMissingInRedis:
		return d.log.Sequence, 0
	default: // the log does not say what is right
	}
	return 0, 0
}

// narrow tells from the history of an account when its balance went wrong: events say what Redis said. Only a full run sees all of them.
func (r *reconciliation) narrow(differences, histories []*Break) {
	if r.checkpoint != "" {
		return
	}
	wrong := map[string]uint64{} // the first sequence that says so
	for _, h := range histories {
		if _, known := wrong[h.Account]; h.Class == BalanceChainBroken && !known {
			wrong[h.Account] = h.before
		}
	}
	for _, b := range differences {
		if b.Class != BalanceDiffers || b.Redis.Balance.Cmp(b.Log.Balance) == 0 {
			continue
		}
		b.after = b.Redis.Sequence
		if first, ok := wrong[b.Account]; ok && first <= b.Redis.Sequence {
			b.after, b.before = first-1, first
		}
	}
}

// accountsPerQuery keeps a query's text below ClickHouse's default of 256 KiB: an account takes 128 bytes at most.
const accountsPerQuery = 1000

// place looks up where in the log the breaks of accounts lie. A clean run asks nothing.
func (r *reconciliation) place(ctx context.Context) error {
	var all []*Break
	for _, b := range r.report.Breaks {
		if b.Account != "" && b.To == 0 {
			all = append(all, b)
		}
	}
	for some := range slices.Chunk(all, accountsPerQuery) {
		at, err := r.positionsOf(ctx, some)
		if err != nil {
			return err
		}
		for _, b := range some {
			b.From, b.To = at[b.Account][b.after], at[b.Account][b.before]
			if b.before == 0 && b.Class.seenInRedis() {
				b.To = r.scans[b.Shard].end.Position
			}
		}
	}
	return nil
}

// seenInRedis says that a break of an account was seen in Redis when the run read it.
func (c Class) seenInRedis() bool {
	return c.inRedis() || c == AccountUnknownToLog || c == AccountUnreadable || c == HoldDiffers
}

// positionsOf looks up the positions of the sequences that breaks lie between, by account.
func (r *reconciliation) positionsOf(ctx context.Context, breaks []*Break) (map[string]map[uint64]uint64, error) {
	accounts, sequences := make([]string, len(breaks)), make([]uint64, 0, 2*len(breaks))
	for i, b := range breaks {
		accounts[i] = b.Account
		sequences = append(sequences, b.after, b.before)
	}
	rows, err := r.clickhouse.Query(ctx, `SELECT account, sequence, min(position) FROM events
		WHERE account IN (@accounts) AND sequence IN (@sequences) AND status = 'applied' GROUP BY account, sequence`,
		clickhouse.Named("accounts", accounts), clickhouse.Named("sequences", sequences))
	if err != nil {
		return nil, fmt.Errorf("look up where breaks lie: %w", err)
	}
	at := map[string]map[uint64]uint64{}
	err = scanAll(rows, func(scan func(...any) error) error {
		var account string
		var sequence, position uint64
		if err := scan(&account, &sequence, &position); err != nil {
			return err
		}
		if at[account] == nil {
			at[account] = map[uint64]uint64{}
		}
		at[account][sequence] = position
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up where breaks lie: %w", err)
	}
	return at, nil
}
