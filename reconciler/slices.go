package reconciler

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// granuleRows is ClickHouse's default of index_granularity: rows per entry of the primary index.
const granuleRows = 8192

// args are the named values of accounts.sql.
func (r *reconciliation) args(s slice, more ...any) []any {
	since, starts, ends := make([]int64, len(r.scans)), make([]uint64, len(r.scans)), make([]uint64, len(r.scans))
	for shard, scan := range r.scans {
		since[shard], starts[shard], ends[shard] = scan.since.UnixMilli(), scan.start.Position, scan.end.Position
	}
	return append([]any{
		clickhouse.Named("run", r.id), clickhouse.Named("since", since), clickhouse.Named("starts", starts), clickhouse.Named("ends", ends),
		clickhouse.Named("lo", s.lo), clickhouse.Named("hi", s.hi), clickhouse.Named("checkpoint", r.checkpoint), clickhouse.Named("cuts", r.cuts),
	}, more...)
}

// slice is a range of accounts: from lo on, below hi; an empty hi is the end.
type slice struct{ lo, hi string }

// sliceOf is the i-th slice of those that begin at bounds.
func sliceOf(bounds []string, i int) slice {
	if i+1 == len(bounds) {
		return slice{lo: bounds[i]}
	}
	return slice{lo: bounds[i], hi: bounds[i+1]}
}

// cutSlices cuts the accounts into slices, and notes where each begins.
func (r *reconciliation) cutSlices(ctx context.Context) (err error) {
	switch {
	case r.resumed != nil:
		r.bounds = r.resumed.Bounds
	case r.ahead != nil:
		r.bounds = r.ahead.bounds
	default:
		if r.bounds, err = r.sampleBounds(ctx); err != nil {
			return err
		}
	}
	return r.writeProgress(ctx, r.bounds)
}

// sampleBounds cuts the accounts into ranges of about SliceRows events each, and returns where each begins; the first one begins at "".
// The table is ordered by account, so its primary index, of which ClickHouse keeps one entry per 8,192 rows in memory, is a sample of
// the accounts that says where to cut, whatever the accounts are called and however hot some are.
func (r *reconciliation) sampleBounds(ctx context.Context) ([]string, error) {
	entries := max(1, r.cfg.SliceRows/granuleRows)
	var bounds []string
	err := r.clickhouse.QueryRow(ctx, `SELECT groupArray(account) FROM (
			SELECT account, row_number() OVER (ORDER BY account) AS n FROM mergeTreeIndex(currentDatabase(), 'events')
		) WHERE n % @entries = 0`, clickhouse.Named("entries", entries)).Scan(&bounds)
	if err != nil {
		return nil, fmt.Errorf("cut accounts into slices: %w", err)
	}
	distinct := []string{""}
	for _, account := range bounds { // in order; a hot account fills several entries, and stays in one slice
		if account > distinct[len(distinct)-1] {
			distinct = append(distinct, account)
		}
	}
	return distinct, nil
}

// finishedSlices are the slices that an earlier life of this run compared, by number.
func (r *reconciliation) finishedSlices(ctx context.Context) (map[int]*sliceResult, error) {
	finished := map[int]*sliceResult{}
	if r.resumed == nil {
		return finished, nil
	}
	rows, err := r.clickhouse.Query(ctx, "SELECT slice, result FROM reconciliation_slices FINAL WHERE run_id = @run AND slice != @progress",
		clickhouse.Named("run", r.id), clickhouse.Named("progress", uint32(progressSlice)))
	if err != nil {
		return nil, fmt.Errorf("read finished slices: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	for rows.Next() {
		var number uint32
		var text string
		if err := rows.Scan(&number, &text); err != nil {
			return nil, fmt.Errorf("read finished slices: %w", err)
		}
		result := &sliceResult{}
		if err := json.Unmarshal([]byte(text), result); err != nil {
			return nil, fmt.Errorf("read finished slice %d: %w", number, err)
		}
		finished[int(number)] = result
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read finished slices: %w", err)
	}
	return finished, nil
}

func (r *reconciliation) writeSlice(ctx context.Context, number int, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("write slice %d: %w", number, err)
	}
	return r.insert(ctx, "INSERT INTO reconciliation_slices (run_id, slice, result, at)", func(batch driver.Batch) error {
		return batch.Append(r.id, uint32(number), string(text), r.now())
	})
}

// scanAll calls each for every row, and closes them.
func scanAll(rows driver.Rows, each func(scan func(...any) error) error) error {
	defer func() { _ = rows.Close() }() // rows.Err below has the error that counts
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
