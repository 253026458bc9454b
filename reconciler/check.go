package reconciler

import (
	"context"
	"fmt"
	"math/big"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// doubt is what is wrong with the log of one shard. While it is, nothing of the shard is repaired: the log is what a repair
// would be made from.
type doubt struct {
	gaps       []*Break
	duplicates []*Break
	// conflicting accounts have events at a position that holds another event too: which of the two counts is not known, so
	// they are not compared.
	conflicting map[string]bool
}

// checkLog checks the positions of every shard up to where it is compared: 1 to the last, each once. Two numbers tell exactly,
// in one pass: how many rows, and how many different positions (a bitmap, one bit per event). Only where they disagree are the
// positions looked up one by one.
func (r *reconciliation) checkLog(ctx context.Context) error {
	r.doubts = make([]doubt, len(r.scans))
	rows, err := r.clickhouse.Query(ctx, `SELECT shard, count(), groupBitmap(position) FROM events
		WHERE position <= arrayElement(@ends, shard + 1) GROUP BY shard`, r.args()...)
	if err != nil {
		return fmt.Errorf("count positions: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	counts, distinct := make([]uint64, len(r.scans)), make([]uint64, len(r.scans))
	for rows.Next() {
		var shard uint16
		var n, positions uint64
		if err := rows.Scan(&shard, &n, &positions); err != nil {
			return fmt.Errorf("count positions: %w", err)
		}
		counts[shard], distinct[shard] = n, positions
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("count positions: %w", err)
	}
	for shard, s := range r.scans {
		r.report.Events += distinct[shard]
		if distinct[shard] != s.end.Position {
			if err := r.findGaps(ctx, shard); err != nil {
				return err
			}
		}
		if counts[shard] != distinct[shard] {
			if err := r.findDuplicates(ctx, shard); err != nil {
				return err
			}
		}
	}
	return nil
}

// findGaps makes one break per run of missing positions.
func (r *reconciliation) findGaps(ctx context.Context, shard int) error {
	end := r.scans[shard].end.Position
	rows, err := r.clickhouse.Query(ctx, `SELECT toUInt64(position + 1), toUInt64(following - 1) FROM (
			SELECT position, leadInFrame(position, 1, toUInt64(@end + 1)) OVER (ORDER BY position ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS following
			FROM (SELECT DISTINCT position FROM events WHERE shard = @shard AND position <= @end UNION ALL SELECT toUInt64(0))
		) WHERE following > position + 1 ORDER BY position LIMIT @most`,
		clickhouse.Named("shard", shard), clickhouse.Named("end", end), clickhouse.Named("most", r.cfg.BreaksMax+1))
	if err != nil {
		return fmt.Errorf("find gaps of shard %d: %w", shard, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	for rows.Next() {
		var from, to uint64
		if err := rows.Scan(&from, &to); err != nil {
			return fmt.Errorf("find gaps of shard %d: %w", shard, err)
		}
		r.doubts[shard].gaps = append(r.doubts[shard].gaps, &Break{
			Class: LogGap, Shard: shard, Action: Stop, Detail: fmt.Sprintf("ClickHouse lacks %s of shard %d", positions(from, to), shard),
		})
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("find gaps of shard %d: %w", shard, err)
	}
	if len(r.doubts[shard].gaps) == 0 {
		return fmt.Errorf("find gaps of shard %d: positions are missing and none was found; the log changed while it was read", shard)
	}
	return nil
}

// findDuplicates makes one break per run of neighbouring positions that are there more than once in the same manner.
func (r *reconciliation) findDuplicates(ctx context.Context, shard int) error {
	rows, err := r.clickhouse.Query(ctx, `SELECT position,
			uniqExact(account, sequence, command_id, operation, status, reason, counter_account, unit, delta, fingerprint, chain) > 1 AS conflict,
			groupUniqArray(100)(account)
		FROM events WHERE shard = @shard AND position <= @end
		GROUP BY position HAVING count() > 1 ORDER BY position LIMIT @most`,
		clickhouse.Named("shard", shard), clickhouse.Named("end", r.scans[shard].end.Position), clickhouse.Named("most", r.cfg.BreaksMax+1))
	if err != nil {
		return fmt.Errorf("find duplicates of shard %d: %w", shard, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	d := &r.doubts[shard]
	d.conflicting = map[string]bool{}
	var from, to uint64
	var conflicts bool
	flush := func() {
		if to == 0 {
			return
		}
		detail := fmt.Sprintf("ClickHouse has %s of shard %d more than once, with the same content", positions(from, to), shard)
		if conflicts {
			detail = fmt.Sprintf("ClickHouse has %s of shard %d more than once, with different content", positions(from, to), shard)
		}
		d.duplicates = append(d.duplicates, &Break{Class: LogDuplicate, Shard: shard, Action: Stop, Detail: detail})
	}
	for rows.Next() {
		var position uint64
		var conflict bool
		var accounts []string
		if err := rows.Scan(&position, &conflict, &accounts); err != nil {
			return fmt.Errorf("find duplicates of shard %d: %w", shard, err)
		}
		if conflict {
			for _, account := range accounts {
				d.conflicting[account] = true
			}
		}
		if position != to+1 || conflict != conflicts || to == 0 {
			flush()
			from, conflicts = position, conflict
		}
		to = position
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("find duplicates of shard %d: %w", shard, err)
	}
	flush()
	if len(d.duplicates) == 0 {
		return fmt.Errorf("find duplicates of shard %d: there are some and none was found; the log changed while it was read", shard)
	}
	return nil
}

func positions(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("position %d", from)
	}
	return fmt.Sprintf("positions %d to %d", from, to)
}

// inDoubt says that nothing of the shard may be repaired.
func (d *doubt) inDoubt() bool { return len(d.gaps)+len(d.duplicates) > 0 }

// explains says that a difference of an account follows from what is wrong with the shard's log, and is no break of its own:
// one missing event is one break, not three.
func (d *doubt) explains(b *Break) bool {
	if d.conflicting[b.Account] {
		return b.Class != AccountMissingInRedis && b.Class != AccountUnreadable
	}
	if len(d.gaps) == 0 {
		return false
	}
	return b.Class == LogGap || b.Class == RedisAhead || b.Class == AccountUnknownToLog
}

// accountsNamedMax bounds the detail of a break; the rest is counted.
const accountsNamedMax = 10

// nameAccounts adds to the first gap or duplicate which accounts it shows in.
func (d *doubt) nameAccounts(explained []*Break) {
	if len(explained) == 0 {
		return
	}
	var names []string
	for _, b := range explained[:min(len(explained), accountsNamedMax)] {
		names = append(names, fmt.Sprintf("%q (%s)", b.Account, b.Detail))
	}
	text := "; it shows in " + strings.Join(names, ", ")
	if more := len(explained) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more accounts", more)
	}
	if len(d.gaps) > 0 {
		d.gaps[0].Detail += text
		return
	}
	d.duplicates[0].Detail += text
}

// standing makes a Standing of what ClickHouse answers.
func standing(sequence uint64, balance, held, floor *big.Int, unit string) *Standing {
	return &Standing{Sequence: sequence, Balance: balance, Held: held, Floor: floor, Unit: unit}
}
