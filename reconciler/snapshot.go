package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hotledger/hotledger/lua"
)

// scan is one complete reading of a shard's accounts in Redis.
type scan struct {
	shard      int
	generation string
	start      lua.Head      // before the first page
	end        lua.Head      // after the last page
	heads      []lua.Head    // every distinct head that a page was read at, in order, start and end included
	log        logEnd        // Kafka before the first page
	redisEnd   lua.Head      // end, as Redis said; end is lower where unlogged
	late       time.Duration // how far ClickHouse was behind Kafka when the reading began
	unlogged   bool          // what lies between end and redisEnd was never published
	since      time.Time     // rows of account_snapshots with an earlier read_at belong to a reading that was given up
	unreadable map[string]string
	rows       int
}

// errChanged says that a shard was rebuilt or rolled back while it was read: the reading is worth nothing, another one may be.
var errChanged = errors.New("the shard changed hands while it was read")

// unreadableMax bounds the records kept in memory for the report.
const unreadableMax = 1000

// snapshot reads a shard page by page into ledger.account_snapshots.
//
// Why pages read at different moments are good enough: the accounts are compared one by one, each at its own sequence, so they
// need not be of one moment. What each needs is to be the fold of the log up to some position at or after the start. Redis gives
// that: an account changes only together with the head, and a page is read together with the head in one transaction. If that head
// turns out to be in the log (barrier.go), then the page is a fold of the log.
func (r *reconciliation) snapshot(ctx context.Context, shard int, since time.Time) (*scan, error) {
	head, err := r.store.Head(ctx, shard)
	if err != nil {
		return nil, err
	}
	s := &scan{
		shard: shard, generation: head.Generation, start: head.Head, end: head.Head, heads: []lua.Head{head.Head},
		since: since, unreadable: map[string]string{},
	}
	rows := r.newSnapshotRows(s)
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		page, next, err := r.readPage(ctx, s, cursor)
		if err != nil {
			return nil, err
		}
		if err := rows.add(ctx, page); err != nil {
			return nil, err
		}
		cursor = next
		if rate := r.cfg.AccountsPerSecond; rate > 0 && cursor != 0 {
			select {
			case <-time.After(time.Duration(len(page)) * time.Second / time.Duration(rate)):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	if err := rows.flush(ctx); err != nil {
		return nil, err
	}
	if err := r.snapshotHolds(ctx, s); err != nil {
		return nil, err
	}
	head, err = r.store.Head(ctx, shard)
	if err != nil {
		return nil, err
	}
	return s, s.moveTo(head)
}

// moveTo takes note of the head of the next page.
func (s *scan) moveTo(head lua.ShardHead) error {
	if head.Generation != s.generation {
		return fmt.Errorf("shard %d: %w: generation %q became %q", s.shard, errChanged, s.generation, head.Generation)
	}
	if head.Position < s.end.Position {
		return fmt.Errorf("shard %d: %w: its head went back from %s to %s", s.shard, errChanged, s.end, head.Head)
	}
	if head.Head != s.end {
		s.heads = append(s.heads, head.Head)
		s.end = head.Head
	}
	return nil
}

// readPage reads about PageSize accounts.
func (r *reconciliation) readPage(ctx context.Context, s *scan, cursor uint64) ([]lua.Account, uint64, error) {
	fields, next, err := r.readFields(ctx, s, lua.AccountsKey(s.shard), cursor)
	if err != nil {
		return nil, 0, err
	}
	page := make([]lua.Account, len(fields))
	for i, f := range fields {
		if page[i], err = lua.ParseAccount(f[0], f[1]); err != nil {
			if len(s.unreadable) < unreadableMax {
				s.unreadable[f[0]] = err.Error()
			}
			page[i] = lua.Account{ID: f[0]} // without a unit: that is how accounts.sql knows it
		}
	}
	return page, next, nil
}

// readFields reads some fields of a hash of the shard, names and values, and moves s to the head of that moment.
func (r *reconciliation) readFields(ctx context.Context, s *scan, key string, cursor uint64) ([][2]string, uint64, error) {
	page, err := r.store.ReadPage(ctx, s.shard, key, cursor, int64(r.cfg.PageSize))
	if err != nil {
		return nil, 0, err
	}
	return page.Fields, page.Next, s.moveTo(page.Head)
}

// snapshotRows collects accounts and inserts them in blocks: few parts in ClickHouse, bounded memory here.
type snapshotRows struct {
	run  *reconciliation
	scan *scan
	page []lua.Account
}

const snapshotBlockRows = 50_000

func (r *reconciliation) newSnapshotRows(s *scan) *snapshotRows {
	return &snapshotRows{run: r, scan: s}
}

func (w *snapshotRows) add(ctx context.Context, page []lua.Account) error {
	w.page = append(w.page, page...)
	if len(w.page) < snapshotBlockRows {
		return nil
	}
	return w.flush(ctx)
}

func (w *snapshotRows) flush(ctx context.Context) error {
	if len(w.page) == 0 {
		return nil
	}
	batch, err := w.run.clickhouse.PrepareBatch(ctx, `INSERT INTO account_snapshots
		(run_id, shard, account, sequence, balance, held, floor, ceiling, unit, status, generation, read_at)`)
	if err != nil {
		return fmt.Errorf("insert snapshot of shard %d: %w", w.scan.shard, err)
	}
	defer func() { _ = batch.Close() }() // after Send there is nothing left to close
	readAt := laterThan(w.scan.since)
	for _, a := range w.page {
		if err := batch.Append(w.run.id, uint16(w.scan.shard), a.ID, a.Sequence, a.Balance, a.Held, a.Floor, a.Ceiling, a.Unit, a.Status,
			w.scan.generation, readAt); err != nil {
			return fmt.Errorf("insert snapshot of shard %d: %w", w.scan.shard, err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert snapshot of shard %d: %w", w.scan.shard, err)
	}
	w.scan.rows += len(w.page)
	w.page = w.page[:0]
	return nil
}

// laterThan is now, in the table's milliseconds, and never before since: the clock may be set back.
func laterThan(since time.Time) time.Time {
	now := time.Now().UTC().Truncate(time.Millisecond)
	if now.Before(since) {
		return since
	}
	return now
}
